"""Values of symbols of every kind, from replay to replay."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc

from .fused_kernels import scaled
from .graph_checks import F32, first, floats


def test_values_of_every_kind_take_the_way_that_fits_them(device: vc.Device) -> None:
    """Plain values, others that must be converted, arrays of other sizes and wrong values, in turn, by both ways."""
    kernel = device.compile(scaled())
    x, small = floats(device, 3, 64), floats(device, 5, 40)
    y, z = floats(device, 0, 64), floats(device, 0, 64)
    with device.record() as graph:
        kernel.launch(vc.symbol("x", x), y, vc.symbol("a", 2.0), vc.symbol("b"))
        z.fill(vc.symbol("b"))
        z[:40].copy_from(vc.symbol("s", small))

    def check(x: float, a: float, b: float, s: float = 5) -> None:
        np.testing.assert_array_equal(y.numpy(), np.full(64, x * a + b, F32))
        np.testing.assert_array_equal(z.numpy(), np.repeat(F32([s, b]), [40, 24]))

    with pytest.raises(TypeError, match="replay\\(\\) needs a value for b"):
        graph.replay(a=1.0)
    for one in (1.0, F32(1), 1, np.float64(1), True):
        if isinstance(one, bool):
            with pytest.raises(TypeError):
                graph.replay(b=one)
            continue
        graph.replay(b=one)
        check(3, 2, 1)
    graph.replay(b=0.5, a=4.0, x=x, s=x[:40])
    check(3, 4, 0.5, 3)
    graph.replay(b=0.5, s=x[:7])
    np.testing.assert_array_equal(z.numpy(), np.repeat(F32([3, 0.5]), [7, 57]))
    with pytest.raises((TypeError, ValueError)):
        graph.replay(b=0.5, x=small)  # as many elements as the result
    with pytest.raises(TypeError, match="no symbol c"):
        graph.replay(b=0.5, c=1.0)
    with pytest.raises(TypeError):
        graph.replay(b=0.5, x=device.zeros(64, vc.i32))
    freed = floats(device, 1, 64)
    freed.free()
    with pytest.raises(ValueError, match="freed"):
        graph.replay(b=0.5, x=freed)
    with pytest.raises((TypeError, ValueError)):
        graph.replay(b=0.5, x=y)  # which is written
    graph.replay(b=0.5)
    check(3, 2, 0.5)
    graph.update(b=7.0)
    graph.replay(a=1.0)
    check(3, 1, 7)


def test_an_update_before_all_values_are_known_is_not_lost(device: vc.Device) -> None:
    kernel = device.compile(scaled())
    x, y = floats(device, 3), floats(device, 0)
    for fuse in (False, True):
        with device.record(fuse=fuse) as graph:
            kernel.launch(x, y, vc.symbol("a", 2.0), vc.symbol("b"))
        graph.replay(b=1.0)
        graph.update(a=10.0)
        for b in (1.0, 2.0):
            graph.replay(b=b)
            assert first(y) == 30 + b
        graph.update(b=5.0)
        graph.replay(a=1.0)
        assert first(y) == 8
        graph.replay()
        assert first(y) == 35
