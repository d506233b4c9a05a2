"""Recorded graphs that are replayed on a stream which another library captures: they become part of its graph."""

from __future__ import annotations

import gc
from functools import partial

import numpy as np
import pytest
from side_by_side import side_by_side

import vyre_cuda as vc

from .. import programs
from ..foreign_library import GLOBAL, RELAXED, THREAD_LOCAL, ForeignStream, Library
from .graph_checks import F32, N, first

I32 = np.int32


def ones(device: vc.Device, n: int = N, value: int = 1) -> vc.DeviceArray:
    return device.array(np.full(n, value, I32))


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED], ids=["global", "thread_local", "relaxed"])
def test_a_replay_is_captured_and_runs_with_the_graph(device: vc.Device, stream: ForeignStream, mode: int) -> None:
    add = device.compile(programs.add_to())
    h, one = ones(device, value=0), ones(device)
    with device.record() as graph:
        add.launch(h, one)
        one.fill(2)

    stream.begin_capture(mode)
    graph.replay(stream=stream)
    captured = stream.end_capture()

    assert (first(h), first(one)) == (0, 1)
    for wanted in (1, 3, 5):
        captured.replay(stream)
        assert first(h) == wanted
    graph.replay()
    assert first(h) == 7
    captured.destroy()


def test_values_of_symbols_are_those_of_the_capture(device: vc.Device, stream: ForeignStream) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y = device.array(np.full(N, 2, F32)), device.array(np.ones(N, F32))
    out, other = device.zeros(N, vc.f32), device.zeros(N, vc.f32)
    with device.record() as graph:
        saxpy.launch(x, y, vc.symbol("out", out), vc.symbol("a"))
    graph.update(a=1.0)

    stream.begin_capture()
    graph.replay(stream=stream)
    graph.replay(stream=stream, a=10.0, out=other)
    captured = stream.end_capture()
    graph.update(a=100.0)
    graph.replay()
    assert first(out) == 201

    x.copy_from(np.full(N, 3, F32))
    captured.replay(stream)
    assert (first(out), first(other)) == (4, 31)
    graph.replay()
    assert first(out) == 301
    captured.destroy()


def test_the_first_replay_of_a_graph_may_be_captured(device: vc.Device, stream: ForeignStream) -> None:
    add = device.compile(programs.add_to())
    h = ones(device, value=0)
    with device.record() as graph:
        add.launch(h, vc.symbol("x"))

    stream.begin_capture()
    graph.replay(stream=stream, x=ones(device, value=4))
    captured = stream.end_capture()

    for wanted in (4, 8):
        captured.replay(stream)
        assert first(h) == wanted
    captured.destroy()


def test_it_comes_behind_what_was_captured_and_before_what_follows(device: vc.Device, stream: ForeignStream) -> None:
    """Each adds to or multiplies the same array, so that no other order has the result."""
    saxpy = device.compile(programs.saxpy())
    x, y, z = (device.array(np.full(N, value, F32)) for value in (1, 0, 0))
    one = device.array(np.ones(N, F32))
    with device.record() as graph:
        saxpy.launch(y, one, z, 3.0)  # z = 3 y + 1
        y.copy_from(z)

    stream.begin_capture()
    saxpy.launch(x, y, z, 2.0, stream=stream)  # z = 2 + y
    saxpy.launch(z, one, y, 1.0, stream=stream)  # y = z + 1
    graph.replay(stream=stream)
    graph.replay(stream=stream)
    saxpy.launch(y, x, z, 2.0, stream=stream)  # z = 2 y + 1
    captured = stream.end_capture()

    wanted = 0.0
    for _ in range(2):
        wanted += 3
        for _ in range(2):
            wanted = 3 * wanted + 1
        captured.replay(stream)
        assert (first(y), first(z)) == (wanted, 2 * wanted + 1)
    captured.destroy()


def test_independent_steps_stay_branches(device: vc.Device, stream: ForeignStream) -> None:
    add = device.compile(programs.add_to())
    hs, one = [ones(device, value=0) for _ in range(3)], ones(device)
    with device.record() as graph:
        for h in hs:
            add.launch(h, one)
            add.launch(h, one)

    stream.begin_capture()
    graph.replay(stream=stream)
    assert stream.frontier() == 3
    add.launch(one, hs[0], stream=stream)
    assert stream.frontier() == 1
    captured = stream.end_capture()

    captured.replay(stream)
    assert [first(h) for h in hs] == [2, 2, 2]
    assert first(one) == 3
    captured.destroy()


def test_nothing_is_captured_of_a_graph_without_nodes(device: vc.Device, stream: ForeignStream) -> None:
    h = ones(device)
    with device.record() as nothing:
        h[:0].fill(3)
    with device.record() as fill:
        h.fill(3)

    stream.begin_capture()
    nothing.replay(stream=stream)
    assert stream.frontier() == 0
    fill.replay(stream=stream)
    nothing.replay(stream=stream)
    assert stream.frontier() == 1
    captured = stream.end_capture()

    captured.replay(stream)
    assert first(h) == 3
    captured.destroy()


def test_a_stream_that_has_joined_the_capture_takes_it(
    device: vc.Device, library: Library, stream: ForeignStream
) -> None:
    add, side = device.compile(programs.add_to()), library.stream()
    h, g, one = ones(device, value=0), ones(device, value=0), ones(device)
    with device.record() as graph:
        add.launch(vc.symbol("h", h), one)

    stream.begin_capture()
    one_more = ones(device, value=2)
    add.launch(one, one_more, stream=stream)  # 3, 5, ...
    side.wait(stream)
    graph.replay(stream=side)
    graph.replay(stream=stream, h=g)
    stream.wait(side)
    assert stream.frontier() == 2
    add.launch(g, h, stream=stream)
    captured = stream.end_capture()

    captured.replay(stream)
    assert (first(h), first(g)) == (3, 6)
    captured.replay(stream)
    assert (first(h), first(g)) == (8, 19)
    captured.destroy()
    side.destroy()


def test_threads_capture_one_graph_each_with_its_symbols(device: vc.Device, library: Library) -> None:
    add = device.compile(programs.add_to())
    hs = [ones(device, value=0) for _ in range(4)]
    with device.record() as graph, graph.repeat(2):
        add.launch(vc.symbol("h", hs[0]), vc.symbol("x"))
    streams, captured = [library.stream() for _ in hs], {}

    def work(number: int) -> None:
        with library.current():
            streams[number].begin_capture(THREAD_LOCAL)
            for times in range(5):
                graph.replay(stream=streams[number], h=hs[number], x=ones(device, value=10 * number + times))
            captured[number] = streams[number].end_capture()

    side_by_side([partial(work, number) for number in range(4)])

    for number, stream in enumerate(streams):
        captured[number].replay(stream)
        captured[number].destroy()
        stream.destroy()
    assert [first(h) for h in hs] == [2 * (50 * number + 10) for number in range(4)]


# ---- how long things live --------------------------------------------------------------------------------------------


def test_the_recorded_graph_keeps_what_the_captured_one_uses(device: vc.Device, stream: ForeignStream) -> None:
    add = device.compile(programs.add_to(), bounds="off")
    h, x, given_for_it = ones(device, value=0), ones(device), ones(device, value=5)
    with device.record() as graph, graph.repeat(5000):
        add.launch(h, vc.symbol("x", x))
    kept = h[:]

    stream.begin_capture()
    graph.replay(stream=stream, x=given_for_it)
    captured = stream.end_capture()
    for array in (h, x, given_for_it):
        array.free()
    del add, given_for_it, x
    device._kernels.clear()
    gc.collect()
    others = [ones(device, value=99) for _ in range(20)]

    captured.replay(stream)
    assert first(kept) == 25000
    assert [first(array) for array in others] == [99] * 20
    captured.destroy()


def test_what_the_arrays_were_given_before_has_ended(device: vc.Device, stream: ForeignStream) -> None:
    """At a replay the captured graph is ordered by its own stream alone."""
    add, own = device.compile(programs.add_to()), device.stream()
    h, g, one = ones(device, value=0), ones(device, value=0), ones(device)
    with device.record() as graph:
        add.launch(h, one)
        add.launch(g, one)

    for _ in range(20):
        add.launch(h, one, stream=own)
        add.launch(g, one)
    stream.begin_capture()
    graph.replay(stream=stream)
    captured = stream.end_capture()
    captured.replay(stream)

    assert (first(h), first(g)) == (21, 21)
    captured.destroy()
