"""Counts of random recordings in several processes are those of all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import vyre_cuda as vc

from . import many_recordings
from .stopping_recordings import STOPS

pytestmark = [pytest.mark.device, pytest.mark.emulator]

ROOT = Path(__file__).parents[3]


def recorded(folder: Path, *words: str | Path) -> tuple[Path, dict[str, Any]]:
    """The file of three recordings."""
    command = [sys.executable, "-m", "tests.device.graphs.many_recordings", "--processes", "1", "--count", "3", *words]
    environment = {**os.environ, "OUT": str(folder)}
    child = subprocess.run([*map(str, command)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "written" in child.stdout, child.stderr
    (path,) = folder.iterdir()
    return path, json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.thin
@pytest.mark.slow
def test_counts_of_several_runs_are_added(tmp_path: Path) -> None:
    first, one = recorded(tmp_path / "first")
    _, both = recorded(tmp_path / "both", "--add", first)

    assert (one["count"], both["first"], both["count"], both["wrong"]) == (3, 0, 6, [])
    assert one["counts"]["recordings"] == 3
    assert both["counts"]["recordings"] == 6
    assert both["counts"]["as fused"] == 36  # six replays of each


@pytest.mark.thin
@pytest.mark.slow
def test_a_recording_that_never_ends_is_told_and_the_others_are_made(tmp_path: Path) -> None:
    words = ["--count", "6", "--processes", "2", "--alone", "2", "--limit", "600", "--output", str(tmp_path)]
    status = many_recordings.main(words, "tests.device.graphs.stopping_recordings:Stopping")
    (path,) = tmp_path.glob("*.json")
    told = json.loads(path.read_text(encoding="utf-8"))
    (stop,) = told["stopped"]
    (look,) = tmp_path.glob(f"*/together/{stop['evidence']}/look")

    assert status == 1
    assert (told["count"], told["counts"]["recordings"], told["left"]) == (6, 5, [])
    assert (stop["seed"], stop["how"], stop["step"]) == (STOPS, "hung", "reads what a kernel never gives")
    assert stop["alone"] == {"ended": 0, "stopped": 1, "wrong": 0}
    assert "spins" in look.read_text(encoding="utf-8")


def test_an_error_of_the_device_is_told_with_the_kind_and_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(device: Any, kernels: Any, seeds: range, tell: Any) -> Any:
        tell("fused, replay 1")
        raise vc.DeviceLostError("it is lost")

    monkeypatch.setattr(many_recordings, "compare", compare)
    monkeypatch.setattr(many_recordings, "Kernels", lambda device: None)
    here = many_recordings.Recordings("emulator", lambda step: None)
    try:
        assert here.one(40049, lambda step: None) == ({}, "table, fused, replay 1: DeviceLostError: it is lost", False)
    finally:
        here.device.close()


def test_core_dumps_lie_beside_the_file(tmp_path: Path) -> None:
    options = many_recordings.options_of(["--core-dumps", "--output", str(tmp_path)])
    environment = many_recordings.environment_of(options)

    assert environment["CUDA_ENABLE_COREDUMP_ON_EXCEPTION"] == "1"
    assert Path(environment["CUDA_COREDUMP_FILE"]).parent == tmp_path
    assert "CUDA_COREDUMP_FILE" not in many_recordings.environment_of(many_recordings.options_of([]))


def test_a_file_of_results_names_no_folder_of_the_machine() -> None:
    package, here = Path(vc.__file__).parent / "errors.py", Path(__file__)

    told = many_recordings.without_folders(f"lost at {package}:3 and {here}:4\nmore")

    assert told == "lost at vyre_cuda/errors.py:3 and tests/device/graphs/test_many_recordings.py:4"
