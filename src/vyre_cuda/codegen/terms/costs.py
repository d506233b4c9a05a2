"""What a term costs besides its operands: about the instructions that ptxas makes of it, from its machine code.

Forms are compared by these numbers, so only differences matter. A product in a sum is part of one multiply-add.
"""

from __future__ import annotations

from functools import cache

from vyre_cuda.ir.core.types import Type

_FREE = frozenset({"leaf", "const", "bitcast"})
# Of u32 and s32, by a divisor that is not known; in 64 bits ptxas calls a function.
_DIVISION = {"floor_divide": 20, "trunc_divide": 20}
_REST = {"remainder": 2, "fmod": 2}
DIVISIONS = frozenset({*_DIVISION, *_REST})


@cache
def weight(op: str, type_: Type) -> int:
    """Of one op on operands of a type, none of `DIVISIONS` of integers."""
    if op in _FREE:
        return 0
    if op in ("rotate_left", "rotate_right") and type_.bits != 32:
        return 4
    wide = type_.bits == 64
    if op == "multiply" and wide and type_.is_integer:
        return 4
    return 1 << wide if type_.is_integer else 1


def weight_of_division(op: str, type_: Type, divisor: int | None) -> int:
    """Of one of `DIVISIONS`; `divisor` is the number by which it divides if that is a constant."""
    if not type_.is_integer:
        return weight(op, type_)
    wide = type_.bits == 64
    is_power = divisor is not None and divisor & (divisor - 1) == 0
    if op in _REST:
        return 1 if is_power else _REST[op] << wide
    if divisor is not None:
        return 1 if is_power else (12 if wide else 3)
    return 80 if wide else _DIVISION[op]
