"""The benchmark of graphs with and without merged steps, on the emulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import vyre_cuda as vc

from ..benchmark_scripts import harness, run_script

pytestmark = [
    pytest.mark.device,
    pytest.mark.emulator,
    pytest.mark.slow,
    pytest.mark.usefixtures("benchmarks_are_importable"),
]


@pytest.mark.thin
def test_both_forms_are_measured_and_have_no_verdict_on_the_emulator(tmp_path: Path) -> None:
    child = run_script("bench_graphs.py", "--device", "emulator", "--quick", "--output", tmp_path)

    assert child.returncode == 0, child.stderr + child.stdout
    (path,) = tmp_path.glob("*-graphs.json")
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert {row["name"]: row["nodes"] for row in rows} == {
        "small, the driver alone": 1,
        "small, fused, without turns": 1,
        "small, as recorded": 10,
        "small, fused": 1,
        "large, as recorded": 5,  # one of them is the emulator's fill of temporary arrays
        "large, fused": 1,
        "large, a copy of these bytes": 1,
        "independent, as recorded": 20,
        "independent, fused": 1,
        "independent, one kernel": 1,
        "independent, cleared, as recorded": 40,
        "independent, cleared, fused": 2,
        "independent, cleared, one kernel": 2,
        "symbol, the driver alone": 1,
        "symbol, the driver alone, 99 %": 1,
        "symbol, as recorded": 20,
        "symbol, fused, no new value": 1,
        "symbol, fused": 1,
        "symbol, no new value, 99 %": 1,
        "symbol, fused, 99 %": 1,
        "symbol, apart, the driver alone": 21,
        "symbol, apart, the driver alone, 99 %": 21,
        "symbol, apart, as recorded": 20,
        "symbol, apart, fused, no new value": 21,
        "symbol, apart, fused": 21,
        "symbol, apart, no new value, 99 %": 21,
        "symbol, apart, fused, 99 %": 21,
        "eight kernels, the driver alone": 1,
        "eight kernels, as recorded": 64,
        "eight kernels, fused": 1,
        "30 pairs, as recorded": 60,
        "30 pairs, a kernel each": 30,
        "30 pairs, fused": 2,
        "loop, the driver alone": 1,
        "loop, as recorded": 10,
        "loop, fused": 1,
    }
    assert all(row["us"] > 0 and row["verdict"] == "" for row in rows)


def test_wrong_results_give_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = harness("bench_graphs")
    monkeypatch.setattr(bench, "step", lambda place, made=bench.step: made(place + (place == 3)))
    with vc.Device("emulator") as device, pytest.raises(ValueError, match="wrong results from element 0 on"):
        bench.chain(device, 4, 4096, fuse=True, temporaries=True)


def test_slower_than_asked_is_missed() -> None:
    bench = harness("bench_graphs")

    assert bench.row("a", None, 8.0, 7.0, judged=True).verdict == "missed"
    assert bench.row("b", None, 7.0, 7.0, judged=True).verdict == "met"
    assert bench.row("c", None, 8.0, 7.0, judged=False).verdict == ""
