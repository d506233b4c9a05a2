"""NumPy's broadcasting, as few axes with strides: what an element-wise kernel needs to find its operands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from vyre_cuda.records import FrozenRecord

Shape = tuple[int, ...]


class Layout(FrozenRecord):
    """The axes of a result, outermost first, and the stride of each array along each of them.

    Strides are in elements of a C-contiguous array, 0 along an axis that repeats it. Axes of one element are left out,
    and neighbors that no array tells apart are one.
    """

    shape: Shape
    extents: Shape
    strides: tuple[Shape, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_plain(self) -> bool:
        """Whether each element of the result is made of the elements of the same number."""
        return len(self.extents) <= 1 and not any(0 in strides for strides in self.strides)


@lru_cache(maxsize=1024)
def layout(shapes: tuple[Shape, ...], shape: Shape | None = None) -> Layout:
    """How arrays of these shapes broadcast, to `shape` if given. ValueError if they do not."""
    wanted = np.broadcast_shapes(*shapes, *(() if shape is None else (shape,)))
    if shape is not None and wanted != shape:
        raise ValueError(f"shape {shape} is not {wanted}")
    if 0 in wanted:
        return Layout(wanted, (0,), tuple((0,) for _ in shapes))
    whole = [(1,) * (len(wanted) - len(each)) + each for each in shapes]
    columns: list[tuple[int, tuple[bool, ...]]] = []
    for axis, extent in enumerate(wanted):
        repeated = tuple(each[axis] == 1 for each in whole)
        if extent == 1:
            continue
        if columns and columns[-1][1] == repeated:
            columns[-1] = columns[-1][0] * extent, repeated
        else:
            columns.append((extent, repeated))
    extents = tuple(extent for extent, _ in columns)
    repeats = [[repeated[which] for _, repeated in columns] for which in range(len(shapes))]
    return Layout(wanted, extents, tuple(_strides(extents, repeated) for repeated in repeats))


def _strides(extents: Shape, repeated: Sequence[bool]) -> Shape:
    """The strides of one array, and 0 along the axes that repeat it."""
    found: list[int] = []
    stride = 1
    for extent, is_repeated in zip(reversed(extents), reversed(repeated), strict=True):
        found.append(0 if is_repeated else stride)
        stride *= 1 if is_repeated else extent
    return tuple(reversed(found))
