"""Arrays that are symbols of merged steps: a replay with others is simply launched, where nothing says otherwise."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest
from uncollected import uncollected

import vyre_cuda as vc

from .fused_kernels import scaled
from .graph_checks import N, first, floats
from .test_fused_loops import counting, smoothed, start, stencil


def frames(graph: vc.Graph, **values: Any) -> list[str]:
    """The Python functions that a replay calls."""
    found: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            found.append(frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name)

    graph.replay(**values)
    with uncollected():
        sys.setprofile(note)
        try:
            graph.replay(**values)
        finally:
            sys.setprofile(None)
    return found


def test_a_replay_with_other_arrays_is_only_launched(device: vc.Device) -> None:
    kernel = device.compile(scaled())
    x, y = floats(device, 1), floats(device, 0)
    with device.record(fuse=True) as graph:
        t = graph.temporary(N, vc.f32)
        kernel.launch(vc.symbol("x", x), t, 2.0, 1.0)
        kernel.launch(t, vc.symbol("y", y), vc.symbol("a", 1.0), 0.5)
    graph.compile()
    assert graph.node_count == 1
    for value in (3.0, 4.0):
        other, out = floats(device, value), floats(device, 0)
        assert frames(graph, x=other, y=out, a=2.0) == []
        assert first(out) == 2 * (2 * value + 1) + 0.5
        assert graph.node_count == 1
    graph.replay()
    assert first(y) == 3.5


def test_in_a_kernel_of_one_block_and_in_a_loop(device: vc.Device) -> None:
    kernel = device.compile(stencil())
    x, y = device.array(start(200)), device.zeros(200, vc.f32)
    with device.record(fuse=True) as graph, graph.repeat(3):
        t = graph.temporary(200, vc.f32)
        kernel.launch(vc.symbol("x", x), t)
        kernel.launch(t, y)
    graph.compile()
    other = device.array(start(200)[::-1].copy())
    assert frames(graph, x=other) == []
    assert graph.node_count == 1
    np.testing.assert_array_equal(y.numpy(), smoothed(start(200)[::-1], 2))


def test_arrays_that_meet_run_the_recorded_steps(device: vc.Device) -> None:
    """In the kernel a step would read what an earlier one had not written yet, or not what it wrote."""
    kernel = device.compile(stencil())
    x, y, z = (device.array(start(200)) for _ in range(3))
    wide = device.array(np.repeat(start(200), 2))
    with device.record(fuse=True) as graph:
        kernel.launch(vc.symbol("x", x), vc.symbol("y", y))
        kernel.launch(y, vc.symbol("z", z))
    with device.record() as plain:
        kernel.launch(vc.symbol("x", x), vc.symbol("y", y))
        kernel.launch(y, vc.symbol("z", z))
    choices = [x, y, z, wide[:200], wide[100:300], wide[200:]]
    rng = random.Random(3)
    kinds = set()
    for _ in range(60):
        values = {name: rng.choice(choices) for name in ("x", "y", "z") if rng.random() < 0.6}
        found = []
        for one in (plain, graph):
            for k, array in enumerate((x, y, z)):
                array.copy_from(start(200) + np.float32(k))
            wide.copy_from(np.repeat(start(200), 2))
            try:
                one.replay(**values)
                said = ""
            except ValueError as error:
                said = str(error)
            found.append((said, *[array.numpy() for array in (x, y, z, wide)]))
        assert found[0][0] == found[1][0]
        for a, b in zip(found[0][1:], found[1][1:], strict=True):
            np.testing.assert_array_equal(a, b)
        kinds.add("told" if found[0][0] else "plain" if "as recorded" in graph.explain() else "fused")
    assert kinds == {"told", "plain", "fused"}


@pytest.mark.parametrize("second", ["symbol", "array"])
def test_what_something_else_stands_for_too_is_compared(device: vc.Device, second: str) -> None:
    """One parameter of the kernel stands for both as long as they are the same."""
    kernel = device.compile(scaled())
    x, y, other = floats(device, 1), floats(device, 0), floats(device, 5)
    z = floats(device, 0)
    with device.record(fuse=True) as graph:
        kernel.launch(vc.symbol("x", x), y, 2.0, 0.0)
        kernel.launch(vc.symbol("other", x) if second == "symbol" else x, z, 3.0, 0.0)
    graph.replay()
    assert (first(y), first(z), graph.node_count) == (2, 3, 1)
    graph.replay(x=other)
    assert (first(y), first(z)) == (10, 3)
    graph.replay()
    assert (first(y), first(z), graph.node_count) == (2, 3, 1)


def test_what_ends_a_loop_is_compared(device: vc.Device) -> None:
    kernel = device.compile(counting(5))
    n, done, other = device.zeros(70, vc.u32), device.zeros(1, vc.bool_), device.zeros(1, vc.bool_)
    with device.record(fuse=True) as graph, graph.repeat(8, until=done):
        kernel.launch(vc.symbol("n", n), vc.symbol("done", done))
    graph.compile()
    more = device.zeros(70, vc.u32)
    frames(graph, n=more)
    assert (first(more), graph.node_count) == (6, 1)
    n.fill(0)
    done.fill(False)
    graph.replay(done=other)
    assert first(n) == 8
