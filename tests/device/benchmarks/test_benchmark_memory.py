"""The benchmark of large arrays on the emulator: every row is there, and a wrong result gives no figure."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
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
def test_every_row_is_measured_and_has_no_verdict_on_the_emulator(tmp_path: Path) -> None:
    child = run_script("bench_memory.py", "--device", "emulator", "--output", tmp_path)

    assert child.returncode == 0, child.stderr + child.stdout
    (path,) = tmp_path.glob("*-memory.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    rows = content["rows"]
    assert {row["type"] for row in rows if row["task"] == "saxpy"} == {"f32", "f16", "u8", "f64"}
    tasks = {"copy", "mathematics", "transpose, tile of 32", "softmax", "4 a thread, neighbors", "saxpy, 2^10"}
    assert {row["task"] for row in rows} >= tasks
    assert all(row["gb_s"] > 0 and row["verdict"] == "" for row in rows)
    assert content["absent"].keys() == {"cupy", "torch"}


def test_rows_beyond_the_time_limit_are_named(tmp_path: Path) -> None:
    child = run_script("bench_memory.py", "--device", "emulator", "--limit", "0", "--output", tmp_path)

    assert child.returncode == 0, child.stderr + child.stdout
    assert "not measured: softmax: the time limit was reached" in child.stdout


def test_a_wrong_result_gives_no_figure() -> None:
    bench = harness("bench_memory")
    with vc.Device("emulator") as device:
        out = device.array(np.ones(4096, np.float32))
        with pytest.raises(ValueError, match="ours is wrong at 0 of 4096"):
            bench.checked(out, np.zeros(bench.PERIOD, np.float32), True, "ours")


def test_a_peer_may_round_once() -> None:
    bench = harness("bench_memory")
    wanted = np.full(bench.PERIOD, 20, np.float16)
    near, far = np.nextafter(wanted, np.float16(100)), wanted * np.float16(1.01)
    with vc.Device("emulator") as device:
        bench.checked(device.array(near), wanted, False, "a peer")
        with pytest.raises(ValueError, match="ours is wrong"):
            bench.checked(device.array(near), wanted, True, "ours")
        with pytest.raises(ValueError, match="a peer is wrong"):
            bench.checked(device.array(far), wanted, False, "a peer")


def test_less_than_asked_is_missed() -> None:
    bench = harness("bench_memory")
    with vc.Device("emulator") as device:
        run = bench.Bench(device, False, 60.0)
        run.add("a", vc.f32, 1, {"vyre_cuda": 1.0, "peer": 2.0}, 1.5)
        run.add("b", vc.f32, 1, {"vyre_cuda": 2.0}, 1.5)

    assert [row.verdict for row in run.rows] == ["missed", "met"]
    assert run.rows[0].peers == {"peer": 2.0}
