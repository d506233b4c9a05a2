"""The tool itself: what is wrong is found, reduced and written down; processes that die are replaced."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import oracle_expr
import pytest
from findings import Findings, finding, read_finding
from judge import WRONG, Judge
from oracle import OutOfFuel
from pool import Pool
from program_text import program_text
from random_cases import Case, draw_case
from reduce_case import reduced
from worker import Report, Share

import vyre_cuda as vc

RUN = Path(__file__).parent / "run.py"


def run(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUN), "--device", "emulator", "--output", str(tmp_path), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.thin
@pytest.mark.slow
def test_a_run_counts_what_it_did(tmp_path: Path) -> None:
    done = run(tmp_path, "--programs", "40", "--processes", "2", "--seed", "3")

    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["programs"] + summary["discarded"] == 40
    assert (summary["seed"], summary["first"], summary["last"]) == (3, 0, 39)
    assert summary["wrong"] == summary["refused"] == 0


def wrong_case(judge: Judge, profile: str) -> tuple[int, Case]:
    for number in range(400):
        try:
            case = draw_case(profile, 2, number)
        except OutOfFuel:
            continue
        assert isinstance(case, Case)
        if judge.judge(case).state == WRONG:
            return number, case
    raise AssertionError("nothing was found")


@pytest.mark.thin(3)
@pytest.mark.emulator
@pytest.mark.slow
@pytest.mark.parametrize("profile", ["general", "folding", "lockstep"])
def test_a_wrong_op_is_found_and_reduced_to(
    device: vc.Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, profile: str
) -> None:
    judge = Judge(device)
    for type_ in ("u32", "i32", "u64", "i64"):
        right = oracle_expr.OPS[type_]["bitwise_xor"]
        monkeypatch.setitem(oracle_expr.OPS[type_], "bitwise_xor", lambda x, y, right=right: right(x, y) ^ 1)

    number, case = wrong_case(judge, profile)
    program = reduced(judge, case, limit_s=250)

    text = program_text(program)
    assert "bitwise_xor" in text
    assert len(text.splitlines()) < 20
    verdict = judge.judge(case)
    Findings(tmp_path).add(finding(case, verdict, profile=profile, seed=2, number=number), profile=profile, seed=2)
    again, bundled = read_finding(tmp_path / f"wrong-{case.kind}-{number}.json")
    assert not bundled
    assert again is not None
    assert judge.judge(again).differences == verdict.differences


@pytest.mark.thin
@pytest.mark.slow
def test_a_process_that_dies_is_replaced_and_its_case_reported() -> None:
    """It has more to do than it could, and is killed at one of its cases; the test ends when the other goes on."""
    share = Share(0, 0, 1, 10**6, time.monotonic() + 10_000, "folding", 4, "emulator", bundles=0, large=False)
    pool = Pool([share])
    reports: list[Report] = []
    try:
        for report in pool.reports(10_000.0):
            assert report is not None
            reports.append(report)
            if len(reports) == 10:
                os.kill(pool._running[0].process.pid, signal.SIGKILL)
            if reports[-2:-1] and reports[-2].state == "refused":
                break
    finally:
        pool.close()

    died = reports[-2].number
    assert reports[-1].number == died + 1
    assert sum(report.state == "refused" for report in reports) == 1
    assert pool.problems == [f"process 0 died at case {died}"]
