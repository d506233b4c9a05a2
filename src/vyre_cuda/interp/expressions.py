"""The value of an expression for all lanes of a chunk at once.

Every lane evaluates, active or not: expressions have no effects, loads are bounded, and nobody reads what inactive
lanes get. A value that is the same in all lanes stays an array of one element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vyre_cuda.interp.lanes import Lanes
from vyre_cuda.interp.memory import Memory
from vyre_cuda.ir.elementwise import Array, apply, constant
from vyre_cuda.ir.nodes import Apply, Const, Expr, Id, Load, Local, Scalar, Size


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """What the expressions of one chunk can name: ids of its lanes, locals, scalars (bit patterns) and memory."""

    lanes: Lanes
    scalars: Mapping[str, int]
    memory: Mapping[str, Memory]
    locals: dict[str, Array] = field(default_factory=dict)

    def value(self, expr: Expr) -> Array:
        """One element per lane, or a single element when all lanes have the same."""
        match expr:
            case Local():
                return self.locals[expr.name]
            case Const():
                return constant(expr.type, expr.bits)
            case Apply():
                return apply(expr.op, expr.type, [self.value(operand) for operand in expr.operands])
            case Load():
                return self.memory[expr.buffer].load(self.value(expr.index))
            case Id():
                return self.lanes.id(expr.kind, expr.axis, expr.type)
            case Scalar():
                return constant(expr.type, self.scalars[expr.name])
            case Size():
                return constant(expr.type, self.memory[expr.buffer].size)
