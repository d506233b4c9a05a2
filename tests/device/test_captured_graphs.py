"""Recorded graphs that are replayed on a stream which another library captures: they become part of its graph."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from . import programs
from .foreign_library import GLOBAL, RELAXED, THREAD_LOCAL, ForeignStream, Library
from .test_grid_barrier import expected, rotate

F32, I32 = np.float32, np.int32
N = 300


@pytest.fixture
def library(device: vc.Device) -> Iterator[Library]:
    with Library(is_emulator=device.properties.is_emulator).current() as opened:
        yield opened


@pytest.fixture
def stream(library: Library) -> Iterator[ForeignStream]:
    opened = library.stream()
    yield opened
    opened.destroy()


def ones(device: vc.Device, n: int = N, value: int = 1) -> vc.DeviceArray:
    return device.array(np.full(n, value, I32))


def first(array: vc.DeviceArray) -> int:
    """The value that every element has."""
    host = array.numpy()
    np.testing.assert_array_equal(host, np.full_like(host, host[0]))
    return int(host[0])


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

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for number, stream in enumerate(streams):
        captured[number].replay(stream)
        captured[number].destroy()
        stream.destroy()
    assert [first(h) for h in hs] == [2 * (50 * number + 10) for number in range(4)]


# ---- every kind of step ----------------------------------------------------------------------------------------------


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
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
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
    h, one = ones(device, value=0), ones(device)
    with device.record() as graph:
        add.launch(h, one)

    for _ in range(20):
        add.launch(h, one, stream=own)
        add.launch(h, one)
    stream.begin_capture()
    graph.replay(stream=stream)
    captured = stream.end_capture()
    captured.replay(stream)

    assert first(h) == 41
    captured.destroy()


# ---- refusals and failures -------------------------------------------------------------------------------------------


def test_wrong_symbols_are_refused_and_the_capture_goes_on(device: vc.Device, stream: ForeignStream) -> None:
    add = device.compile(programs.add_to())
    h, one = ones(device, value=0), ones(device)
    with device.record() as graph:
        add.launch(h, vc.symbol("x", one))

    stream.begin_capture()
    for kind, symbols in ((TypeError, {"b": 1}), (TypeError, {"x": 1.0}), (ValueError, {"x": h})):
        with pytest.raises(kind):
            graph.replay(stream=stream, **symbols)
    assert stream.frontier() == 0
    graph.replay(stream=stream)
    captured = stream.end_capture()

    captured.replay(stream)
    assert first(h) == 1
    captured.destroy()


CALLS = [  # what fails, and whether it comes before the first node
    ("cuStreamGetCaptureInfo", True),
    ("cuGraphAddMemcpyNode", True),
    ("cuGraphAddMemsetNode", False),
    ("cuGraphAddKernelNode", False),
    ("cuGraphKernelNodeSetAttribute", False),
    ("cuGraphConditionalHandleCreate", False),
    ("cuGraphAddNode", False),
    ("cuStreamUpdateCaptureDependencies", False),
]


def _driver_error(graph: vc.Graph, stream: ForeignStream) -> vc.DriverError | None:
    try:
        graph.replay(stream=stream)
    except vc.DriverError as error:
        return error
    return None


@pytest.mark.emulator
@pytest.mark.parametrize(("call", "early"), CALLS)
def test_half_a_replay_is_never_left_in_a_capture(
    emulator: Emulator, leak_check: object, call: str, early: bool
) -> None:
    with vc.Device("emulator") as device, Library().current() as library:
        stream, kernel = library.stream(), device.compile(rotate())
        h, start, never = device.zeros(64, vc.u32), device.array(np.ones(64, np.uint32)), device.zeros(1, vc.u8)
        with device.record() as graph:
            h.copy_from(start)
            start.fill(1)
            with graph.repeat(4, until=never):
                kernel.launch(h)
        failures = 0
        for nth in range(1, 9):
            stream.begin_capture()
            emulator.fail(call, nth=nth, result=999)
            error = _driver_error(graph, stream)
            emulator.reset()
            if error is None:
                break
            failures += 1
            assert (error.op, error.status) == (call, 999)
            if early and nth == 1:
                assert stream.frontier() == 0
                stream.end_capture().destroy()
            else:
                with pytest.raises(RuntimeError):
                    stream.end_capture()
        captured = stream.end_capture()
        captured.replay(stream)
        np.testing.assert_array_equal(np.full(64, 13), h.numpy())
        captured.destroy()
        assert failures > 0
        stream.destroy()


@pytest.mark.emulator
def test_a_capture_that_has_ended_is_told(device: vc.Device, stream: ForeignStream) -> None:
    h = ones(device)
    with device.record() as graph:
        h.fill(2)
    stream.begin_capture()
    with pytest.raises(RuntimeError):
        stream.synchronize()

    with pytest.raises(vc.DriverError, match="INVALIDATED"):
        graph.replay(stream=stream)

    with pytest.raises(RuntimeError):
        stream.end_capture()
    graph.replay(stream=stream)
    assert first(h) == 2


@pytest.mark.emulator
def test_captures_leave_nothing_behind(emulator: Emulator, leak_check: object) -> None:
    """Not when the graph goes, and not when the device is closed first."""
    for close_first in (False, True):
        device = vc.Device("emulator")
        with Library().current() as library:
            stream, kernel = library.stream(), device.compile(rotate())
            h, never = device.zeros(64, vc.u32), device.zeros(1, vc.u8)
            with device.record() as graph, graph.repeat(4, until=never):
                kernel.launch(h)
            for _ in range(50):
                stream.begin_capture()
                graph.replay(stream=stream)
                stream.end_capture().destroy()
            if not close_first:
                del graph
            stream.destroy()
            device.close()
