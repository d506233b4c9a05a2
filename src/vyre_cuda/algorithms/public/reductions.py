"""Reductions."""

from __future__ import annotations

from typing import Any

from vyre_cuda.algorithms.reductions import Axis, Either, reduction


def sum(x: Either, axis: Axis = None, dtype: Any = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """The sum of the elements.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis or axes to reduce; None for all.
    dtype
        The type of the result, and for integers also of the sums: a type of this package or a NumPy dtype; None for
        NumPy's.
    out
        An array of the same kind for the result, with its shape and type.
    keepdims
        Whether the reduced axes stay, with one element each.

    Returns
    -------
    array
        The result, with the shape of the other axes: () for a whole array.

    Raises
    ------
    TypeError
        Not an array, a sum of such elements cannot have the `dtype`, or `out` has another type.
    ValueError
        There is no such axis, or `out` has another shape or shares memory with `x`.
    """
    return reduction("sum", x, axis, dtype, out, keepdims)  # type: ignore[no-any-return]


def prod(x: Either, axis: Axis = None, dtype: Any = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """The product of the elements.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis or axes to reduce; None for all.
    dtype
        The type of the result, for integers also that of the products: a type of this package or a NumPy dtype; None
        for NumPy's.
    out
        An array of the same kind for the result, with its shape and type.
    keepdims
        Whether the reduced axes stay, with one element each.

    Returns
    -------
    array
        The result, with the shape of the other axes: () for a whole array.

    Raises
    ------
    TypeError
        Not an array, a product of such elements cannot have the `dtype`, or `out` has another type.
    ValueError
        There is no such axis, or `out` has another shape or shares memory with `x`.
    """
    return reduction("prod", x, axis, dtype, out, keepdims)  # type: ignore[no-any-return]


def mean(x: Either, axis: Axis = None, dtype: Any = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """The mean of the elements: their sum, divided by their number; NaN if there are none.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis or axes to reduce; None for all.
    dtype
        The type of the result and of the sums, a float: a type of this package or a NumPy dtype; None for NumPy's.
    out
        An array of the same kind for the result, with its shape and type.
    keepdims
        Whether the reduced axes stay, with one element each.

    Returns
    -------
    array
        The result, with the shape of the other axes: () for a whole array.

    Raises
    ------
    TypeError
        Not an array, `dtype` is not a float, or `out` has another type.
    ValueError
        There is no such axis, or `out` has another shape or shares memory with `x`.
    """
    return reduction("mean", x, axis, dtype, out, keepdims)  # type: ignore[no-any-return]


def min(x: Either, axis: Axis = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """The least element; NaN if there is one.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis or axes to reduce; None for all.
    out
        An array of the same kind for the result, with its shape and type.
    keepdims
        Whether the reduced axes stay, with one element each.

    Returns
    -------
    array
        The result, with the shape of the other axes: () for a whole array.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        There is no such axis, there are no elements, or `out` has another shape or shares memory with `x`.
    """
    return reduction("min", x, axis, None, out, keepdims)  # type: ignore[no-any-return]


def max(x: Either, axis: Axis = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """The greatest element; NaN if there is one.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis or axes to reduce; None for all.
    out
        An array of the same kind for the result, with its shape and type.
    keepdims
        Whether the reduced axes stay, with one element each.

    Returns
    -------
    array
        The result, with the shape of the other axes: () for a whole array.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        There is no such axis, there are no elements, or `out` has another shape or shares memory with `x`.
    """
    return reduction("max", x, axis, None, out, keepdims)  # type: ignore[no-any-return]


def any(x: Either, axis: Axis = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """Whether any element is not zero.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis or axes to reduce; None for all.
    out
        An array of the same kind for the result, with its shape and type.
    keepdims
        Whether the reduced axes stay, with one element each.

    Returns
    -------
    array
        The result, with the shape of the other axes: () for a whole array.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        There is no such axis, or `out` has another shape or shares memory with `x`.
    """
    return reduction("any", x, axis, None, out, keepdims)  # type: ignore[no-any-return]


def all(x: Either, axis: Axis = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """Whether no element is zero.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis or axes to reduce; None for all.
    out
        An array of the same kind for the result, with its shape and type.
    keepdims
        Whether the reduced axes stay, with one element each.

    Returns
    -------
    array
        The result, with the shape of the other axes: () for a whole array.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        There is no such axis, or `out` has another shape or shares memory with `x`.
    """
    return reduction("all", x, axis, None, out, keepdims)  # type: ignore[no-any-return]


def argmin(x: Either, axis: int | None = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """The place of the least element: the first of equal ones, or of the NaNs.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis to reduce; None for the place in the flat array.
    out
        An array of int64 of the same kind for the result, with its shape.
    keepdims
        Whether the reduced axis stays, with one element.

    Returns
    -------
    array
        int64, with the shape of the other axes.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        There is no such axis, there are no elements, or `out` has another shape or shares memory with `x`.
    """
    return reduction("argmin", x, axis, None, out, keepdims)  # type: ignore[no-any-return]


def argmax(x: Either, axis: int | None = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """The place of the greatest element: the first of equal ones, or of the NaNs.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis to reduce; None for the place in the flat array.
    out
        An array of int64 of the same kind for the result, with its shape.
    keepdims
        Whether the reduced axis stays, with one element.

    Returns
    -------
    array
        int64, with the shape of the other axes.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        There is no such axis, there are no elements, or `out` has another shape or shares memory with `x`.
    """
    return reduction("argmax", x, axis, None, out, keepdims)  # type: ignore[no-any-return]
