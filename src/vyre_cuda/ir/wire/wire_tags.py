"""The numbers that stand for node kinds in wire bytes. They are never reused, so a version reads what it wrote.

Positions in `nodes.PARAMETER_KINDS`, `ID_KINDS`, `ORDERS` and `SCOPES` are wire numbers too: append to those only.
Ops, atomics, warp operations and types have their codes in their tables.
"""

from __future__ import annotations

from typing import Final

from vyre_cuda.ir.core.ops import OPS, Op
from vyre_cuda.ir.core.types import Type

MAGIC = b"VYCP"
# A program is written in the first version that has what it uses, so its bytes stay the same.
FIRST_VERSION = 1
# 2: signed index types; floor_divide and remainder of floats; integer_power. 3: arrays with several axes, arguments
# with declared sizes. 4: tables and local arrays, whose section the earlier ones do not have. 5: those with several
# axes. 6: print. 7: outs that are not zeroed. 8: blocks that a multiprocessor should hold.
ARRAYS = 4
SHAPED_ARRAYS = 5
PRINT = 6
UNZEROED = 7
MIN_BLOCKS = 8
VERSION = 8
# In place of the kind of an out that is not zeroed, above the positions in `nodes.PARAMETER_KINDS`.
UNZEROED_OUT = 64
# Added to the index type's code where the blocks that a multiprocessor should hold follow it; above all codes of types.
WITH_MIN_BLOCKS = 64


def first_version(op: Op, operand: Type) -> int:
    """The first version that has the op for operands of this type."""
    if op.code in (_FLOOR_DIVIDE, _REMAINDER):
        return 2 if operand.is_float else 1
    return 2 if op.code > _LAST_OF_FIRST else 1


_FLOOR_DIVIDE, _REMAINDER = OPS["floor_divide"].code, OPS["remainder"].code
_LAST_OF_FIRST = OPS["sigmoid"].code


class ExprTag:
    """Kinds of expression; locals and by-value scalars share one, because their names tell them apart."""

    CONST: Final = 0
    NAME: Final = 1
    SIZE: Final = 2
    ID: Final = 3
    LOAD: Final = 4
    APPLY: Final = 5
    POSITION: Final = 6
    EXTENT: Final = 7


class StatementTag:
    """Kinds of statement."""

    LET: Final = 0
    VAR: Final = 1
    ASSIGN: Final = 2
    STORE: Final = 3
    ATOMIC: Final = 4
    IF: Final = 5
    FOR: Final = 6
    WHILE: Final = 7
    BREAK: Final = 8
    CONTINUE: Final = 9
    RETURN: Final = 10
    BARRIER: Final = 11
    ASSERT: Final = 12
    WARP: Final = 13
    GRID_BARRIER: Final = 14
    PRINT: Final = 15
