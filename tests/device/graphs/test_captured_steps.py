"""Every kind of step in recorded graphs that become part of a capture, and any mixture of them."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import vyre_cuda as vc

from .. import programs
from ..foreign_library import ForeignStream
from ..launches.test_grid_barrier import expected, rotate
from .test_captured_graphs import first, ones

I32 = np.int32
N = 300


def test_page_locked_arrays_are_read_and_written_at_every_replay(device: vc.Device, stream: ForeignStream) -> None:
    add = device.compile(programs.add_to())
    pinned, result = device.pinned_empty(N, vc.i32), device.pinned_empty(N, vc.i32)
    h, one = ones(device), ones(device)
    with device.record() as graph:
        h.copy_from(pinned)
        add.launch(h, one)
        graph.download(h, result)

    stream.begin_capture()
    graph.replay(stream=stream)
    captured = stream.end_capture()

    for value in (4, 9):
        pinned[:] = value
        captured.replay(stream)
        np.testing.assert_array_equal(np.full(N, value + 1), result)
    captured.destroy()


def test_an_out_that_must_be_cleared_is_cleared(device: vc.Device, stream: ForeignStream) -> None:
    x, out = device.array(np.arange(1, 51, dtype=np.uint32)), device.array(np.full(100, 9, np.uint32))
    kernel = device.compile(programs.every_second())
    with device.record() as graph:
        kernel.launch(x, out)

    stream.begin_capture()
    graph.replay(stream=stream)
    captured = stream.end_capture()

    for _ in range(2):
        out.copy_from(np.full(100, 9, np.uint32))
        captured.replay(stream)
        np.testing.assert_array_equal(vc.evaluate(kernel.program, x.numpy()), out.numpy())
    captured.destroy()


@pytest.mark.thin
@pytest.mark.parametrize("times", [0, 3, 5000])
def test_repetitions_are_captured(device: vc.Device, stream: ForeignStream, times: int) -> None:
    """None, unrolled, and a loop on the device whose counter begins at 0 each time."""
    add, h, one = device.compile(programs.add_to()), ones(device, 1, 0), ones(device, 1)
    with device.record() as graph, graph.repeat(times):
        add.launch(h, one)

    stream.begin_capture()
    graph.replay(stream=stream)
    graph.replay(stream=stream)
    captured = stream.end_capture()

    for wanted in (2 * times, 4 * times):
        captured.replay(stream)
        assert first(h) == wanted
    captured.destroy()


def test_loops_that_the_device_ends_are_captured(device: vc.Device, stream: ForeignStream) -> None:
    b = vc.Builder("countdown", block=1)
    n, stop = b.inout("n", vc.i32), b.inout("stop", vc.u8)
    n[0] = n[0] - 1
    stop[0] = vc.u8(n[0] <= 0)
    kernel, add = device.compile(b.build()), device.compile(programs.add_to())
    five, one, times = ones(device, 1, 5), ones(device, 1), ones(device, 1, 0)
    n, rounds = ones(device, 1, 0), ones(device, 1, 0)
    inner, outer = device.zeros(1, vc.u8), device.zeros(1, vc.u8)
    with device.record() as graph:
        rounds.fill(3)
        with graph.repeat(until=outer):
            n.copy_from(five)
            with graph.repeat(until=inner):
                kernel.launch(n, inner)
                add.launch(times, one)
            kernel.launch(rounds, outer)

    stream.begin_capture()
    graph.replay(stream=stream)
    captured = stream.end_capture()

    for wanted in (15, 30):
        captured.replay(stream)
        assert (first(times), first(rounds)) == (wanted, 0)
    graph.replay()
    assert first(times) == 45
    captured.destroy()


def test_kernels_with_grid_barriers_are_captured(device: vc.Device, stream: ForeignStream) -> None:
    kernel, h = device.compile(rotate()), np.arange(64 * 6, dtype=np.uint32)
    one, two = device.array(h), device.array(h)
    with device.record() as graph, graph.repeat(2):
        kernel.launch(vc.symbol("h", one))

    stream.begin_capture()
    graph.replay(stream=stream)
    graph.replay(stream=stream, h=two)
    captured = stream.end_capture()

    for times in (1, 2, 3):
        captured.replay(stream)
        graph.replay()
        np.testing.assert_array_equal(expected(h, 12 * times), one.numpy())
        np.testing.assert_array_equal(expected(h, 6 * times), two.numpy())
    captured.destroy()


PLACES = st.tuples(st.integers(0, 2), st.integers(0, 40))  # array, first element; 20 elements
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "copy", "fill", "repeat"]), PLACES, PLACES, st.integers(0, 3)),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@settings(suppress_health_check=list(HealthCheck))
@given(steps=STEPS, given_place=PLACES, value=st.integers(-5, 5))
def test_captured_replays_equal_own_replays_and_the_interpreter(
    device: vc.Device,
    stream: ForeignStream,
    steps: list[tuple[str, tuple[int, int], tuple[int, int], int]],
    given_place: tuple[int, int],
    value: int,
) -> None:
    """The first sum reads what a symbol says, and fills take another; the arrays change between the replays."""
    program = programs.add_to()
    add = device.compile(program)
    model = [np.arange(60, dtype=I32) + 100 * k for k in range(3)]
    ours, theirs = ([device.array(array) for array in model] for _ in range(2))

    def meet(one: tuple[int, int], two: tuple[int, int]) -> bool:
        return one[0] == two[0] and abs(one[1] - two[1]) < 20

    steps = [step for step in steps if step[0] in ("fill", "repeat") or not meet(step[1], step[2])]
    symbolic = next((i for i, step in enumerate(steps) if step[0] == "add"), -1)
    if symbolic >= 0 and meet(steps[symbolic][1], given_place):
        symbolic = -1

    def part(of: list, place: tuple[int, int]):
        return of[place[0]][place[1] : place[1] + 20]

    def run(first_step: int, end: int, arrays: list | None, graph: vc.Graph | None) -> None:
        at = first_step
        while at < end:
            kind, to, source, times = steps[at]
            at += 1
            if kind == "repeat":
                last = min(at + 2, end)
                if graph is not None:
                    with graph.repeat(times):
                        run(at, last, arrays, graph)
                for _ in range(times if graph is None else 0):
                    run(at, last, arrays, None)
                at = last
            elif graph is None:
                place = given_place if at - 1 == symbolic else source
                if kind == "fill":
                    part(model, to)[:] = value
                elif kind == "add":
                    part(model, to)[:] = vc.evaluate(program, part(model, to), part(model, place))
                else:
                    part(model, to)[:] = part(model, source).copy()
            elif kind == "fill":
                part(arrays, to).fill(vc.symbol("value", 0))
            elif kind == "add":
                other = part(arrays, source)
                add.launch(part(arrays, to), vc.symbol("x", other) if at - 1 == symbolic else other)
            else:
                part(arrays, to).copy_from(part(arrays, source))

    graphs = []
    for arrays in (ours, theirs):
        with device.record() as graph:
            run(0, len(steps), arrays, graph)
        graphs.append(graph)

    def symbols(graph: vc.Graph, arrays: list) -> dict[str, object]:
        everything = {"value": value, "x": part(arrays, given_place)}
        return {name: everything[name] for name in graph.symbols}

    stream.begin_capture()
    graphs[1].replay(stream=stream, **symbols(graphs[1], theirs))
    captured = stream.end_capture()
    for turn in range(3):
        run(0, len(steps), None, None)
        graphs[0].replay(**symbols(graphs[0], ours))
        captured.replay(stream)
        for wanted, one, other in zip(model, ours, theirs, strict=True):
            np.testing.assert_array_equal(wanted, one.numpy())
            np.testing.assert_array_equal(wanted, other.numpy())
        model[turn] += 1000
        ours[turn].copy_from(model[turn])
        theirs[turn].copy_from(model[turn])
    captured.destroy()
