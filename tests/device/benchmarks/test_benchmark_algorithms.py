"""The benchmark of algorithms on the emulator: every row is there, and a wrong result gives no figure."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

from ..benchmark_scripts import harness

pytestmark = [
    pytest.mark.device,
    pytest.mark.emulator,
    pytest.mark.slow,
    pytest.mark.usefixtures("benchmarks_are_importable"),
]


def test_every_row_is_measured_and_has_no_verdict_on_the_emulator(algorithms_benchmark: tuple[Path, str]) -> None:
    path = algorithms_benchmark[0]
    assert path.name.endswith("-algorithms.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    rows = content["rows"]
    tasks = {task.name for task in harness("bench_algorithms").TASKS}
    waited = {f"{task} to completion" for task in ("sum f32", "cumsum f32", "sort u32 with u32")}
    assert {row["task"] for row in rows} == {*tasks, *waited, "matmul f32"}
    assert all(row["ms"] > 0 and row["verdict"] == "" for row in rows)
    assert content["absent"].keys() == {"cupy", "torch", "cub"}


def test_a_wrong_result_gives_no_figure() -> None:
    bench = harness("bench_algorithms")
    task = bench.TASKS[0]
    wrong = bench.Task(
        "sum f32", task.inputs, lambda x: vc.algorithms.sum(x, 0 if isinstance(x, vc.DeviceArray) else ()), 4, 1
    )
    with vc.Device("emulator") as device, pytest.raises(ValueError, match="sum f32 is wrong"):
        bench.check(device, wrong)


class Event:
    """As CuPy's and PyTorch's."""

    def __init__(self, **_: bool) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, later: Event) -> float:
        return (later.at - self.at) * 1e3


def library(**functions: Any) -> SimpleNamespace:
    """NumPy in place of a library; arrays of a device are copied to the host."""

    def shared(array: Any, device: str = "cuda") -> np.ndarray:
        return array.numpy()

    cuda = SimpleNamespace(
        Event=Event,
        ExternalStream=lambda handle: nullcontext(),
        get_elapsed_time=lambda begin, end: begin.elapsed_time(end),
        is_available=lambda: True,
    )
    same = {name: getattr(np, name) for name in ("sum", "cumsum", "sort", "bincount", "matmul", "uint32")}
    return SimpleNamespace(cuda=cuda, asarray=shared, as_tensor=shared, **(same | functions))


def program_of_cub(folder: Path) -> Path:
    """Prints a figure of each task and number of elements, as the program of cub.cu does."""
    tasks = [task.name for task in harness("bench_algorithms").TASKS]
    tasks += ["compress u32 by flags", "empty to completion", *(f"{task} to completion" for task in tasks)]
    lines = "".join(f"  printf '{task}\\t%s\\t0.125\\n' $((n {'/ 2' if 'u64' in task else ''}))\n" for task in tasks)
    program = folder / "cub"
    program.write_text(f'#!/bin/sh\nfor n in "$@"; do\n{lines}done\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def test_peers_stand_beside_the_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = harness("bench_algorithms")

    def refused(*_: Any, **__: Any) -> None:
        raise TypeError("not for uint8")

    libraries = {"cupy": library(), "torch": library(int32=np.int32, uint32=np.uint32, bincount=refused)}
    monkeypatch.setattr(bench.peers, "found", libraries.get)
    monkeypatch.setattr(bench, "WAITS", 2)
    monkeypatch.setattr(bench, "ROUNDS", 1)
    with vc.Device("emulator") as device:
        run = bench.Bench(device, False, 600)
        run.compare_with_cub([1024, 1 << 26], program_of_cub(tmp_path))
        for task in bench.TASKS:
            bench.measure(run, task, 512 if "u64" in task.name else 1024)
        bench.completions(run, 1024)
        bench.product(run, 8)
    rows = {row.task: row for row in run.rows}
    alone = {"sort u32 with u32", "sort u64 with u32"}
    for task in bench.TASKS:
        wanted = {"CUB"} if task.name in alone else {"CUB", "CuPy", "PyTorch"}
        wanted -= {"PyTorch"} if task.name == "bincount u8" else set()
        wanted |= {"CUB by flags"} if task.name == "compress u32" else set()
        assert rows[task.name].peers.keys() == wanted
    assert rows["matmul f32"].peers.keys() == {"CuPy", "PyTorch"}
    waited = rows["sort u32 with u32 to completion"]
    assert waited.peers["CUB"] == waited.peers["CUDA's empty"] == 0.125
    assert waited.verdict == ("met" if waited.ms <= waited.to_reach else "missed")
    assert list(run.absent) == ["torch, bincount u8, 1024"]


def test_a_program_of_cub_that_fails_leaves_its_reason(tmp_path: Path) -> None:
    program = tmp_path / "cub"
    program.write_text("#!/bin/sh\necho 'no device' >&2\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    assert harness("bench_algorithms").peers.cub([1024], program) == "CUB: no device"
