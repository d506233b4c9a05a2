"""Slices of buffers: `x[i, :3]` is the tuple of three elements, and `x[i, :3] = a, b, c` stores them in this order.

A program has no slices; the bounds are Python's, so the number of elements is known when it is built.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from vyre_cuda.errors import counted
from vyre_cuda.ir.builder.scopes import program_error
from vyre_cuda.ir.core.nodes import Source


def elements(name: str, index: Any, source: Source) -> list[Any]:
    """The index of each element of a slice. ProgramError if the number of elements is not known."""
    whole = index if isinstance(index, tuple) else (index,)
    axes = [axis for axis, one in enumerate(whole) if isinstance(one, slice)]
    if len(axes) > 1:
        raise program_error(f"{name} is sliced along {len(axes)} axes: slice one, and loop over range(...)", source)
    (axis,) = axes
    rows = [(*whole[:axis], place, *whole[axis + 1 :]) for place in _places(name, whole[axis], source)]
    return rows if isinstance(index, tuple) else [place for (place,) in rows]


def each_of(name: str, values: Any, count: int, source: Source) -> Sequence[Any]:
    """A value for each element: those of a tuple or list, or one for all. ProgramError if they are not as many."""
    if not isinstance(values, (tuple, list)):
        return [values] * count
    if len(values) != count:
        given, wanted = counted(len(values), "value"), counted(count, "element")
        raise program_error(f"{given} for a slice of {name} with {wanted}", source)
    return values


def _places(name: str, one: slice, source: Source) -> range:
    """The indices along the sliced axis."""
    try:
        given = (0 if one.start is None else one.start, one.stop, 1 if one.step is None else one.step)
        start, stop, step = map(operator.index, given)
    except TypeError:
        raise program_error(
            f"a slice of {name} needs bounds that are known when the program is built: write {name}[0:3], with an end, "
            "or loop over the elements",
            source,
        ) from None
    if min(start, stop) < 0 or step < 1:
        raise program_error(
            f"a slice of {name} from {start} to {stop} with step {step}: count from the start of the axis, upwards",
            source,
        )
    return range(start, stop, step)
