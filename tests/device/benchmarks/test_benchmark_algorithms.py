"""The benchmark of algorithms on the emulator: every row is there, and a wrong result gives no figure."""

from __future__ import annotations

import json
from pathlib import Path

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
