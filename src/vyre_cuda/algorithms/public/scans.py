"""Scans."""

from __future__ import annotations

from typing import Any

from vyre_cuda.algorithms.reductions import Either
from vyre_cuda.algorithms.scans import scanned


def cumsum(
    x: Either, axis: int | None = None, dtype: Any = None, out: Either | None = None, *, exclusive: bool = False
) -> Either:
    """The sum of the elements up to each one.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis to scan; None for the flat array.
    dtype
        The type of the result, as for `sum`.
    out
        An array of the same kind for the result, with its shape and type.
    exclusive
        Whether each element itself is left out; the first result is then 0.

    Returns
    -------
    array
        The result, of the shape of `x`, or flat.

    Raises
    ------
    TypeError
        Not an array, a sum of such elements cannot have the `dtype`, or `out` has another type.
    ValueError
        There is no such axis, or `out` has another shape or shares memory with `x`.
    """
    return scanned("sum", x, axis, dtype, out, exclusive)  # type: ignore[no-any-return]


def cumprod(
    x: Either, axis: int | None = None, dtype: Any = None, out: Either | None = None, *, exclusive: bool = False
) -> Either:
    """The product of the elements up to each one.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis to scan; None for the flat array.
    dtype
        The type of the result, as for `prod`.
    out
        An array of the same kind for the result, with its shape and type.
    exclusive
        Whether each element itself is left out; the first result is then 1.

    Returns
    -------
    array
        The result, of the shape of `x`, or flat.

    Raises
    ------
    TypeError
        Not an array, a product of such elements cannot have the `dtype`, or `out` has another type.
    ValueError
        There is no such axis, or `out` has another shape or shares memory with `x`.
    """
    return scanned("prod", x, axis, dtype, out, exclusive)  # type: ignore[no-any-return]


def cummax(x: Either, axis: int | None = None, out: Either | None = None, *, exclusive: bool = False) -> Either:
    """The greatest of the elements up to each one; NaN from the first NaN on.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis to scan; None for the flat array.
    out
        An array of the same kind for the result, with its shape and type.
    exclusive
        Whether each element itself is left out; the first result is then the least value of the type.

    Returns
    -------
    array
        The result, of the shape of `x`, or flat.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        There is no such axis, or `out` has another shape or shares memory with `x`.
    """
    return scanned("max", x, axis, None, out, exclusive)  # type: ignore[no-any-return]
