"""Tables: the signatures of the goldens, and what a table refuses."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from tests.device.egraph.tables import table_of
from vyre_cuda.egraph import Table, close, close_numpy, signatures

pytestmark = pytest.mark.device

LEAF, LEAVES = 0x74CFF7AD, [0x74CFF7AD] * 2

GOLDENS = {
    "A": ([(2, "lit", ()), (1, "lit", ()), (2, "add", (1, 2))], [*LEAVES, 0x84AB3451]),
    "B": (
        [
            (1, "lit", ()),
            (2, "lit", ()),
            (10, "add", (1, 2)),
            (11, "add", (1, 2)),
            (12, "add", (2, 1)),
            (13, "mul", (1, 2)),
        ],
        [*LEAVES, 0x84AB3451, 0x84AB3451, 0x808462DF, 0x0F31428B],
    ),
    "C": (
        [
            (0, "lit", ()),
            (1, "lit", ()),
            (2, "add", (0, 1)),
            (3, "add", (0, 1)),
            (4, "add", (1, 0)),
            (5, "mul", (0, 1)),
        ],
        [*LEAVES, 0x2B571A74, 0x2B571A74, 0xE26FF451, 0xD06E84C4],
    ),
    "D": (
        [
            (10, "lit", ()),
            (20, "lit", ()),
            (30, "add", (10, 20)),
            (40, "add", (10, 20)),
            (50, "add", (20, 10)),
            (30, "add", (10, 20)),
        ],
        [*LEAVES, 0x3AE0F4C9, 0x3AE0F4C9, 0xB504D7AB, 0x3AE0F4C9],
    ),
    "E": (
        [
            (10, "lit", ()),
            (20, "lit", ()),
            (30, "add", (10, 20)),
            (40, "add", (10, 20)),
            (50, "add", (20, 10)),
            (60, "mul", (30, 40)),
            (70, "mul", (30, 40)),
        ],
        [*LEAVES, 0x3AE0F4C9, 0x3AE0F4C9, 0xB504D7AB, 0x8463B724, 0x8463B724],
    ),
    "F": (
        [
            (10, "lit", ()),
            (20, "lit", ()),
            (30, "add", (10, 10)),
            (40, "add", (10, 20)),
            (50, "mul", (30, 30)),
            (60, "mul", (30, 40)),
        ],
        [*LEAVES, 0x6310B4C9, 0x3AE0F4C9, 0x3287F724, 0x8463B724],
    ),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_signatures_are_those_of_the_original(name: str) -> None:
    rows, expected = GOLDENS[name]
    table = table_of(*rows)
    assert signatures(table).tolist() == expected
    assert table.signatures().tolist() == expected


@pytest.mark.parametrize(("op", "expected"), [(0, LEAF), (1, 0x6F3A84C2), (2, 0x0BF45909)])
def test_signatures_of_leaves(op: int, expected: int) -> None:
    assert Table([op], [0], [0], []).signatures().tolist() == [expected]


def test_merged_classes_are_renamed_and_nothing_else() -> None:
    table = table_of(
        (10, "lit", ()), (20, "lit", ()), (30, "add", (10, 20)), (40, "add", (20, 10)), (50, "mul", (30, 40))
    ).merged([(20, 10), (40, 30)])
    assert table.classes.tolist() == [10, 10, 30, 30, 50]
    assert table.children.tolist() == [10, 10, 10, 10, 30, 30]
    assert table.merged([]).classes.tolist() == [10, 10, 30, 30, 50]


@pytest.mark.parametrize("pairs", [[(0, 1, 2, 3)], [(0, 1, 2)], [0, 1]])
def test_merged_takes_pairs_alone(pairs: Any) -> None:
    table = table_of((0, "a", ()), (1, "b", ()), (2, "c", ()), (3, "d", ()))
    with pytest.raises(ValueError, match="give two classes for each"):
        table.merged(pairs)


def test_merged_takes_chains_and_pairs_of_one_class() -> None:
    table = Table(np.arange(1026), np.zeros(1026, int), np.zeros(1026, int), [])
    edges = [(i, i + 1) for i in range(1024)]
    both = edges + [(right, left) for left, right in edges] + [(i, i) for i in range(0, 1024, 7)]
    np.random.default_rng(1).shuffle(both)
    assert table.merged(both).classes.tolist() == [0] * 1025 + [1025]


def test_merging_a_class_of_no_row_is_refused() -> None:
    with pytest.raises(ValueError, match="pair 1: class 7 is the class of no row"):
        table_of((1, "a", ()), (9, "b", ())).merged([(1, 9), (9, 7)])


REFUSED = {
    "an end beyond the children": (([0, 0], [0, 1], [1, 1], [0]), "row 1: its children end at 2, beyond the 1"),
    "an offset near the largest": (([0], [2**32 - 1], [1], [0]), "row 0: its children end at 4294967296"),
    "an offset without children": (([0], [1], [0], []), "row 0: its children end at 1, beyond the 0"),
    "a child that is no row": (([0, 1], [0, 0], [0, 2], [0, 99]), "row 1: child 1 is 99, which is the class of no row"),
    "a child that is no class": (
        ([0, 1], [0, 0], [0, 2], [5, 99], [5, 6]),
        "row 1: child 1 is 99, which is the class of no row",
    ),
    "a child below all classes": (([0], [0], [1], [4], [5]), "row 0: child 0 is 4, which is the class of no row"),
    "a column of another length": (([0, 1], [0], [0, 0], []), "offsets has 1 value for 2 rows"),
    "classes of another length": (([0, 1], [0, 0], [0, 0], [], [1]), "classes has 1 value for 2 rows"),
    "a negative number": (([0, -1], [0, 0], [0, 0], []), "ops[1] is -1, which is not a u32"),
    "a large number": (([0], [0], [0], [], [2**32]), "classes[0] is 4294967296, which is not a u32"),
    "two axes": (([[0]], [0], [0], []), "ops must have one axis, not 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_damaged_tables_are_refused(name: str) -> None:
    columns, message = REFUSED[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        Table(*columns)


def test_columns_of_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="ops must be integers, not float64"):
        Table([0.5], [0], [0], [])


def test_what_is_no_table_is_refused(device: vc.Device) -> None:
    table = Table([0], [0], [0], [])
    for call in (close_numpy, signatures, lambda given: close(given, device)):
        with pytest.raises(TypeError, match=r"takes a vc\.egraph\.Table, not a list"):
            call([0])
    for given in (None, "emulator", 0):
        with pytest.raises(TypeError, match=r"close takes a Device, not .*: write vc\.Device\('auto'\)"):
            close(table, given)  # type: ignore[arg-type]
    for rounds in ("x", 1.5, True):
        with pytest.raises(TypeError, match="it must be an int, or None for no limit"):
            close(table, device, rounds)  # type: ignore[arg-type]


def test_children_of_no_row_are_not_looked_at() -> None:
    table = Table([0, 1], [0, 1], [0, 1], [99, 7, 99], [7, 8])
    assert close_numpy(table).classes.tolist() == [7, 8]


def test_a_table_does_not_change_with_the_arrays_it_was_made_of() -> None:
    ops = np.zeros(2, np.uint32)
    table = Table(ops, [0, 0], [0, 0], [])
    ops[1] = 1
    assert close_numpy(table).classes.tolist() == [0, 0]
    with pytest.raises(ValueError, match="read-only"):
        table.ops[0] = 1
