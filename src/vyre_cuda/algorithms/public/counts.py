"""Counting, segments and products."""

from __future__ import annotations

from typing import Any

from vyre_cuda.algorithms.counting import bin_counts, histogram_of
from vyre_cuda.algorithms.products import product
from vyre_cuda.algorithms.reductions import Either
from vyre_cuda.algorithms.segments import segmented


def bincount(x: Either, minlength: int = 0, out: Either | None = None) -> Either:
    """How often each number from 0 on occurs.

    Parameters
    ----------
    x
        A device array or a NumPy array of integers, with one axis.
    minlength
        The least number of counts. Where the type of `x` has no number without a count, such as u8 with 256, the call
        does not wait.
    out
        An array of int64 of the same kind for the counts. A number that has no count in it is an assertion, whose
        `vc.KernelAssertionError` comes at the next wait.

    Returns
    -------
    array
        int64: the counts, up to the greatest number or `minlength`.

    Raises
    ------
    TypeError
        Not integers, or `out` has another type.
    ValueError
        A number or `minlength` is negative, there are several axes, or `out` shares memory with `x`.
    RecordingError
        In a recording, where the call would wait for the greatest number.
    """
    return bin_counts(x, minlength, out)  # type: ignore[no-any-return]


def histogram(
    x: Either, bins: Any = 10, range: tuple[float, float] | None = None, out: Either | None = None
) -> tuple[Either, Any]:
    """How many elements are in each bin; the last one has its upper edge too.

    Parameters
    ----------
    x
        A device array or a NumPy array.
    bins
        The number of equal bins, or at least two edges, ascending.
    range
        The outer edges, with a number of bins; None for the least and the greatest element, for which the call waits.
        Elements outside of them are not counted, and neither are NaNs.
    out
        An array of int64 of the same kind for the counts.

    Returns
    -------
    array, NumPy array
        The counts (int64), and the edges.

    Raises
    ------
    TypeError
        Not an array, `bins` is the name of a rule, or `out` has another type.
    ValueError
        No bins, edges that do not ascend, a range that is not finite or whose first edge is the greater one, or `out`
        has another shape or shares memory with `x`.
    RecordingError
        In a recording, with a number of bins and no range.
    """
    return histogram_of(x, bins, range, out)  # type: ignore[no-any-return]


def segmented_sum(x: Either, offsets: Either, out: Either | None = None) -> Either:
    """The sum of each segment of an array; 0 for one without elements.

    Parameters
    ----------
    x
        A device array or a NumPy array with one axis.
    offsets
        An array of integers of the same kind: where each segment begins, and at the end where the last one ends.
        Offsets that do not ascend within the array are an assertion on a device, whose `vc.KernelAssertionError` comes
        at the next wait.
    out
        An array of the same kind for the result.

    Returns
    -------
    array
        An element for each segment, with the type of `sum`.

    Raises
    ------
    TypeError
        Offsets are not integers, or `out` has another type.
    ValueError
        More than one axis, no offsets, wrong offsets of a NumPy array, or `out` has another shape or shares memory.
    """
    return segmented("sum", x, offsets, out)  # type: ignore[no-any-return]


def segmented_min(x: Either, offsets: Either, out: Either | None = None) -> Either:
    """The least element of each segment of an array; for one without elements the greatest value of the type.

    Parameters
    ----------
    x
        A device array or a NumPy array with one axis.
    offsets
        An array of integers of the same kind: where each segment begins, and at the end where the last one ends.
        Offsets that do not ascend within the array are an assertion on a device, whose `vc.KernelAssertionError` comes
        at the next wait.
    out
        An array of the same kind for the result.

    Returns
    -------
    array
        An element for each segment, with the type of `min`.

    Raises
    ------
    TypeError
        Offsets are not integers, or `out` has another type.
    ValueError
        More than one axis, no offsets, wrong offsets of a NumPy array, or `out` has another shape or shares memory.
    """
    return segmented("min", x, offsets, out)  # type: ignore[no-any-return]


def matmul(x: Either, y: Either, out: Either | None = None) -> Either:
    """The product of two matrices of f32 or f64; each element is a chain of `fma` in ascending order, beginning with 0.

    Parameters
    ----------
    x, y
        Device arrays or NumPy arrays with two axes.
    out
        An array of the same kind for the result.

    Returns
    -------
    array
        The product.

    Raises
    ------
    TypeError
        Not two matrices of f32 or of f64, or `out` has another type.
    ValueError
        Shapes that do not fit, or `out` shares memory with an argument.
    """
    return product(x, y, out)  # type: ignore[no-any-return]
