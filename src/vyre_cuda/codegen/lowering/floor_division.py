"""floor_divide and remainder of floats, as NumPy has them, from the exact remainder of the quotient toward zero.

Computed in f32 or f64 without flushing; where the precision flushes, operands and result are. f16 and bf16 are rounded
once more at the end.
"""

from __future__ import annotations

from collections.abc import Callable

from vyre_cuda.codegen.lowering import floats, halves
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.types import Type

Compute = Callable[[Builder, int, int], int]

_ZERO = {"f32": 0, "f64": 0}


def floor_divide(b: Builder, type_: Type, left: int, right: int) -> int:
    """The quotient rounded down."""
    return _as_type(b, type_, _floor_divide, left, right)


def remainder(b: Builder, type_: Type, left: int, right: int) -> int:
    """The remainder with the sign of the divisor."""
    return _as_type(b, type_, _remainder, left, right)


def _as_type(b: Builder, type_: Type, compute: Compute, left: int, right: int) -> int:
    if type_.bits == 16:
        return halves.rounded(b, type_, compute(b, left, right))
    return floats.flushed(b, compute(b, floats.flushed(b, left), floats.flushed(b, right)))


def _floor_divide(b: Builder, left: int, right: int) -> int:
    """What (left - rest) / right is near to; -0 or 0 by the sign of the quotient."""
    type_ = b.function.types[left]
    zero, half, one = (b.constant(type_, bits[type_]) for bits in (_ZERO, floats.HALF, floats.ONE))
    rest = floats.fmod_ieee(b, left, right)
    plain = b.apply("divide", left, right)
    near = b.apply("divide", b.apply("subtract", left, rest), right)
    near = b.apply("where", _points_away(b, rest, right), b.apply("subtract", near, one), near)
    floor = b.apply("floor", near)
    above = b.apply("less", half, b.apply("subtract", near, floor))
    snapped = b.apply("where", above, b.apply("add", floor, one), floor)
    signed_zero = b.apply("copysign", zero, plain)
    result = b.apply("where", b.apply("equal", near, zero), signed_zero, snapped)
    return b.apply("where", b.apply("equal", right, zero), plain, result)


def _remainder(b: Builder, left: int, right: int) -> int:
    zero = b.constant(b.function.types[left], 0)
    rest = floats.fmod_ieee(b, left, right)
    signed = b.apply("where", _points_away(b, rest, right), b.apply("add", rest, right), rest)
    return b.apply("where", b.apply("equal", rest, zero), b.apply("copysign", zero, right), signed)


def _points_away(b: Builder, rest: int, divisor: int) -> int:
    """Whether a remainder is not 0 and has the other sign than the divisor."""
    zero = b.constant(b.function.types[rest], 0)
    differ = b.apply("logical_xor", b.apply("less", divisor, zero), b.apply("less", rest, zero))
    return b.apply("logical_and", b.apply("not_equal", rest, zero), differ)
