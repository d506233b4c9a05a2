"""The benchmarks run from end to end on the emulator, say that they did, and do not let a wrong result pass."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

pytestmark = [pytest.mark.device, pytest.mark.emulator, pytest.mark.slow]


def run_script(script: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """A script of the benchmarks folder in a process of its own."""
    command = [sys.executable, str(BENCHMARKS / script), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def dispatch(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The result file of one quick run, and what it printed."""
    folder = tmp_path_factory.mktemp("results")
    words = ["--device", "emulator", "--quick", "--peers", "cupy", "--commit", "c0ffee", "--output"]
    child = run_script("bench_dispatch.py", *words, folder)
    assert child.returncode == 0, child.stderr
    (path,) = folder.iterdir()
    return path, child.stdout


@pytest.fixture
def result(dispatch: tuple[Path, str]) -> dict[str, Any]:
    """The content of the result file."""
    content: dict[str, Any] = json.loads(dispatch[0].read_text(encoding="utf-8"))
    return content


def test_every_figure_stands_beside_its_twin_of_the_same_run(result: dict[str, Any]) -> None:
    twins = {row["id"]: row["series"] for row in result["twins"]}
    for row in result["figures"]:
        assert row["twin_median_us"] == twins[row["twin"]]["median_us"] > 0
        assert row["ratio"] == pytest.approx(row["series"]["median_us"] / row["twin_median_us"], rel=1e-3, abs=1e-4)
        assert len(row["series"]["passes"]) == len(twins[row["twin"]]["passes"]) == 2


def test_the_three_tasks_have_figures(result: dict[str, Any]) -> None:
    assert {"launch_enqueue", "launch_sync", "host_dispatch"} <= {row["task"] for row in result["figures"]}


def test_an_emulator_run_says_so(dispatch: tuple[Path, str], result: dict[str, Any]) -> None:
    assert result["environment"]["emulator"] is True
    assert dispatch[0].name.startswith("emulator-")
    assert dispatch[1].rstrip().endswith("no measurements")


def test_the_file_names_commit_device_and_driver(result: dict[str, Any]) -> None:
    with vc.Device("emulator") as device:
        version = device.properties.driver_version
        expected = ("c0ffee", device.properties.name, f"{version // 1000}.{version % 1000 // 10}")
    environment = result["environment"]
    assert expected == (environment["commit"], environment["device"], environment["driver_api"])


def test_a_peer_that_cannot_run_is_noted(result: dict[str, Any]) -> None:
    assert {row["peer"] for row in result["peers"] + result["peer_failures"]} == {"cupy"}


def test_compare_of_a_file_with_itself_finds_no_change(dispatch: tuple[Path, str], result: dict[str, Any]) -> None:
    child = run_script("compare.py", dispatch[0], dispatch[0])
    assert child.returncode == 0
    assert child.stdout.count("1.000") >= len(result["figures"]) + len(result["twins"])


@pytest.mark.parametrize("change", [{"schema": 999}, {"figures": [{"id": "x"}]}, {"twins": None}])
def test_compare_refuses_another_file(change: dict[str, Any], result: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps({**result, **change}), encoding="utf-8")
    child = run_script("compare.py", path, path)
    assert child.returncode == 1
    assert child.stderr.startswith(str(path))


class Harness:
    """The modules of the harness that a test steers."""

    def __init__(self) -> None:
        self.inputs, self.processes, self.saxpy, self.timing, self.twins = (
            importlib.import_module(f"harness.{name}") for name in ("inputs", "processes", "saxpy", "timing", "twins")
        )

    def wrong_sets(self) -> list[Any]:
        """Input sets of which one expects another last bit in one element."""
        sets = list(self.inputs.input_sets(1))
        expected = sets[0].expected.copy()
        expected.view(np.uint32)[1000] ^= 1
        sets[0] = replace(sets[0], expected=expected)
        return sets


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return Harness()


@pytest.fixture
def emulated() -> Any:
    with vc.Device("emulator") as device:
        yield device


def test_a_twin_with_one_wrong_bit_gives_no_figure(harness: Harness, emulated: vc.Device, tmp_path: Path) -> None:
    library = str(Path(vc.get_library_dir()) / "libvyre_cuda_emulator.so")
    lowered = harness.saxpy.lowered_for(emulated)
    twins = harness.twins.prepare(tmp_path, lowered, harness.wrong_sets(), driver=library, binary=None, quick=True)
    with pytest.raises(harness.processes.ChildFailed, match="launch_enqueue_kernel: wrong result in set 0"):
        twins.run()


@pytest.mark.parametrize("way", ["call_enqueue_same", "launch_sync", "host_dispatch_out", "host_dispatch_new"])
def test_python_with_one_wrong_bit_gives_no_figure(way: str, harness: Harness, emulated: vc.Device) -> None:
    saxpy = harness.saxpy.Saxpy(emulated, harness.wrong_sets(), harness.timing.QUICK)
    with pytest.raises(harness.timing.WrongResult, match="element 1000"):
        harness.saxpy.WAYS[way](saxpy, way)


def test_the_twin_gets_the_kernel_that_python_runs(harness: Harness, emulated: vc.Device) -> None:
    assert harness.saxpy.lowered_for(emulated).ptx == emulated.compile(harness.saxpy.program()).ptx


def test_the_offline_figures_are_positive_and_named(tmp_path: Path) -> None:
    child = run_script("bench_offline.py", "--quick", "--output", tmp_path)

    assert child.returncode == 0, child.stderr
    (path,) = tmp_path.glob("*-offline.json")
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    assert figures["emulator_instructions_per_second"] > 0
    for stage in ("passes_by_ops", "lowering_by_ops"):
        assert set(figures[stage]) == {"50", "200", "1000", "4000"}
        assert all(value > 0 for row in figures[stage].values() for value in row.values())
    assert figures["import_ms_beyond_numpy"] > 0
