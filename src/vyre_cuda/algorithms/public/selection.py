"""Selection by conditions and places."""

from __future__ import annotations

from typing import Any

from vyre_cuda.algorithms.indexing import put_values, taken
from vyre_cuda.algorithms.reductions import Either
from vyre_cuda.algorithms.selection import compressed, nonzeros, uniques


def compress(
    condition: Any, x: Either, axis: int | None = None, out: Either | None = None, *, count: Either | None = None
) -> Either:
    """The elements for which the condition holds, in their order.

    Parameters
    ----------
    condition
        An array of the same kind with one axis, not zero where an element is taken; elements beyond it are not.
    x
        A device array or a NumPy array.
    axis
        The axis to take elements from; None for the flat array.
    out, count
        Arrays to write to instead of waiting: one large enough for the largest result, and one u64 for how many
        elements it then has. Elements of `out` after these are unspecified. For arrays with one axis, or `axis=None`.

    Returns
    -------
    array
        The elements taken; with `out`, that array.

    Raises
    ------
    TypeError
        Not arrays of one kind, only one of `out` and `count`, or one of another type.
    ValueError
        The condition is longer than the axis or has several, there is no such axis, or `out` is too small, shares
        memory with an argument or is given for several axes.
    RecordingError
        In a recording, without `out` and `count`: the number of elements is known only on the device.
    """
    return compressed(condition, x, axis, out, count)  # type: ignore[no-any-return]


def nonzero(x: Either, out: Either | None = None, *, count: Either | None = None) -> tuple[Either, ...]:
    """The places of the elements that are not zero, ascending.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    out, count
        Arrays to write to instead of waiting: one large enough for the largest result, and one u64 for how many
        elements it then has. Elements of `out` after these are unspecified. For arrays with one axis.

    Returns
    -------
    tuple of arrays
        int64: for each axis the coordinates; with `out`, a tuple of that array.

    Raises
    ------
    TypeError, ValueError
        As for `compress`.
    RecordingError
        In a recording, without `out` and `count`: the number of elements is known only on the device.
    """
    return nonzeros(x, out, count)  # type: ignore[no-any-return]


def unique(x: Either, out: Either | None = None, *, count: Either | None = None) -> Either:
    """The different elements in ascending order: -0 equal to +0, all NaNs equal and last.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    out, count
        Arrays to write to instead of waiting: one large enough for the largest result, and one u64 for how many
        elements it then has. Elements of `out` after these are unspecified.

    Returns
    -------
    array
        One of each; with `out`, that array.

    Raises
    ------
    TypeError, ValueError
        As for `compress`.
    RecordingError
        In a recording, without `out` and `count`: the number of elements is known only on the device.
    """
    return uniques(x, out, count)  # type: ignore[no-any-return]


def take(x: Either, indices: Either, axis: int | None = None, out: Either | None = None, mode: str = "raise") -> Either:
    """The elements at some places of an axis.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    indices
        An array of integers of the same kind, with any shape; negative ones count from the end.
    axis
        The axis; None for the flat array.
    out
        An array of the same kind for the result.
    mode
        What an index out of bounds does: "raise", "wrap" or "clip". On a device "raise" is an assertion, so the
        error is a `vc.KernelAssertionError`, at the next wait.

    Returns
    -------
    array
        The elements, with the shape of the indices in place of the axis.

    Raises
    ------
    TypeError
        Indices are not integers, or `out` has another type.
    ValueError
        `out` has another shape or shares memory with an argument; or there is no such axis or mode.
    IndexError
        An axis without elements; for NumPy arrays an index out of bounds.
    """
    return taken(x, indices, axis, mode, out)  # type: ignore[no-any-return]


def put(x: Either, indices: Either, values: Either, mode: str = "raise") -> None:
    """Write values to places of the flat array; of several for one place, the last.

    Parameters
    ----------
    x
        The device array or NumPy array that is written.
    indices
        An array of integers of the same kind, as for `take`.
    values
        An array of the same type; it is repeated if it has fewer elements than indices. Nothing is written without any.
    mode
        As for `take`.

    Returns
    -------
    None
        `x` has changed.

    Raises
    ------
    TypeError
        Indices are not integers, or values have another type.
    ValueError
        `x` shares memory with another argument; or there is no such mode.
    IndexError
        `x` has no elements; for NumPy arrays an index out of bounds.
    """
    put_values(x, indices, values, mode)
