"""Repetition in recorded graphs, loops that end on the device, and replays among other work, streams and threads."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import numpy as np
import pytest
from side_by_side import side_by_side

import vyre_cuda as vc

from .. import programs
from .graph_checks import N, first, floats

# ---- repetition ------------------------------------------------------------------------------------------------------


def test_repetitions_nest_and_none_is_nothing(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))

    with device.record() as graph:
        with graph.repeat(3):
            add.launch(h, one)
            with graph.repeat(4):
                add.launch(h, one)
        with graph.repeat(0):
            add.launch("what is not run", "is not looked at")  # type: ignore[arg-type]

    assert (len(graph), graph.node_count) == (2, 15)
    graph.replay()
    np.testing.assert_array_equal(np.full(N, 15), h.numpy())


def test_repetitions_nest_deeply(device: vc.Device) -> None:
    """Each of 40 counts what is in it once: 2^40 looks would take hours."""
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))

    with device.record() as graph, ExitStack() as loops:
        for depth in range(40):
            loops.enter_context(graph.repeat(2 if depth < 3 else 1))
        add.launch(h, one)

    assert graph.node_count == 8
    graph.replay()
    np.testing.assert_array_equal(np.full(N, 8), h.numpy())


@pytest.mark.thin
def test_a_long_repetition_is_a_loop(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(1, vc.i32), device.array(np.ones(1, np.int32))

    with device.record() as graph, graph.repeat(10_001):
        add.launch(h, one)

    assert graph.node_count < 600
    graph.replay()
    graph.replay()
    assert h[0] == 20_002


def countdown() -> vc.Program:
    """n -= step; stop[0] = n <= 0"""
    b = vc.Builder("countdown", block=1)
    n = b.inout("n", vc.i32)
    stop = b.inout("stop", vc.u8)
    step = b.scalar("step", vc.i32)
    n[0] = n[0] - step
    stop[0] = vc.u8(n[0] <= 0)
    return b.build()


@pytest.mark.parametrize("type_", [vc.bool_, vc.u8, vc.i16, vc.u32, vc.i64], ids=str)
def test_a_loop_ends_on_the_device_when_the_array_says_so(device: vc.Device, type_: vc.Type) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))
    stop = device.zeros(2, type_)

    with device.record() as graph, graph.repeat(4, until=stop):
        add.launch(h, one)

    graph.replay()
    np.testing.assert_array_equal(np.full(N, 4), h.numpy())
    stop.copy_from(np.ones(2, stop.dtype))
    graph.replay()  # looked at after each time: once
    np.testing.assert_array_equal(np.full(N, 5), h.numpy())


def test_an_array_without_elements_cannot_end_a_loop(device: vc.Device) -> None:
    nothing = device.zeros(0, vc.u32)
    expected = "its first element ends the loop: give one that has elements"
    with pytest.raises(ValueError, match=expected), device.record() as graph, graph.repeat(3, until=nothing):
        pass


def test_a_loop_without_a_number_runs_until_the_array_says_so(device: vc.Device) -> None:
    kernel = device.compile(countdown())
    n, stop, times = device.array(np.int32([10])), device.zeros(1, vc.u8), device.zeros(1, vc.i32)
    add, one = device.compile(programs.add_to()), device.array(np.ones(1, np.int32))

    with device.record() as graph, graph.repeat(until=stop):
        kernel.launch(n, stop, vc.symbol("step", 1))
        add.launch(times, one)

    graph.replay()
    assert (n[0], times[0]) == (0, 10)
    n.copy_from(np.int32([10]))
    graph.replay(step=4)
    assert (n[0], times[0]) == (-2, 13)


def test_loops_on_the_device_nest(device: vc.Device) -> None:
    kernel, add = device.compile(countdown()), device.compile(programs.add_to())
    five = device.array(np.int32([5]))
    n, inner, outer = device.zeros(1, vc.i32), device.zeros(1, vc.u8), device.zeros(1, vc.u8)
    times, one = device.zeros(1, vc.i32), device.array(np.ones(1, np.int32))
    rounds = device.array(np.int32([3]))

    with device.record() as graph, graph.repeat(until=outer):
        n.copy_from(five)
        with graph.repeat(until=inner):
            kernel.launch(n, inner, 2)
            add.launch(times, one)
        kernel.launch(rounds, outer, 1)

    graph.replay()
    assert (rounds[0], times[0]) == (0, 9)
    assert graph.dot().count("subgraph cluster") == 2


def test_repeat_checks_what_it_is_given(device: vc.Device) -> None:
    with device.record() as graph:
        for kind, arguments in (
            (TypeError, {}),
            (TypeError, {"times": 1.5}),
            (TypeError, {"times": True}),
            (ValueError, {"times": -1}),
            (TypeError, {"until": np.zeros(1, np.uint32)}),
            (TypeError, {"until": device.empty(1, vc.f32)}),
            (ValueError, {"until": device.empty(0, vc.u32)}),
        ):
            with pytest.raises(kind), graph.repeat(**arguments):  # type: ignore[arg-type]
                pass
    assert len(graph) == 0


# ---- replays ---------------------------------------------------------------------------------------------------------


def test_replays_are_ordered_with_other_work_and_among_streams(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))
    with device.record() as graph, graph.repeat(5):
        add.launch(h, one)
    streams = [device.stream() for _ in range(3)]

    for i in range(30):
        graph.replay(stream=streams[i % 3])

    np.testing.assert_array_equal(np.full(N, 150), h.numpy())
    with pytest.raises(TypeError):
        graph.replay(stream=3.5)


def test_threads_replay_one_graph_each_with_its_symbols(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y = floats(device, 1), floats(device, 0)
    outs = [[floats(device, 0) for _ in range(10)] for _ in range(4)]
    with device.record() as graph:
        saxpy.launch(x, y, vc.symbol("out", outs[0][0]), vc.symbol("a", 0.0))

    def work(number: int) -> None:
        for i, out in enumerate(outs[number]):
            graph.replay(out=out, a=float(10 * number + i))

    side_by_side([partial(work, number) for number in range(4)])

    assert [[first(out) for out in row] for row in outs] == [[10 * k + i for i in range(10)] for k in range(4)]


def test_an_assertion_in_a_replay_comes_out_at_the_next_wait(device: vc.Device) -> None:
    b = vc.Builder("positive", block=32)
    x = b.input("x", vc.i32)
    out = b.output("out", vc.i32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        b.assert_(x[i] > 0, "positive")
        out[i] = x[i]
    kernel = device.compile(b.build())
    good, bad, out = device.array(np.ones(5, np.int32)), device.zeros(5, vc.i32), device.zeros(5, vc.i32)
    with device.record() as graph:
        kernel.launch(vc.symbol("x", good), out)

    graph.replay(x=bad)
    with pytest.raises(vc.KernelAssertionError, match="positive"):
        device.synchronize()
    graph.replay()
    np.testing.assert_array_equal(np.ones(5), out.numpy())


def test_a_graph_replays_on_streams_of_others(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))
    with device.record() as graph:
        add.launch(h, one)
    stream = device.stream()

    for other in (0, stream, stream.handle):
        graph.replay(stream=other)

    np.testing.assert_array_equal(np.full(N, 3), h.numpy())
