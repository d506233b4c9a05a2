"""Sums, scans and sorting on device arrays: `vc.algorithms`.

Every function takes device arrays, or NumPy arrays, for which it computes the same result in NumPy. Sums, products and
scans of floats are made in a stated order, which depends on sizes alone: docs/algorithms.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vyre_cuda.algorithms.moving import transposed
from vyre_cuda.algorithms.plans import Plan as Plan
from vyre_cuda.algorithms.plans import planned
from vyre_cuda.algorithms.reductions import Axis, Either, reduction
from vyre_cuda.algorithms.scans import scanned
from vyre_cuda.algorithms.sorting import argsorted, sorted_arrays

__all__ = [
    "Plan",
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "cummax",
    "cumprod",
    "cumsum",
    "max",
    "mean",
    "min",
    "plan",
    "prod",
    "sort",
    "sum",
    "transpose",
]


def sum(x: Either, axis: Axis = None, dtype: Any = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """The sum of the elements.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis or axes that go; None for all.
    dtype
        The type of the result, for integers also that of the sums: a type of this package or a NumPy dtype; None for
        NumPy's.
    out
        An array of the same kind for the result, with its shape and type.
    keepdims
        Whether the axes stay, with one element each.

    Returns
    -------
    array
        The result, of the shape of the other axes: () for a whole array.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        `out` has another shape or shares memory with `x`.
    """
    return reduction("sum", x, axis, dtype, out, keepdims)  # type: ignore[no-any-return]


def prod(x: Either, axis: Axis = None, dtype: Any = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """The product of the elements.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis or axes that go; None for all.
    dtype
        The type of the result, for integers also that of the sums: a type of this package or a NumPy dtype; None for
        NumPy's.
    out
        An array of the same kind for the result, with its shape and type.
    keepdims
        Whether the axes stay, with one element each.

    Returns
    -------
    array
        The result, of the shape of the other axes: () for a whole array.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        `out` has another shape or shares memory with `x`.
    """
    return reduction("prod", x, axis, dtype, out, keepdims)  # type: ignore[no-any-return]


def mean(x: Either, axis: Axis = None, dtype: Any = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """The mean of the elements: their sum, divided by their number.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis or axes that go; None for all.
    dtype
        The type of the result, for integers also that of the sums: a type of this package or a NumPy dtype; None for
        NumPy's.
    out
        An array of the same kind for the result, with its shape and type.
    keepdims
        Whether the axes stay, with one element each.

    Returns
    -------
    array
        The result, of the shape of the other axes: () for a whole array.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        `out` has another shape or shares memory with `x`.
    """
    return reduction("mean", x, axis, dtype, out, keepdims)  # type: ignore[no-any-return]


def min(x: Either, axis: Axis = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """The least element; NaN if there is one.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis or axes that go; None for all.
    out
        An array of the same kind for the result, with its shape and type.
    keepdims
        Whether the axes stay, with one element each.

    Returns
    -------
    array
        The result, of the shape of the other axes: () for a whole array.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        `out` has another shape or shares memory with `x`, or there are no elements.
    """
    return reduction("min", x, axis, None, out, keepdims)  # type: ignore[no-any-return]


def max(x: Either, axis: Axis = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """The greatest element; NaN if there is one.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis or axes that go; None for all.
    out
        An array of the same kind for the result, with its shape and type.
    keepdims
        Whether the axes stay, with one element each.

    Returns
    -------
    array
        The result, of the shape of the other axes: () for a whole array.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        `out` has another shape or shares memory with `x`, or there are no elements.
    """
    return reduction("max", x, axis, None, out, keepdims)  # type: ignore[no-any-return]


def any(x: Either, axis: Axis = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """Whether any element is not zero.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis or axes that go; None for all.
    out
        An array of the same kind for the result, with its shape and type.
    keepdims
        Whether the axes stay, with one element each.

    Returns
    -------
    array
        The result, of the shape of the other axes: () for a whole array.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        `out` has another shape or shares memory with `x`.
    """
    return reduction("any", x, axis, None, out, keepdims)  # type: ignore[no-any-return]


def all(x: Either, axis: Axis = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """Whether no element is zero.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis or axes that go; None for all.
    out
        An array of the same kind for the result, with its shape and type.
    keepdims
        Whether the axes stay, with one element each.

    Returns
    -------
    array
        The result, of the shape of the other axes: () for a whole array.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        `out` has another shape or shares memory with `x`.
    """
    return reduction("all", x, axis, None, out, keepdims)  # type: ignore[no-any-return]


def argmin(x: Either, axis: int | None = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """The place of the least element: the first of equal ones, or of the NaNs.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis that goes; None for the place in the flat array.
    out
        An array of int64 of the same kind for the result, with its shape.
    keepdims
        Whether the axis stays, with one element.

    Returns
    -------
    array
        int64, of the shape of the other axes.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        There are no elements, or `out` has another shape or shares memory with `x`.
    """
    return reduction("argmin", x, axis, None, out, keepdims)  # type: ignore[no-any-return]


def argmax(x: Either, axis: int | None = None, out: Either | None = None, keepdims: bool = False) -> Either:
    """The place of the greatest element: the first of equal ones, or of the NaNs.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis that goes; None for the place in the flat array.
    out
        An array of int64 of the same kind for the result, with its shape.
    keepdims
        Whether the axis stays, with one element.

    Returns
    -------
    array
        int64, of the shape of the other axes.

    Raises
    ------
    TypeError
        Not an array, or `out` has another type.
    ValueError
        There are no elements, or `out` has another shape or shares memory with `x`.
    """
    return reduction("argmax", x, axis, None, out, keepdims)  # type: ignore[no-any-return]


def cumsum(
    x: Either, axis: int | None = None, dtype: Any = None, out: Either | None = None, *, exclusive: bool = False
) -> Either:
    """The sum of the elements up to each one.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis along which it goes; None for the flat array.
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
        Not an array, or `out` has another type.
    ValueError
        `out` has another shape or shares memory with `x`.
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
        The axis along which it goes; None for the flat array.
    dtype
        The type of the result, as for `sum`.
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
        Not an array, or `out` has another type.
    ValueError
        `out` has another shape or shares memory with `x`.
    """
    return scanned("prod", x, axis, dtype, out, exclusive)  # type: ignore[no-any-return]


def cummax(x: Either, axis: int | None = None, out: Either | None = None, *, exclusive: bool = False) -> Either:
    """The greatest of the elements up to each one; NaN from the first NaN on.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis along which it goes; None for the flat array.
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
        `out` has another shape or shares memory with `x`.
    """
    return scanned("max", x, axis, None, out, exclusive)  # type: ignore[no-any-return]


def sort(keys: Either, values: Either | None = None, axis: int | None = -1, out: Any = None) -> Any:
    """The elements in ascending order: stable, -0 equal to +0, NaNs last and equal.

    Parameters
    ----------
    keys
        A device array or a NumPy array.
    values
        An array of the same kind and shape whose elements move with the keys.
    axis
        The axis along which it sorts; None for the flat array.
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
        Shapes differ, `out` shares memory with an argument, or a row has more than 2^31 keys.
    """
    return sorted_arrays(keys, values, axis, out)


def argsort(x: Either, axis: int | None = -1, out: Either | None = None) -> Either:
    """The places of the elements in ascending order, as `sort` has them.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    axis
        The axis along which it sorts; None for the flat array.
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


def plan(function: Callable[..., Any], *arrays: Any, **keywords: Any) -> Plan:
    """A call on device arrays, prepared to be repeated with the least latency.

    Memory is taken once; each run is one launch, or the replay of a graph.

    Parameters
    ----------
    function
        A function of this module, or any that gives all its work to the device of the arrays and waits for none.
    *arrays, **keywords
        The arguments of the call.

    Returns
    -------
    Plan
        What runs the call: `p()` does so on what the arrays hold then, and returns `p.result`, without waiting.

    Raises
    ------
    TypeError
        None of the arguments is a device array.
    RecordingError
        The call waits for a size that only the device knows, or a graph is being recorded.
    Error
        Those of the call.
    """
    return planned(function, arrays, keywords)
