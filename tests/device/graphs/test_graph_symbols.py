"""Symbols of recorded graphs: values of one replay and of all later ones, of every kind, right and wrong."""

from __future__ import annotations

import copy
import pickle

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from .graph_checks import F32, N, edges, first, floats


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
    with pytest.raises(TypeError, match=r"replay\(\) needs a value for x"):
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


def test_copied_and_pickled_symbols_have_a_default_only_if_the_first_had_one() -> None:
    for made in (copy.copy, copy.deepcopy, lambda symbol: pickle.loads(pickle.dumps(symbol))):
        assert repr(made(vc.symbol("a"))) == "vc.symbol('a')"
        assert made(vc.symbol("a", 2.5)).default == 2.5


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
