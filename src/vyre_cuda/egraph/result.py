"""What a closure found."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from vyre_cuda.egraph.table import Table
from vyre_cuda.errors import type_name

A = TypeVar("A")

# Of the report: whether the last round merged nothing, and the number of rounds.
STEADY, ROUNDS = 0, 1
MOST_ROUNDS = 2**32 - 1


class Closure(Generic[A]):
    """The classes of a table's rows, as far as rounds have merged them.

    Attributes
    ----------
    classes : DeviceArray or numpy.ndarray of u32, shape (rows,)
        For each row the least class that is equal to its own.
    """

    def __init__(self, table: Table, classes: A, report: Any) -> None:
        self.classes = classes
        self._table = table
        self._report = report

    def __repr__(self) -> str:
        return f"<Closure of {self._table!r}>"

    @cached_property
    def _numbers(self) -> npt.NDArray[np.uint32]:
        return _on_host(self._report)

    @property
    def rounds(self) -> int:
        """The number of rounds, with the one that merged nothing. With a device, the first look waits for it."""
        return int(self._numbers[ROUNDS])

    @property
    def converged(self) -> bool:
        """Whether the last round merged nothing. With a device, the first look waits for it."""
        return bool(self._numbers[STEADY])

    def pairs(self) -> npt.NDArray[np.uint32]:
        """The rows whose class changed, ascending, and their classes.

        Returns
        -------
        numpy.ndarray of u32, shape (n, 2)
            The number of a row, and its class.
        """
        after = _on_host(self.classes)
        rows = np.flatnonzero(after != self._table.classes)
        return np.stack([rows.astype(np.uint32), after[rows]], axis=1)

    def table(self) -> Table:
        """The table with the classes that were found, in rows and children.

        Returns
        -------
        Table
        """
        after = _on_host(self.classes)
        names = np.empty(self._table.ids.size, np.uint32)
        names[self._table.row_index] = after
        return self._table.renamed(names)


def rounds_limit(max_rounds: int | None) -> int:
    """The number of rounds that `max_rounds` allows."""
    if max_rounds is None:
        return MOST_ROUNDS
    if isinstance(max_rounds, bool) or not isinstance(max_rounds, (int, np.integer)):
        raise TypeError(f"max_rounds is {type_name(max_rounds)}; it must be an int, or None for no limit")
    if max_rounds < 0:
        raise ValueError(f"max_rounds is {max_rounds}; it must not be negative")
    return min(int(max_rounds), MOST_ROUNDS)


def _on_host(array: Any) -> npt.NDArray[np.uint32]:
    found: npt.NDArray[np.uint32] = array if isinstance(array, np.ndarray) else array.numpy()
    return found
