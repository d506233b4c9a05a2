"""Arrays that one step may not have at once: refused where the step is recorded, and where symbols come to stand for
them, whether or not the driver's graph has been made."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc

from .fused_kernels import ramp, scaled
from .graph_checks import F32, N

HALF = N // 2


@pytest.mark.parametrize("fuse", [False, True])
def test_a_launch_whose_arrays_overlap_is_refused_where_it_is_recorded(device: vc.Device, *, fuse: bool) -> None:
    kernel = device.compile(scaled())
    data, out = ramp(device), device.zeros(HALF, vc.f32)
    with device.record(fuse=fuse) as graph:
        kernel.launch(data[:HALF], out, 1.0, 1.0)
        with pytest.raises(ValueError, match="overlap"):
            kernel.launch(data[:HALF], data[1 : HALF + 1], 1.0, 0.0)
        with pytest.raises(ValueError, match="overlap"):
            kernel.launch(data[:HALF], vc.symbol("to", data[1 : HALF + 1]), 1.0, 0.0)
        with pytest.raises(ValueError, match="overlap"):
            data[:HALF].copy_from(data[1 : HALF + 1])
    assert len(graph) == 1
    assert graph.symbols == ()
    graph.replay()
    np.testing.assert_array_equal(out.numpy(), np.arange(HALF, dtype=F32) + 1)


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("made", [False, True])
def test_an_update_with_arrays_that_overlap_changes_nothing(device: vc.Device, *, fuse: bool, made: bool) -> None:
    kernel = device.compile(scaled())
    data, out = ramp(device), device.zeros(HALF, vc.f32)
    with device.record(fuse=fuse) as graph:
        kernel.launch(vc.symbol("x", data[:HALF]), out, 1.0, 1.0)
        kernel.launch(out, vc.symbol("z", data[HALF:]), 1.0, 1.0)
    if made:
        graph.replay()
    with pytest.raises(ValueError, match="overlap"):
        graph.update(x=out)
    graph.replay()
    np.testing.assert_array_equal(data.numpy(), [*np.arange(HALF), *np.arange(HALF) + 2])


def test_rows_that_are_recorded_may_have_names_and_one_that_is_refused_is_named(device: vc.Device) -> None:
    kernel = device.compile(scaled())
    names = [p.name for p in kernel.program.parameters]
    data, out = ramp(device), device.zeros(HALF, vc.f32)
    with device.record() as graph:
        kernel.launch_many([dict(zip(names, (data[:HALF], out, 1.0, 1.0), strict=True))])
        with pytest.raises(ValueError, match=f"^row 1: `{names[0]}` and `{names[1]}` of scaled"):
            kernel.launch_many([(out, data[:HALF], 1.0, 0.0), (data[:HALF], data[1 : HALF + 1], 1.0, 0.0)])
    graph.replay()
    np.testing.assert_array_equal(out.numpy(), np.arange(HALF, dtype=F32) + 1)
