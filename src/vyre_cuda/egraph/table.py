"""Tables of terms as columns, checked when they are made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from vyre_cuda.errors import counted, type_name

Column = npt.NDArray[np.uint32]

# Kernels index children by i32, and twice as many slots as there are rows.
MOST_CHILDREN, MOST_ROWS = 2**31 - 1, 2**30 - 1


class Table:
    """Rows of terms: row i has the operation `ops[i]` and `lengths[i]` children, from `children[offsets[i]]` on.

    Children are classes. Rows may share children, and refer to later rows and to themselves.

    Parameters
    ----------
    ops
        u32, shape (rows,): the operation of each row, with all that distinguishes it from others: its type, the value
        of a literal.
    offsets, lengths
        u32, shape (rows,): where the children of each row begin, and how many there are.
    children
        u32, shape (n,): classes.
    classes
        u32, shape (rows,): the class of each row; by default row i is class i. Rows of one class are equal from the
        start.

    Raises
    ------
    ValueError
        A column has another length or values that are not u32, children lie beyond their column, or a child is the
        class of no row. The message names the row.
    TypeError
        A column is not made of integers.
    """

    def __init__(
        self,
        ops: npt.ArrayLike,
        offsets: npt.ArrayLike,
        lengths: npt.ArrayLike,
        children: npt.ArrayLike,
        classes: npt.ArrayLike | None = None,
    ) -> None:
        self.ops = _column("ops", ops)
        rows = self.ops.size
        self.offsets = _column("offsets", offsets, rows)
        self.lengths = _column("lengths", lengths, rows)
        self.children = _column("children", children)
        self.classes = _column("classes", np.arange(rows, dtype=np.uint32) if classes is None else classes, rows)
        _check_ranges(self)
        # The distinct classes, ascending, and where the class of each row and each child is among them.
        if classes is None:
            self.ids, self.row_index = self.classes, self.classes
        else:
            self.ids, inverse = np.unique(self.classes, return_inverse=True)
            self.row_index = inverse.astype(np.uint32)
        self.child_index = _child_index(self)
        for column in (self.ids, self.row_index, self.child_index):
            column.flags.writeable = False
        self.residents: Any = None

    def __len__(self) -> int:
        return self.ops.size

    def __repr__(self) -> str:
        return (
            f"<Table of {counted(len(self), 'row')}, {counted(self.children.size, 'child', 'children')}, "
            f"{counted(self.ids.size, 'class', 'classes')}>"
        )

    def signatures(self) -> Column:
        """A hash of each row's operation and children, as `vc.egraph.signatures` makes it.

        Returns
        -------
        numpy.ndarray of u32, shape (rows,)
        """
        from vyre_cuda.egraph.signature import signatures

        return signatures(self)

    def merged(self, pairs: Iterable[tuple[int, int]] | npt.ArrayLike) -> Table:
        """The table after some classes were found equal, by rules of the caller for example, and nothing else.

        Parameters
        ----------
        pairs
            Pairs of u32: classes of the table that are equal.

        Returns
        -------
        Table
            Its classes and children are the least ones of those that are equal.

        Raises
        ------
        ValueError
            A number is the class of no row, or something is not a pair.
        TypeError
            Nothing that pairs could be taken from.
        """
        from vyre_cuda.egraph.oracle import united

        if not isinstance(pairs, (Iterable, np.ndarray)):
            raise TypeError(f"pairs is {type_name(pairs)}; give two classes for each: [(a, b), (c, d)]")
        given = np.asarray(pairs if isinstance(pairs, np.ndarray) else list(pairs))
        if given.size and given.shape[1:] != (2,):
            raise ValueError(f"pairs have the shape {given.shape}; give two classes for each: [(a, b), (c, d)]")
        each = _column("pairs", given.reshape(-1)).reshape(-1, 2)
        at = np.minimum(np.searchsorted(self.ids, each), max(self.ids.size - 1, 0))
        wrong = np.flatnonzero(self.ids[at] != each) if self.ids.size else np.arange(each.size)
        if wrong.size:
            raise ValueError(f"pair {wrong[0] // 2}: class {each.flat[wrong[0]]} is the class of no row")
        parent = united(np.arange(self.ids.size, dtype=np.uint32), at[:, 0], at[:, 1])
        return self.renamed(self.ids[parent])

    def renamed(self, names: Column) -> Table:
        """The table with `names[k]` in place of the k-th of its distinct classes, in rows and children.

        Parameters
        ----------
        names
            u32, shape (distinct classes,).

        Returns
        -------
        Table
        """
        children = names[self.child_index] if self.child_index.size else self.children
        return Table(self.ops, self.offsets, self.lengths, children, names[self.row_index])


def require_table(function: str, table: object) -> None:
    if not isinstance(table, Table):
        raise TypeError(f"{function} takes a vc.egraph.Table, not {type_name(table)}")


def _column(name: str, values: npt.ArrayLike, rows: int | None = None) -> Column:
    """A copy of a column that nobody can write."""
    given: npt.NDArray[Any] = np.asarray(values)
    if given.dtype.kind not in "iu" and given.size:
        raise TypeError(f"{name} must be integers, not {given.dtype}")
    if given.ndim != 1:
        raise ValueError(f"{name} must have one axis, not {given.ndim}")
    if rows is not None and given.size != rows:
        raise ValueError(f"{name} has {counted(given.size, 'value')} for {counted(rows, 'row')}")
    most = MOST_CHILDREN if name == "children" else MOST_ROWS
    if given.size > most:
        raise ValueError(f"{name} has {given.size} values; at most {most} are possible")
    if given.dtype != np.uint32 and given.size:
        wrong = np.flatnonzero((given < 0) | (given > 0xFFFFFFFF))
        if wrong.size:
            raise ValueError(f"{name}[{wrong[0]}] is {given[wrong[0]]}, which is not a u32")
    column: Column = given.astype(np.uint32)
    column.flags.writeable = False
    return column


def _check_ranges(table: Table) -> None:
    ends = table.offsets.astype(np.uint64) + table.lengths
    beyond = np.flatnonzero(ends > table.children.size)
    if beyond.size:
        row = int(beyond[0])
        raise ValueError(
            f"row {row}: its children end at {ends[row]}, beyond the {table.children.size} of the column "
            f"(offset {table.offsets[row]}, length {table.lengths[row]})"
        )


def _child_index(table: Table) -> Column:
    """Where the class of each child is among the distinct ones; children that no row has may be anything."""
    ids, children = table.ids, table.children
    if not children.size:
        return np.empty(0, np.uint32)
    if ids is table.classes:  # row i is class i
        bad = children >= ids.size
        index: Column = children.copy()
    else:
        index = np.searchsorted(ids, children).astype(np.uint32)
        bad = index == ids.size
        index[bad] = 0
        bad = ids[index] != children if ids.size else np.ones(children.size, np.bool_)
    if bad.any():
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(bad)])
        ends = table.offsets.astype(np.int64) + table.lengths
        rows = np.flatnonzero(before[ends] > before[table.offsets])
        if rows.size:
            row = int(rows[0])
            start = int(table.offsets[row])
            at = start + int(np.argmax(bad[start:]))
            raise ValueError(f"row {row}: child {at - start} is {children[at]}, which is the class of no row")
        index[bad] = 0
    return index
