"""Sorting, and the order of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vyre_cuda.algorithms.indexing import searched
from vyre_cuda.algorithms.moving import transposed
from vyre_cuda.algorithms.reductions import Either
from vyre_cuda.algorithms.sorting import argsorted, sorted_arrays


def sort(keys: Either, values: Either | None = None, axis: int | None = -1, out: Any = None) -> Any:
    """The elements in ascending order: stable, -0 equal to +0, NaNs last and equal.

    Parameters
    ----------
    keys
        A device array or a NumPy array.
    values
        An array of the same kind and shape whose elements move with the keys.
    axis
        The axis to sort along; None for the flat array.
    out
        An array for the sorted keys; with values a pair of arrays.

    Returns
    -------
    array or pair of arrays
        The sorted keys; with values these and the values in the same order.

    Raises
    ------
    TypeError
        Not arrays of one kind, or `out` has other types.
    ValueError
        There is no such axis, shapes differ, `out` shares memory with an argument, or a row has more than 2^31 keys.
    """
    return sorted_arrays(keys, values, axis, out)


def argsort(x: Either, axis: int | None = -1, out: Either | None = None) -> Either:
    """The places of the elements in ascending order, as `sort` has them.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis to sort along; None for the flat array.
    out
        An array of int64 of the same kind and shape for the result.

    Returns
    -------
    array
        int64, of the shape of `x`.

    Raises
    ------
    TypeError, ValueError
        As for `sort`.
    """
    return argsorted(x, axis, out)  # type: ignore[no-any-return]


def searchsorted(x: Either, v: Either, side: str = "left", out: Either | None = None) -> Either:
    """Where elements would be inserted into a sorted array, in the order of `sort`.

    Parameters
    ----------
    x
        A device array or a NumPy array with one axis, sorted.
    v
        An array of the same kind and type.
    side
        "left": before equal elements; "right": after them.
    out
        An array of int64 of the same kind, with the shape of `v`.

    Returns
    -------
    array
        int64, of the shape of `v`.

    Raises
    ------
    TypeError
        The types differ, or `out` has another type.
    ValueError
        More than one axis, another side, or `out` has another shape or shares memory with an argument.
    """
    return searched(x, v, side, out)  # type: ignore[no-any-return]


def transpose(x: Either, axes: Sequence[int] | None = None, out: Either | None = None) -> Either:
    """A new array with the axes in another order.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axes
        For each axis of the result the axis of `x`; None for the reverse order.
    out
        An array of the same kind for the result.

    Returns
    -------
    array
        The elements, contiguous in the new order.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        Not a permutation of the axes, or `out` has another shape or shares memory with `x`.
    """
    return transposed(x, axes, out)  # type: ignore[no-any-return]
