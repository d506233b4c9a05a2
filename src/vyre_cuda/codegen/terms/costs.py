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


def unsigned_magic(divisor: int, highest: int, bits: int = 32) -> tuple[int, int]:
    """(multiplier, shift) with n // divisor == n * multiplier >> (bits + shift) for 0 <= n <= highest.

    The multiplier has one bit more than `bits` when no shorter one works.
    """
    shift = 0
    while True:
        power = 1 << (bits + shift)
        multiplier = -(-power // divisor)
        # n * multiplier / power = n / divisor + n * excess / (divisor * power): below the next integer
        if (multiplier * divisor - power) * highest < power:
            return multiplier, shift
        shift += 1


@cache
def steps_of_division(divisor: int, highest: int, bits: int) -> int:
    """About the instructions of an unsigned division of numbers up to `highest` by a constant; the upper half of a
    product counts four times.
    """
    if divisor & (divisor - 1) == 0:
        return int(divisor > 1)
    multiplier, shift = unsigned_magic(divisor, highest, bits)
    if multiplier < 1 << bits:
        return 4 + (shift > 0)
    if divisor % 2 == 0:
        zeros = (divisor & -divisor).bit_length() - 1
        return 1 + steps_of_division(divisor >> zeros, highest >> zeros, bits)
    return 7 + (shift > 1)
