"""Closures: the goldens, and the same arrays from a device, from NumPy and from a dict of rows."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
from side_by_side import side_by_side

import vyre_cuda as vc
from tests.device.egraph.tables import Row, random_table, table_of, terms
from vyre_cuda import egraph
from vyre_cuda.egraph import Closure, Table, close, close_numpy

pytestmark = pytest.mark.device

LEAVES: list[Row] = [(10, "lit", ()), (20, "lit", ())]
ADDS: list[Row] = [(30, "add", (10, 20)), (40, "add", (10, 20))]
# Rows, max_rounds; classes, rounds, whether it converged.
GOLDENS: dict[str, tuple[list[Row], int | None, list[int], int, bool]] = {
    "A": ([(2, "lit", ()), (1, "lit", ()), (2, "add", (1, 2))], None, [1, 1, 1], 2, True),
    "D, one round": (
        [*LEAVES, *ADDS, (50, "add", (20, 10)), (30, "add", (10, 20))],
        1,
        [10, 10, 30, 30, 50, 30],
        1,
        False,
    ),
    "E, one round": (
        [*LEAVES, *ADDS, (50, "add", (20, 10)), (60, "mul", (30, 40)), (70, "mul", (30, 40))],
        1,
        [10, 10, 30, 30, 50, 60, 60],
        1,
        False,
    ),
    "F": (
        [*LEAVES, (30, "add", (10, 10)), (40, "add", (10, 20)), (50, "mul", (30, 30)), (60, "mul", (30, 40))],
        5,
        [10, 10, 30, 30, 50, 50],
        4,
        True,
    ),
    "F, its first rows, one round": (
        [*LEAVES, (30, "add", (10, 10)), (40, "add", (10, 20))],
        1,
        [10, 10, 30, 40],
        1,
        False,
    ),
    "G, one round": (
        [*LEAVES, *ADDS, (50, "mul", (30, 40)), (60, "mul", (30, 40))],
        1,
        [10, 10, 30, 30, 50, 50],
        1,
        False,
    ),
    "no round": ([*LEAVES], 0, [10, 20], 0, False),
    "cycles stay apart": ([(1, "f", (1,)), (2, "f", (2,))], None, [1, 2], 1, True),
    "cycles that share a class": ([(1, "f", (1,)), (2, "f", (1,)), (3, "f", (2,))], None, [1, 1, 1], 3, True),
    "upward congruence": (
        [(1, "x", ()), (2, "x", ()), (3, "neg", (1,)), (4, "neg", (2,))],
        None,
        [1, 1, 3, 3],
        3,
        True,
    ),
    "a class of two rows": ([(1, "a", ()), (1, "b", ()), (2, "b", ()), (3, "a", ())], None, [1, 1, 1, 1], 2, True),
    "another order of children": (
        [(1, "a", ()), (2, "b", ()), (3, "f", (1, 2)), (4, "f", (2, 1))],
        None,
        [1, 2, 3, 4],
        1,
        True,
    ),
}


@pytest.fixture(params=["device", "NumPy"])
def closed(request: pytest.FixtureRequest, device: vc.Device) -> Iterator[object]:
    if request.param == "NumPy":
        yield close_numpy
    else:
        yield lambda table, max_rounds=None: close(table, device, max_rounds)


def array_of(found: Closure) -> np.ndarray:  # type: ignore[type-arg]
    classes = found.classes
    return classes if isinstance(classes, np.ndarray) else classes.numpy()


@pytest.mark.parametrize("name", GOLDENS)
def test_goldens(name: str, closed) -> None:  # type: ignore[no-untyped-def]
    rows, most, classes, rounds, converged = GOLDENS[name]
    found = closed(table_of(*rows), most)
    assert array_of(found).tolist() == classes
    assert (found.rounds, found.converged) == (rounds, converged)
    changed = [
        [i, after] for i, ((before, _, _), after) in enumerate(zip(rows, classes, strict=True)) if before != after
    ]
    assert found.pairs().tolist() == changed


def test_the_table_that_was_found_has_the_signatures_of_the_original(closed) -> None:  # type: ignore[no-untyped-def]
    after = closed(table_of(*GOLDENS["F"][0])).table()
    assert after.children.tolist() == [10, 10, 10, 10, 30, 30, 30, 30]
    assert after.signatures().tolist() == [0x74CFF7AD] * 2 + [0x6310B4C9] * 2 + [0x3287F724] * 2


def by_hand(table: Table) -> list[int]:
    """The classes that a dict of rows finds, whose numbers shrink as long as two rows are equal."""
    least = {int(each): int(each) for each in table.classes}
    while True:
        rows: dict[tuple[int, ...], int] = {}
        merges = []
        for row, own in enumerate(table.classes.tolist()):
            start = int(table.offsets[row])
            children = table.children[start : start + int(table.lengths[row])].tolist()
            key = (int(table.ops[row]), *(least[child] for child in children))
            other = rows.setdefault(key, least[own])
            if other != least[own]:
                merges.append((other, least[own]))
        if not merges:
            return [least[each] for each in table.classes.tolist()]
        for left, right in merges:
            a, b = least[left], least[right]
            least = {each: min(a, b) if of in (a, b) else of for each, of in least.items()}


@pytest.mark.thin(3)
@pytest.mark.parametrize("seed", range(40))
def test_random_tables(device: vc.Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(
        rng, int(rng.integers(1, 120)), longest=int(rng.choice([3, 33, 70])), ops=int(rng.integers(1, 4))
    )
    expected = close_numpy(table)
    assert expected.classes.tolist() == by_hand(table)
    assert expected.converged
    for most in (None, 1, 2):
        expected, found = close_numpy(table, most), close(table, device, most)
        assert found.classes.numpy().tobytes() == expected.classes.tobytes()
        assert (found.rounds, found.converged) == (expected.rounds, expected.converged)
        assert found.pairs().tobytes() == expected.pairs().tobytes()


@pytest.mark.parametrize(
    "rows", [1, 2, 255, 256, 257, 20_000, pytest.param(10**6, marks=[pytest.mark.long, pytest.mark.timeout(600)])]
)
def test_terms_of_many_sizes(device: vc.Device, rows: int) -> None:
    table = terms(np.random.default_rng(rows), rows)
    expected, found = close_numpy(table), close(table, device)
    assert found.classes.numpy().tobytes() == expected.classes.tobytes()
    assert found.rounds == expected.rounds


def test_the_order_of_rows_does_not_matter(device: vc.Device) -> None:
    rng = np.random.default_rng(3)
    table = terms(rng, 2000)
    order = rng.permutation(2000)
    shuffled = Table(table.ops[order], table.offsets[order], table.lengths[order], table.children, table.classes[order])
    found, expected = close(shuffled, device), close(table, device)
    assert (found.classes.numpy() == expected.classes.numpy()[order]).all()
    assert found.rounds == expected.rounds


@pytest.mark.parametrize("depth", [1, 16, 256])
def test_a_chain_needs_a_round_for_each_level(device: vc.Device, depth: int) -> None:
    rows: list[Row] = [(0, "leaf", ()), (1, "leaf", ())]
    rows += [(2 * level + side, "f", (2 * level + side - 2,)) for level in range(1, depth + 1) for side in (0, 1)]
    found = close(table_of(*rows), device)
    assert (found.classes.numpy() == np.arange(2 * depth + 2) // 2 * 2).all()
    assert (found.rounds, found.converged) == (depth + 2, True)


@pytest.mark.parametrize("length", [31, 32, 33, 64, 1000])
def test_long_rows_differ_in_one_child(device: vc.Device, length: int) -> None:
    rng = np.random.default_rng(length)
    one = rng.integers(0, 2, length)
    rows = []
    for at in (None, 0, length // 2, length - 1, None):
        row = one.copy()
        if at is not None:
            row[at] ^= 1
        rows.append(row)
    lengths = np.array([0, 0] + [length] * 5)
    table = Table([0, 1] + [2] * 5, np.cumsum(lengths) - lengths, lengths, np.concatenate(rows))
    assert close(table, device).classes.numpy().tolist() == [0, 1, 2, 3, 4, 5, 2]


@pytest.mark.thin
def test_equal_rows(device: vc.Device) -> None:
    n = 5000
    found = close(Table(np.zeros(n, int), np.zeros(n, int), np.zeros(n, int), [], np.arange(n, 0, -1)), device)
    assert not (found.classes.numpy() != 1).any()
    assert found.rounds == 2


def test_no_rows(device: vc.Device) -> None:
    table = Table([], [], [], [])
    for most, rounds in ((None, 1), (0, 0)):
        for found in (close(table, device, most), close_numpy(table, most)):
            assert found.classes.size == 0
            assert (found.rounds, found.converged) == (rounds, rounds == 1)
            assert found.pairs().shape == (0, 2)


def test_negative_limits_are_refused(closed) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="max_rounds is -1; it must not be negative"):
        closed(table_of(*LEAVES), -1)


def test_rounds_follow_each_other_on_the_device_alone(device: vc.Device) -> None:
    rows: list[Row] = [(0, "leaf", ()), (1, "leaf", ())]
    rows += [(2 * level + side, "f", (2 * level + side - 2,)) for level in range(1, 60) for side in (0, 1)]
    table = table_of(*rows)
    close(table, device).classes.numpy()
    before = device.stats()
    found = close(table, device)
    after = device.stats()
    assert after.kernel_launches - before.kernel_launches == 1
    assert after.cuda_graph_launches - before.cuda_graph_launches == 1
    assert found.rounds == 61


def test_results_stay_while_the_table_is_closed_again(device: vc.Device) -> None:
    table = table_of(*GOLDENS["F"][0])
    first, second = close(table, device, 1), close(table, device)
    assert (first.rounds, first.converged) == (1, False)
    assert first.classes.numpy().tolist() == [10, 10, 30, 40, 50, 60]
    assert second.classes.numpy().tolist() == [10, 10, 30, 30, 50, 50]


def test_threads_close_one_table(device: vc.Device) -> None:
    table = terms(np.random.default_rng(5), 3000)
    expected = close_numpy(table).classes.tobytes()
    wrong: list[object] = []

    def work() -> None:
        for _ in range(5):
            if close(table, device).classes.numpy().tobytes() != expected:
                wrong.append(table)

    side_by_side([work] * 4)
    assert not wrong


def test_a_table_leaves_its_device_when_it_goes(own_device: vc.Device) -> None:
    table = terms(np.random.default_rng(5), 3000)
    close(table, own_device).classes.numpy()
    assert own_device.memory_stats().live_bytes > 3000 * 37
    del table
    gc.collect()
    assert own_device.memory_stats().live_bytes == 0


def test_a_closed_device_is_not_kept(device_name: int | str) -> None:
    table = table_of(*GOLDENS["F"][0])
    for _ in range(2):
        with vc.Device(device_name) as device:
            assert close(table, device).classes.numpy().tolist() == [10, 10, 30, 30, 50, 50]
    with pytest.raises(vc.Error):
        close(table, device)


@pytest.mark.emulator
def test_no_thread_reads_what_another_writes() -> None:
    with vc.Device("emulator", check="races") as device:
        for seed in range(6):
            table = random_table(np.random.default_rng(seed), 100, longest=40)
            assert close(table, device).classes.numpy().tobytes() == close_numpy(table).classes.tobytes()


def test_the_names_of_the_room() -> None:
    assert vc.egraph is egraph
    assert "egraph" in dir(vc)
