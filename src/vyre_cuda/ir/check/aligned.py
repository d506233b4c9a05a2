"""Values that are the same in a whole warp although they come from the number of a thread.

An aligned value is a multiple of 32 that the warp shares plus the lane: the result of a division by a multiple of 32 or
a comparison with one depends on that multiple alone. So `thread_id.x // 32` and `thread_id.x < 32` are uniform in a
warp.
"""

from __future__ import annotations

from vyre_cuda.ir.core.nodes import WARP_SIZE, Apply, Const, Expr, Id, Local
from vyre_cuda.ir.core.scalars import value_of

_MIRRORED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
    "bitwise_and": "bitwise_and",
}


class Aligned:
    """Knows which locals are aligned. `block` is in threads per axis."""

    def __init__(self, block: tuple[int, int, int]) -> None:
        self._rows = block[0] % WARP_SIZE == 0
        self._linear = block[1:] == (1, 1)
        self._locals: set[str] = set()

    def let(self, name: str, value: Expr) -> None:
        """Record an immutable local."""
        if self._holds(value):
            self._locals.add(name)

    def uniform_part(self, expr: Expr) -> Expr | None:
        """The aligned operand when the expression takes only its warp's multiple of 32 from it, else None."""
        if not isinstance(expr, Apply) or len(expr.operands) != 2:
            return None
        op, (x, y) = expr.op, expr.operands
        if isinstance(x, Const) and op in _MIRRORED:
            op, x, y = _MIRRORED[op], y, x
        if not isinstance(y, Const) or not y.type.is_integer or not self._holds(x):
            return None
        return x if _takes_multiple(op, value_of(y.type, y.bits), signed=y.type.kind == "signed") else None

    def _holds(self, expr: Expr) -> bool:
        match expr:
            case Id(kind="thread_id", axis=0):
                return self._rows or self._linear
            case Id(kind="global_id", axis=0):
                return self._rows
            case Local():
                return expr.name in self._locals
            case Apply(op="cast"):  # integer types keep the low bits, and none has fewer than 8
                return expr.type.is_integer and expr.operands[0].type.is_integer and self._holds(expr.operands[0])
            case _:
                return False


def _takes_multiple(op: str, number: bool | int | float, *, signed: bool) -> bool:
    """Whether `op(32 * w + lane, number)` is the same for all lanes."""
    match op:
        case "less" | "greater_equal":
            return number % WARP_SIZE == 0
        case "less_equal" | "greater":
            return number % WARP_SIZE == WARP_SIZE - 1
        case "floor_divide":
            return number > 0 and number % WARP_SIZE == 0
        case "trunc_divide":
            return not signed and number > 0 and number % WARP_SIZE == 0
        case "right_shift":
            return number < 0 or number >= 5
        case "bitwise_and":
            return number % WARP_SIZE == 0
        case _:
            return False
