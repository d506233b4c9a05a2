"""Random statements of threads together: barriers, grid barriers, warp operations, and branches that all take.

Each stands in control flow that is the same for the threads it needs, which the validator proves again.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.operators import Expression
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.nodes import WARP_SIZE
from vyre_cuda.ir.core.ops import OPS, WARP_OPS, WarpOp
from vyre_cuda.ir.core.types import Type, bool_, u32
from vyre_cuda.testing.expressions import LEVELS, Level, unravelled, without_nan
from vyre_cuda.testing.statements import ATOMIC_TYPES, Flow, Statements, commuting

# What these give is the same in the warp.
_AGREED = ("any", "all", "ballot", "reduce", "broadcast")


def warp(b: Builder, row: WarpOp, value: Expression, lane: Expression | int, combine: str) -> Value:
    """A warp operation of the table, through the builder's method for it."""
    match row.name:
        case "reduce":
            return b.warp_reduce(value, combine)
        case "inclusive_scan" | "exclusive_scan":
            return b.warp_scan(value, combine, inclusive=row.name == "inclusive_scan")
        case _:
            result: Value = getattr(b, row.name)(value, lane) if row.lane else getattr(b, row.name)(value)
            return result


class TogetherStatements(Statements):
    """Statements of single threads and of threads together."""

    def kinds(self, flow: Flow) -> list[Callable[[Flow], None]]:
        kinds = super().kinds(flow)
        if flow.level is not None:
            kinds += [self._warp] * 4
            if flow.depth < 2:
                kinds += [self._together_if, self._together_for, self._together_while]
        if flow.level in ("block", "grid"):
            kinds += [self._exchange, self._combine_together]
        if flow.level == "grid" and self.targets.mail:
            kinds += [self._mail] * 4
        return kinds

    # ---- warps

    def _warp(self, flow: Flow) -> None:
        rows = [row for row in WARP_OPS.values() if set(row.types) & set(self.e.types)]
        row = self.e.pick(rows)
        type_ = self.e.pick([t for t in self.e.types if t in row.types])
        value = self.e.any(type_, 2)
        if row.name == "match":
            value = without_nan(value)
        combine = self.e.pick([op for op in row.combines if type_ in OPS[op].types]) if row.combines else ""
        result = warp(self.b, row, value, self._lane(row), combine)
        self.e.add(result, "warp" if row.name in _AGREED else None)

    def _lane(self, row: WarpOp) -> Expression | int:
        if self.e.chance(2):
            return self.e.draw(st.integers(0, WARP_SIZE + 1))
        if row.name == "broadcast":
            return self.e.same_in("warp", u32) % (WARP_SIZE + 1)
        lane = self.e.any(self.e.pick(self.e.integers), 1)
        return lane % self.e.pick((4, WARP_SIZE)) if self.e.chance(2) else lane

    # ---- blocks and the grid

    def _exchange(self, flow: Flow) -> None:
        """Every thread writes its element; after a barrier any may be read."""
        tile = self._tile(self.e.type_())
        if tile.type in ATOMIC_TYPES and self.e.chance(3):
            own = unravelled(tile, self.targets.lane)
            self.e.add(self.b.atomic_exchange(tile, own, self.e.any(tile.type), scope="block"))
        else:
            tile[unravelled(tile, self.targets.lane)] = self.e.any(tile.type)
        self.b.barrier()
        self.e.add(tile[self.e.indices(tile, self.targets.lane)])
        self.b.barrier()

    def _combine_together(self, flow: Flow) -> None:
        """Threads combine what they have in shared elements; after a barrier all see the results."""
        types = [t for t in self.e.types if t in ATOMIC_TYPES]
        tile = self._tile(self.e.pick(types))
        op = self.e.pick(self.e.pick(commuting(tile.type)))
        with self.b.if_(self.e.any(bool_, 2)):
            self.combine_into(tile, op, self.e.indices(tile, self.targets.lane))
        self.b.barrier()
        self.e.add(tile[self.e.indices(tile, self.targets.lane)])
        self.b.barrier()

    def _mail(self, flow: Flow) -> None:
        """Every thread of the grid writes its element; after a grid barrier any may be read."""
        buffer, own = self.e.pick(self.targets.mail)
        buffer[own] = self.e.any(buffer.type)
        self.b.grid_barrier()
        self.e.add(buffer[self.e.indices(buffer, self.targets.thread)])
        self.b.grid_barrier()

    def _tile(self, type_: Type) -> Buffer:
        size = max(1, self.targets.threads + self.e.draw(st.integers(-2, 2)))
        if not self.e.chance(4):
            return self.b.shared("tile", type_, size)
        width = self.e.draw(st.integers(1, 9))
        return self.b.shared("tile", type_, (-(-size // width), width))

    # ---- branches and loops that threads take together

    def _level(self, flow: Flow) -> Level:
        assert flow.level is not None
        return self.e.pick(LEVELS[: LEVELS.index(flow.level) + 1][::-1])

    def _together_if(self, flow: Flow) -> None:
        level = self._level(flow)
        self.branch(self.e.same_in(level, bool_), flow.inside(level))

    def _together_for(self, flow: Flow) -> None:
        level = self._level(flow)
        base = self.e.same_in(level, self.e.pick(self.e.integers), 1)
        self.loop(base, lambda type_, depth: self.e.same_in(level, type_, depth), flow.inside(level, loop=True))

    def _together_while(self, flow: Flow) -> None:
        level = self._level(flow)
        self.fueled(lambda: self.e.same_in(level, bool_, 1), flow.inside(level, loop=True))
