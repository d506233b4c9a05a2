"""Tables for tests: those of the goldens, and random ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vyre_cuda.egraph import Table

Row = tuple[int, str, Sequence[int]]


def table_of(*rows: Row) -> Table:
    """Rows as (class, operation, children); operations are numbered as they come."""
    numbers: dict[str, int] = {}
    ops = [numbers.setdefault(op, len(numbers)) for _, op, _ in rows]
    lengths = np.array([len(children) for *_, children in rows], np.uint32)
    flat = np.array([child for *_, children in rows for child in children], np.uint32)
    return Table(ops, np.cumsum(lengths) - lengths, lengths, flat, [each for each, *_ in rows])


def random_table(rng: np.random.Generator, rows: int, *, longest: int = 3, ops: int = 2) -> Table:
    """Any rows: cycles, children that rows share or that no row has, rows of one class, classes without an order."""
    classes = int(rng.integers(1, rows + 1))
    ids = rng.choice(2**32 - 1, classes, replace=False).astype(np.uint32)
    of_rows = np.concatenate([ids, rng.choice(ids, rows - classes)])
    rng.shuffle(of_rows)
    lengths = rng.integers(0, 3, rows)
    many = rng.random(rows) < 0.1
    lengths[many] = longest
    flat = rng.choice(ids, int(lengths.sum()) + longest + 1)
    offsets = rng.integers(0, flat.size - lengths + 1)
    return Table(rng.integers(0, ops, rows), offsets, lengths, flat, of_rows)


def terms(rng: np.random.Generator, rows: int, *, copies: int = 30) -> Table:
    """Row i has two earlier children; of a hundred rows about `copies` repeat an earlier one."""
    index = np.arange(rows)
    op = rng.integers(1, 17, rows)
    children = (rng.random((rows, 2)) * index[:, None]).astype(np.int64)
    op[0] = 0
    source = np.where(rng.random(rows) * 100 < copies, (rng.random(rows) * index).astype(np.int64), index)
    while (source != source[source]).any():
        source = source[source]
    lengths = np.where(source == 0, 0, 2)
    inner = children[source][lengths > 0]
    return Table(op[source], np.cumsum(lengths) - lengths, lengths, inner.reshape(-1))
