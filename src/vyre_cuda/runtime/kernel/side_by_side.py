"""Whether two kernels can run side by side: the room that one leaves on the device for blocks of the other."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

from vyre_cuda.ir.call.geometry import explicit_grid
from vyre_cuda.records import FrozenRecord
from vyre_cuda.runtime.kernel.occupancy import of_block, of_multiprocessor

if TYPE_CHECKING:
    from vyre_cuda.runtime.kernel.kernel import Kernel

Grid: TypeAlias = "int | tuple[int, ...]"


class SideBySide(FrozenRecord):
    """How many blocks of two kernels are resident on a device at the same time; true if both have some.

    `first_blocks` of `first_grid` blocks are resident before any of the second kernel, spread evenly over the
    multiprocessors; `second_blocks` of `second_grid` fit beside them. `limited_by` is what runs out first for
    further blocks of the second: "threads", "blocks", "registers" or "shared memory".
    """

    first_blocks: int
    first_grid: int
    second_blocks: int
    second_grid: int
    limited_by: str

    def __bool__(self) -> bool:
        return self.second_blocks > 0

    @property
    def is_whole(self) -> bool:
        """Whether both grids are resident as a whole, so that no block of one waits for a block of the other."""
        return self.first_blocks == self.first_grid and self.second_blocks == self.second_grid


def side_by_side(first: Kernel, second: Kernel, grid: Grid | None, other_grid: Grid | None) -> SideBySide:
    """Computed for these grids; None stands for one block per multiprocessor."""
    count = first.device.properties.multiprocessor_count
    grids = [
        count if blocks is None else prod(explicit_grid(kernel.program, blocks))
        for kernel, blocks in ((first, grid), (second, other_grid))
    ]
    placed = min(grids[0], first.attributes.resident_blocks * count)
    fewest, fuller = divmod(placed, count)
    rooms = [_room(first, second, fewest), _room(first, second, fewest + 1 if fuller else fewest)]
    free = rooms[0][0] * (count - fuller) + rooms[1][0] * fuller
    return SideBySide(placed, grids[0], min(free, grids[1]), grids[1], rooms[1][1])


def _room(first: Kernel, second: Kernel, there: int) -> tuple[int, str]:
    """How many blocks of the second fit on a multiprocessor with this many of the first, and what limits that."""
    has = of_multiprocessor(first.device.properties)
    taken, takes = (
        of_block(each.device.properties, each.program.block, each.lowered, each.attributes) for each in (first, second)
    )
    bounds = {name: (has[name] - there * taken[name]) // max(takes[name], 1) for name in has}
    scarcest = min(bounds, key=lambda name: bounds[name])
    return max(min(bounds[scarcest], second.attributes.resident_blocks), 0), scarcest
