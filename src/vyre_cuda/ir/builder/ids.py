"""The coordinates of a thread in its launch, which programs use besides a builder."""

from __future__ import annotations

from collections.abc import Sequence

from vyre_cuda.ir.builder.operators import Operand
from vyre_cuda.ir.builder.scopes import Scope, caller, running
from vyre_cuda.ir.builder.values import Unplaced, Value, leaf
from vyre_cuda.ir.core.nodes import Id, IdKind


class LaunchId:
    """A launch coordinate with the axes x, y and z, of the index type of the builder that uses it."""

    __slots__ = ("_kind",)

    def __init__(self, kind: IdKind) -> None:
        self._kind = kind

    @property
    def x(self) -> Value:
        return self._on_axis(0)

    @property
    def y(self) -> Value:
        return self._on_axis(1)

    @property
    def z(self) -> Value:
        return self._on_axis(2)

    @property
    def xy(self) -> tuple[Value, Value]:
        return self.x, self.y

    @property
    def yx(self) -> tuple[Value, Value]:
        """Row and column of an array of two axes."""
        return self.y, self.x

    @property
    def xyz(self) -> tuple[Value, Value, Value]:
        return self.x, self.y, self.z

    @property
    def zyx(self) -> tuple[Value, Value, Value]:
        """The indices of an array of three axes."""
        return self.z, self.y, self.x

    def _on_axis(self, axis: int) -> Value:
        source = caller()

        def placed(scope: Scope, _: Sequence[Operand]) -> Value:
            return leaf(scope, Id(scope.index, self._kind, axis, source), source)

        if running.scope is not None:
            return placed(running.scope, ())
        return Unplaced(placed, (), None, source)

    def __repr__(self) -> str:
        return f"<{self._kind}>"


global_id = LaunchId("global_id")  # block_id * block_dim + thread_id
block_id = LaunchId("block_id")
thread_id = LaunchId("thread_id")  # within the block
block_dim = LaunchId("block_dim")  # threads per block
grid_dim = LaunchId("grid_dim")  # blocks in the grid


def _lane_id(scope: Scope, _: Sequence[Operand]) -> Value:
    source = caller()
    return leaf(scope, Id(scope.index, "lane_id", 0, source), source)


class _LaneId(Unplaced):
    __slots__ = ()

    def __repr__(self) -> str:
        return "<lane_id>"


lane_id: Value = _LaneId(_lane_id, (), None, caller())  # within the warp: the linear thread number modulo 32
