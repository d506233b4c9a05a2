"""What steps of a graph take here, beside the table by which graphs are fused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.cli import steps, timing
from vyre_cuda.passes.floors import FLOORS, Floors, floors_of
from vyre_cuda.testing.emulator import Emulator

TABLE = floors_of((9, 0))
ALIKE = {"chained": TABLE.chained, "beside": 1.3 * TABLE.beside, "barrier": TABLE.barrier / 1.3}


@pytest.mark.cuda
def test_each_kind_of_step_takes_time(device: vc.Device) -> None:
    # They are differences of times: an emulator shares its processor with others, and a GPU may be shared too.
    for _ in range(5):
        found = steps.measured(device, 3)
        assert set(found) == {"chained", "beside", "barrier"}
        if device.properties.is_emulator or all(us > 0 for us in found.values()):
            return
    pytest.fail(f"{found}")


@pytest.mark.emulator
def test_each_kind_of_step_is_measured(device: vc.Device, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that counts the instructions of the kernels, so that a busy machine measures the same."""
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter_ns=lambda: emulator.count("instructions")))
    kernel = device.compile(steps._reversing())
    x, z = device.array(np.ones(256, np.float32)), device.zeros(256, vc.f32)
    before = emulator.count("instructions")
    kernel.launch(x, z)
    device.synchronize()
    step = (emulator.count("instructions") - before) / 1e3

    found = steps.measured(device, 3)

    assert found == {"chained": step, "beside": step, "barrier": found["barrier"]}
    assert 0 < found["barrier"] < step  # a pass of the loop has fewer instructions than its kernels


def test_nothing_is_fused_where_fusing_is_off(device: vc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CUDA_FUSE", "off")

    assert set(steps.measured(device, 3)) == {"chained", "beside"}


def test_a_machine_like_the_table_is_fine() -> None:
    (found,) = steps.judged((9, 0), ALIKE)

    assert (found.subject, found.status) == ("fusing", "ok")
    assert f"a node that needs the one before {TABLE.chained:.2f} us" in found.text


@pytest.mark.parametrize("times", [2.0, 0.4])
@pytest.mark.parametrize("name", sorted(ALIKE))
def test_each_figure_that_differs_is_named(name: str, times: float) -> None:
    (found,) = steps.judged((9, 0), {**ALIKE, name: ALIKE[name] * times})

    assert found.status == "note"
    assert (
        f"takes {ALIKE[name] * times:.2f} us; graphs are fused as if it took {getattr(TABLE, name):.2f}" in found.text
    )


def test_an_unknown_architecture_has_the_figures_of_the_newest_older_one(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = Floors(0.5, 0.4, 0.1, rows=3, rows_of_merged=5, rows_of_block=7, chains=2)
    monkeypatch.setitem(FLOORS, (10, 0), newer)

    assert floors_of((12, 0)) == floors_of((10, 0)) == newer
    assert floors_of((9, 0)) == floors_of((9, 5)) == floors_of((8, 0)) == TABLE


def test_the_table_decides_what_is_fused(device: vc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    b = vc.Builder("reversed", block=32)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[x.size - 1 - i]
    kernel = device.compile(b.build())
    nodes = []
    for rows in (2, 3):
        monkeypatch.setitem(
            FLOORS, (9, 0), Floors(0.9, 0.8, 0.2, rows=rows, rows_of_merged=rows, rows_of_block=9, chains=8)
        )
        arrays = [device.zeros(2000, vc.f32) for _ in range(4)]
        with device.record(fuse=True) as graph:
            kernel.launch(arrays[0], arrays[1])
            kernel.launch(arrays[2], arrays[3])
        graph.compile()
        nodes.append("with a table" in graph.explain())
    assert nodes == [True, False]
