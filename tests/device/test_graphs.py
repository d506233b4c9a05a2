"""Recorded graphs: what is recorded and what is refused, order and branches, symbols, repetition."""

from __future__ import annotations

import threading

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from . import programs

F32 = np.float32
N = 300


def floats(device: vc.Device, value: float, n: int = N) -> vc.DeviceArray:
    return device.array(np.full(n, value, F32))


def first(array: vc.DeviceArray) -> float:
    """The value that every element has."""
    host = array.numpy()
    np.testing.assert_array_equal(host, np.full_like(host, host[0]))
    return float(host[0])


# ---- recording -------------------------------------------------------------------------------------------------------


def test_recording_runs_nothing_and_a_replay_runs_all(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, out = floats(device, 2), floats(device, 1), floats(device, 0)

    with device.record() as graph:
        saxpy.launch(x, y, out, 3.0)
        x.copy_from(out)

    assert (first(out), first(x)) == (0, 2)
    assert len(graph) == 2
    for wanted in (7, 22):
        graph.replay()
        assert (first(out), first(x)) == (wanted, wanted)


def test_keywords_grids_and_bound_calls_are_recorded(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, out, other = floats(device, 2), floats(device, 1), floats(device, 5), floats(device, 5)
    call = saxpy.bind(x, y, other, 1.0)

    with device.record() as graph:
        saxpy.launch(x, y, out=out, a=3.0, grid=1)
        call()
        call(x, other, y, 1.0)

    graph.replay()
    np.testing.assert_array_equal(np.repeat(np.array([7, 0], F32), [256, N - 256]), out.numpy())
    assert first(y) == 5


def test_zeros_and_copies_from_page_locked_memory_happen_at_every_replay(device: vc.Device) -> None:
    pinned = device.pinned_empty(4, vc.i32)
    x = device.array(np.zeros(10, np.int32))

    with device.record() as graph:
        cleared = device.zeros(10, vc.i32)
        x.copy_from(pinned, offset=3)
        graph.download(x[2:6], pinned)

    for value in (5, 9):
        pinned[:] = value
        cleared.copy_from(np.full(10, 7, np.int32))
        graph.replay()
        device.synchronize()
        np.testing.assert_array_equal(np.array([0, value, value, value], np.int32), pinned)
        np.testing.assert_array_equal(np.zeros(10, np.int32), cleared.numpy())


def test_an_upload_of_many_ranges_is_recorded_as_copies(device: vc.Device) -> None:
    x, y = device.zeros(6, vc.i32), device.zeros(2, vc.i32)
    pinned = device.pinned_empty(2, vc.i32)
    with device.record() as graph:
        device.upload([(x, 1, pinned), (y, pinned[:1])])
        with pytest.raises(ValueError, match="elements"):
            device.upload([(y, 1, pinned)])

    pinned[:] = 4, 5
    graph.replay()

    np.testing.assert_array_equal(np.int32([0, 4, 5, 0, 0, 0]), x.numpy())
    np.testing.assert_array_equal(np.int32([4, 0]), y.numpy())


def test_only_the_thread_that_records_is_recorded(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))
    results: list[object] = []

    def work() -> None:
        add.launch(h, one)
        results.append(h.numpy())
        results.append(add(np.zeros(2, np.int32), np.ones(2, np.int32)))
        with device.record() as own:
            add.launch(h, one)
        results.append(own)

    with device.record() as graph:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert len(graph) == 0
    np.testing.assert_array_equal(np.ones(N, np.int32), results[0])
    np.testing.assert_array_equal(np.ones(2, np.int32), results[1])
    results[2].replay()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(np.full(N, 2), h.numpy())


def test_a_graph_keeps_what_it_uses(device: vc.Device) -> None:
    x, y, out = floats(device, 2), floats(device, 1), floats(device, 0)
    with device.record() as graph:
        device.compile(programs.saxpy()).launch(x, y, out, vc.symbol("a", 3.0))
    x.free()
    y.free()
    floats(device, 99)

    graph.replay(a=4.0)

    assert first(out) == 9


def test_what_waits_or_stages_is_refused_and_recording_goes_on(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))
    host = np.ones(N, np.int32)

    with device.record() as graph:
        for refused in (
            lambda: add(host, host),
            lambda: add.submit(host, host),
            lambda: add.timed(host, host),
            lambda: add.record(host, host),
            h.numpy,
            lambda: h[3],
            device.synchronize,
            lambda: device.download([(h, 0, 3)]),
            lambda: device.upload([(h, host)]),
            lambda: device.array(host),
            lambda: h.copy_from(host),
            lambda: add.launch(h, one, stream=device.stream()),
            lambda: device.record().__enter__(),
        ):
            with pytest.raises(vc.RecordingError):
                refused()
        with pytest.raises(TypeError):
            add.launch(h, host)
        with pytest.raises(ValueError, match="elements"):
            h.copy_from(device.empty(N + 1, vc.i32))
        add.launch(h, one)

    graph.replay()
    np.testing.assert_array_equal(host, h.numpy())


def test_an_exception_discards_the_recording(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))

    graph = device.record()
    with pytest.raises(TypeError), graph:
        add.launch(h, one, one)

    with pytest.raises(vc.RecordingError):
        graph.replay()
    add.launch(h, one)
    np.testing.assert_array_equal(np.ones(N, np.int32), h.numpy())


def test_a_graph_is_used_in_its_states_only(device: vc.Device) -> None:
    with device.record() as graph:
        for wrong in (graph.replay, graph.update, graph.dot):
            with pytest.raises(vc.RecordingError):
                wrong()
    with pytest.raises(vc.RecordingError):
        graph.__enter__()
    with pytest.raises(vc.RecordingError), graph.repeat(3):
        pass
    graph.replay()
    assert "0 steps" in repr(graph)


# ---- order -----------------------------------------------------------------------------------------------------------


def edges(graph: vc.Graph) -> set[tuple[int, int]]:
    """(before, behind) from the picture."""
    lines = (line.split("[")[0] for line in graph.dot().splitlines() if "->" in line)
    pairs = (line.strip(" ;").split(" -> ") for line in lines)
    return {(int(one[1:]), int(two.strip(" ;")[1:])) for one, two in pairs}


def test_independent_steps_are_branches(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y = floats(device, 2), floats(device, 1)
    a, b, c = (floats(device, 0) for _ in range(3))

    with device.record() as graph:
        saxpy.launch(x, y, a, 1.0)  # 3
        saxpy.launch(x, y, b, 10.0)  # 21
        saxpy.launch(a, b, c, 2.0)  # 27
        x.copy_from(a)

    assert edges(graph) == {(0, 2), (1, 2), (0, 3), (1, 3)}
    graph.replay()
    assert (first(c), first(x)) == (27, 3)


def test_halves_of_an_array_are_independent(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))

    with device.record() as graph:
        add.launch(h[:150], one[:150])
        add.launch(h[150:], one[150:])
        add.launch(h[100:200], one[:100])

    assert edges(graph) == {(0, 2), (1, 2)}
    graph.replay()
    np.testing.assert_array_equal(np.repeat(np.int32([1, 2, 1]), 100), h.numpy())


def test_a_chain_of_kernels_is_kernel_nodes_alone(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, out = floats(device, 1), floats(device, 0), floats(device, 0)

    with device.record() as graph:
        for i in range(100):
            saxpy.launch(out if i % 2 else x, y, x if i % 2 else out, 1.0)

    assert graph.node_count == 100
    assert edges(graph) == {(i, i + 1) for i in range(99)}


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 2), st.integers(0, 2), st.integers(0, 40)),
        st.tuples(st.just("copy"), st.integers(0, 2), st.integers(0, 2), st.integers(0, 40)),
        st.tuples(st.just("fill"), st.integers(0, 2), st.integers(-3, 3), st.integers(0, 40)),
        st.tuples(st.just("repeat"), st.integers(0, 3), st.just(0), st.integers(1, 3)),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(operations=OPERATIONS)
def test_a_replay_equals_the_steps_one_by_one(shared_device: vc.Device, operations: list[tuple[str, int, int, int]]):
    """Ranges of three arrays overlap in all ways; the model runs the operations in order on NumPy arrays."""
    device, size = shared_device, 60
    add = device.compile(programs.add_to())
    start = [np.arange(size, dtype=np.int32) + 100 * k for k in range(3)]
    arrays = [device.array(array) for array in start]
    model = [array.copy() for array in start]

    def run(todo: list[tuple[str, int, int, int]], graph: vc.Graph | None) -> None:
        for place, (kind, to, source, at) in enumerate(todo):
            if kind == "repeat":
                body = todo[place + 1 : place + 1 + at]
                body = [operation for operation in body if operation[0] != "repeat"]
                if graph is not None:
                    with graph.repeat(to):
                        run(body, graph)
                else:
                    for _ in range(to):
                        run(body, None)
            elif kind == "fill" and graph is not None:
                arrays[to][at : at + 15].fill(source)
            elif kind == "fill":
                model[to][at : at + 15] = source
            elif to == source:
                continue
            elif graph is not None:
                target, other = arrays[to][at : at + 20], arrays[source][40 - at : 60 - at]
                add.launch(target, other) if kind == "add" else target.copy_from(other)
            elif kind == "add":
                model[to][at : at + 20] += model[source][40 - at : 60 - at]
            else:
                model[to][at : at + 20] = model[source][40 - at : 60 - at]

    with device.record() as graph:
        run(operations, graph)
    for _ in range(2):
        run(operations, None)
        graph.replay()

    for wanted, array in zip(model, arrays, strict=True):
        np.testing.assert_array_equal(wanted, array.numpy())


# ---- symbols ---------------------------------------------------------------------------------------------------------


def test_symbols_of_a_replay_hold_for_it_and_updates_for_later_ones(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, z, out = floats(device, 1), floats(device, 10), floats(device, 20), floats(device, 0)
    with device.record() as graph:
        saxpy.launch(x, vc.symbol("y", y), out, vc.symbol("a", 2.0))

    def replayed(**symbols: object) -> float:
        graph.replay(**symbols)
        return first(out)

    assert graph.symbols == ("a", "y")
    assert replayed() == 12
    assert replayed(a=3.0) == 13
    assert replayed(y=z) == 22
    assert replayed(a=5, y=z) == 25
    assert replayed() == 12
    graph.update(a=np.float32(7))
    assert (replayed(), replayed(y=z), replayed(a=1.0), replayed()) == (17, 27, 11, 17)


@pytest.mark.emulator
def test_nothing_is_instantiated_for_a_symbol(device: vc.Device, emulator: Emulator) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, z, out = floats(device, 1), floats(device, 10), floats(device, 20, 500), floats(device, 0, 500)
    with device.record() as graph:
        saxpy.launch(vc.symbol("x", x), vc.symbol("y", y), vc.symbol("out", out[:N]), vc.symbol("a", 2.0))
    before = emulator.count("cuGraphInstantiateWithFlags")

    graph.replay(a=1.0)
    graph.replay(x=z, y=z, out=out)  # another size: other sizes and another grid
    np.testing.assert_array_equal(np.full(500, 60, F32), out.numpy())
    graph.replay()
    np.testing.assert_array_equal(np.full(N, 12, F32), out[:N].numpy())

    assert emulator.count("cuGraphInstantiateWithFlags") == before


def test_a_symbol_without_a_default_must_be_given(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, out = floats(device, 1), floats(device, 10), floats(device, 0)
    with device.record() as graph:
        saxpy.launch(vc.symbol("x"), y, out, vc.symbol("a"))

    for given_symbols in ({}, {"a": 1.0}, {"x": x}):
        with pytest.raises(TypeError, match="no default"):
            graph.replay(**given_symbols)
    graph.replay(a=2.0, x=x)
    assert first(out) == 12
    with pytest.raises(TypeError, match="not given x"):
        graph.replay(a=2.0)
    graph.update(x=x)
    graph.replay(a=4.0)
    assert first(out) == 14


def test_wrong_symbols_are_refused_and_nothing_runs(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, out = floats(device, 1), floats(device, 10), floats(device, 0)
    with device.record() as graph:
        saxpy.launch(vc.symbol("x", x), y, out, vc.symbol("a", 2.0))

    for kind, symbols in (
        (TypeError, {"b": 1.0}),
        (TypeError, {"a": x}),
        (TypeError, {"x": 3.0}),
        (TypeError, {"x": device.zeros(N, vc.i32)}),
        (ValueError, {"x": floats(device, 1, N + 1)}),  # the out has another size then
        (TypeError, {"x": np.ones(N, F32)}),
        (ValueError, {"x": out}),
    ):
        for use in (graph.replay, graph.update):
            with pytest.raises(kind):
                use(**symbols)
    assert first(out) == 0
    graph.replay()
    assert first(out) == 12


def test_names_of_symbols_are_checked(device: vc.Device) -> None:
    x = floats(device, 1)
    for name in ("stream", "no name", ""):
        with pytest.raises(ValueError, match="keyword"):
            vc.symbol(name)
    with pytest.raises(TypeError):
        vc.symbol(3)  # type: ignore[arg-type]
    with device.record() as graph:
        x.fill(vc.symbol("v", 1.0))
        with pytest.raises(ValueError, match="two defaults"):
            x.fill(vc.symbol("v", 2.0))
    assert len(graph) == 1
    with pytest.raises(TypeError):
        device.compile(programs.saxpy()).launch(x, x, x, vc.symbol("a", 1.0))


def test_symbols_of_copies_and_fills(device: vc.Device) -> None:
    pinned, other = device.pinned_empty(3, vc.u32), device.pinned_empty(2, vc.u32)
    x, y = device.zeros(8, vc.u32), device.array(np.arange(8, dtype=np.uint32))
    pinned[:], other[:] = 7, 9
    with device.record() as graph:
        x.fill(vc.symbol("value", 1))
        x.copy_from(vc.symbol("from_host", pinned), offset=5)
        y.copy_from(vc.symbol("from_device", x))

    graph.replay()
    np.testing.assert_array_equal(np.uint32([1] * 5 + [7] * 3), y.numpy())
    graph.replay(value=2, from_host=other)
    np.testing.assert_array_equal(np.uint32([2] * 5 + [9] * 2 + [2]), y.numpy())
    graph.replay(from_device=x[:3])
    np.testing.assert_array_equal(np.uint32([1] * 3 + [2] * 2 + [9] * 2 + [2]), y.numpy())
    with pytest.raises(vc.RecordingError):
        graph.replay(from_host=np.ones(2, np.uint32))


def test_arrays_that_come_to_overlap_keep_the_order_of_recording(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, zero = floats(device, 2), floats(device, 5), floats(device, 0)
    a, b = floats(device, 0), floats(device, 0)
    with device.record() as graph:
        saxpy.launch(x, zero, vc.symbol("a", a), 3.0)
        saxpy.launch(vc.symbol("y", y), zero, b, 10.0)

    assert edges(graph) == set()
    graph.replay(y=a)
    assert first(b) == 60
    graph.replay()
    assert first(b) == 50
    graph.replay(a=y)
    assert (first(y), first(b)) == (6, 60)


PLACES = st.tuples(st.integers(0, 2), st.integers(0, 40))  # array, first element; 20 elements
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "copy"]), PLACES, PLACES, st.sampled_from(["", "to", "from", "both"])),
    min_size=1,
    max_size=8,
)


@settings(max_examples=80, deadline=None)
@given(steps=STEPS, replays=st.lists(st.lists(PLACES, min_size=16, max_size=16), max_size=4), update=st.booleans())
def test_replays_with_any_arrays_equal_the_steps_one_by_one(
    shared_device: vc.Device, steps: list[tuple], replays: list[list[tuple[int, int]]], update: bool
) -> None:
    """Every symbol is bound to any range, also to one that steps share which shared none when the graph was made."""
    device = shared_device
    add = device.compile(programs.add_to())
    model = [np.arange(60, dtype=np.int32) + 100 * k for k in range(3)]
    arrays = [device.array(array) for array in model]

    def overlap(one: tuple[int, int], two: tuple[int, int]) -> bool:
        return one[0] == two[0] and abs(one[1] - two[1]) < 20

    def part(of: list, place: tuple[int, int]):
        return of[place[0]][place[1] : place[1] + 20]

    steps = [step for step in steps if not overlap(step[1], step[2])]
    with device.record() as graph:
        for number, (kind, to, source, symbolic) in enumerate(steps):
            target, other = part(arrays, to), part(arrays, source)
            if symbolic in ("from", "both"):
                other = vc.symbol(f"from{number}", other)
            if kind == "copy":
                target.copy_from(other)
                continue
            if symbolic in ("to", "both"):
                target = vc.symbol(f"to{number}", target)
            add.launch(target, other)

    bound = {f"to{i}": step[1] for i, step in enumerate(steps)} | {f"from{i}": step[2] for i, step in enumerate(steps)}
    for turn, places in enumerate(([], *replays)):
        given_places = {
            name: place for name, place in zip(sorted(bound), places, strict=False) if name in graph.symbols
        }
        now = {**bound, **given_places}
        if any(overlap(now[f"to{i}"], now[f"from{i}"]) for i in range(len(steps))):
            with pytest.raises(ValueError, match="overlap"):
                graph.replay(**{name: part(arrays, place) for name, place in given_places.items()})
            continue
        symbols = {name: part(arrays, place) for name, place in given_places.items()}
        if update and turn % 2:
            graph.update(**symbols)
            bound = now
            symbols = {}
        graph.replay(**symbols)
        for i, (kind, *_) in enumerate(steps):
            value = part(model, now[f"from{i}"]).copy()
            part(model, now[f"to{i}"])[:] = value if kind == "copy" else value + part(model, now[f"to{i}"])

    for wanted, array in zip(model, arrays, strict=True):
        np.testing.assert_array_equal(wanted, array.numpy())


def test_an_array_may_become_empty_and_full_again(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, out = floats(device, 1), floats(device, 2), floats(device, 0)
    with device.record() as graph:
        saxpy.launch(vc.symbol("x", x), vc.symbol("y", y), vc.symbol("out", out), 1.0)

    graph.replay(x=x[:0], y=y[:0], out=out[:0])
    assert first(out) == 0
    graph.replay()
    assert first(out) == 3


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

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

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


# ---- other libraries -------------------------------------------------------------------------------------------------

INCREMENT = """.version 7.8
.target sm_75
.address_size 64
.visible .entry increment(.param .u64 p, .param .u32 by)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [p];
    ld.param.u32 %r0, [by];
    ld.global.u32 %r1, [%rd0];
    add.u32 %r1, %r1, %r0;
    st.global.u32 [%rd0], %r1;
    ret;
}
"""


def test_loaded_kernels_are_recorded_in_order(device: vc.Device) -> None:
    kernel = device.load(INCREMENT, "increment", signature="ptr u32")
    x, y = device.zeros(4, vc.u32), device.zeros(4, vc.u32)
    call = kernel.bind(x, 100, grid=1, block=1)

    with device.record() as graph:
        kernel.launch(x, vc.symbol("by", 1), grid=1, block=1)
        kernel.launch(vc.symbol("p", y), 10, grid=1, block=1)
        call()
        y[:1].copy_from(x[:1])
        with pytest.raises(vc.RecordingError):
            kernel.launch(1 << 20, 1, grid=1, block=1)
        with pytest.raises(vc.RecordingError):
            kernel.launch(x, 1, grid=1, block=1, stream=device.stream())

    assert edges(graph) == {(0, 2), (1, 3), (2, 3)}
    assert x[0] == 0
    graph.replay()
    assert (x[0], y[0]) == (101, 101)
    graph.replay(by=2, p=x)
    assert (x[0], y[0]) == (101 + 112, 101 + 112)


def test_a_graph_replays_on_streams_of_others(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))
    with device.record() as graph:
        add.launch(h, one)
    stream = device.stream()

    for other in (0, stream, stream.handle):
        graph.replay(stream=other)

    np.testing.assert_array_equal(np.full(N, 3), h.numpy())
