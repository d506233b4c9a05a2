"""Ops of the IR in terms of instructions that the target has.

`apply_op` takes the op of a node with the types of operands and result and gives the result's value. Every (op, operand
type) of the op table is lowered in one way: the instruction of that name, or a function that makes a sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from vyre_cuda.codegen.forms.isel import MACHINE_TYPE
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.errors import InternalError
from vyre_cuda.ir.core.ops import FUNCTIONS, OPS
from vyre_cuda.ir.core.types import NUMBERS, Type, bf16, f16
from vyre_cuda.later import functions_of, later

if TYPE_CHECKING:
    from vyre_cuda.codegen.lowering import casts, division, floats, floor_division, halves, integers, powers, steps
else:
    casts = later("vyre_cuda.codegen.lowering.casts")
    halves = later("vyre_cuda.codegen.lowering.halves")
    integers = later("vyre_cuda.codegen.lowering.integers")
    floats = functions_of("vyre_cuda.codegen.lowering.floats")
    division = functions_of("vyre_cuda.codegen.lowering.division")
    floor_division = functions_of("vyre_cuda.codegen.lowering.floor_division")
    powers = functions_of("vyre_cuda.codegen.lowering.powers")
    steps = functions_of("vyre_cuda.codegen.lowering.steps")

Way = Callable[..., int]  # (builder, operands...) -> value


def apply_op(b: Builder, op: str, result: Type, source: Type, operands: Sequence[int]) -> int:
    """The value of an IR op on operands of type `source` (behind the condition of `where`)."""
    if op == "cast":
        return casts.cast(b, source, result, operands[0])
    if op == "bitcast":
        return casts.bitcast(b, source, result, operands[0])
    way = _way(op, source)
    if way is None:
        raise InternalError(f"{op} of {source} has neither an instruction nor a sequence")
    return way(b, *operands)


# ---- ways -----------------------------------------------------------------------------------------------------------


class _Instruction:
    """The instruction of this name, whatever the precision, or in that of the program."""

    __slots__ = ("has_modes", "op")

    def __init__(self, op: str, *, has_modes: bool) -> None:
        self.op = op
        self.has_modes = has_modes

    def __call__(self, b: Builder, *operands: int) -> int:
        return b.in_mode(self.op, *operands) if self.has_modes else b.apply(self.op, *operands)


def _plain(op: str) -> Way:
    return _Instruction(op, has_modes=False)


def _in_mode(op: str) -> Way:
    return _Instruction(op, has_modes=True)


def instruction_of(b: Builder, op: str, source: Type) -> str | Way | None:
    """How an op on operands of this type is made: the instruction for `Builder.apply`, or a way; None for casts."""
    way = None if op in ("cast", "bitcast") else _way(op, source)
    if not isinstance(way, _Instruction):
        return way
    return b.modes.get((way.op, MACHINE_TYPE[source]), way.op) if way.has_modes else way.op


def _swapped(way: Way) -> Way:
    return lambda b, left, right: way(b, right, left)


def _narrowed(op: str, type_: Type) -> Way:
    """On 32 bits, and back to the type."""
    if type_.bits >= 32:
        return _plain(op)
    return lambda b, *operands: integers.narrowed(b, type_, b.apply(op, *operands))


def _then_narrowed(way: Way, type_: Type) -> Way:
    return lambda b, *operands: integers.narrowed(b, type_, way(b, *operands))


def _rounded(op: str, type_: Type) -> Way:
    """In f32, rounded to the type."""
    return lambda b, *operands: halves.rounded(b, type_, b.apply(op, *operands))


def _typed(function: Callable[..., int], type_: Type) -> Way:
    return lambda b, *operands: function(b, type_, *operands)


def _named(function: Callable[..., int], op: str) -> Way:
    return lambda b, *operands: function(b, op, *operands)


def _named_and_typed(function: Callable[..., int], op: str, type_: Type) -> Way:
    return lambda b, *operands: function(b, op, type_, *operands)


def _identity(_b: Builder, value: int) -> int:
    return value


def _bool_equal(b: Builder, left: int, right: int) -> int:
    return b.apply("logical_not", b.apply("logical_xor", left, right))


def _bool_where(b: Builder, condition: int, chosen: int, other: int) -> int:
    if chosen == other:
        return chosen
    taken = b.apply("logical_and", condition, chosen)
    return b.apply("logical_or", taken, b.apply("logical_and", b.apply("logical_not", condition), other))


# ---- the table ------------------------------------------------------------------------------------------------------

_ARITHMETIC = ("add", "subtract", "multiply", "negative", "absolute")
_COMPARISONS = ("equal", "not_equal", "less", "less_equal")
_TO_INTEGRAL = ("floor", "ceil", "trunc", "rint")
_HALVES = (f16, bf16)


@cache
def _way(op: str, type_: Type) -> Way | None:
    """How an op is lowered for operands of a type."""
    compared = _comparisons(type_).get(op) if type_ in NUMBERS else None
    return _ways(type_).get(op) if compared is None else compared


@cache
def _ways(type_: Type) -> dict[str, Way]:
    """How each op but comparisons of numbers is lowered for operands of a type; made for the types that are used."""
    ways: dict[str, Way] = {"where": _plain("where")}
    if type_ in NUMBERS:
        ways |= _of_floats(type_) if type_.is_float else _of_integers(type_)
    else:
        ways |= _of_bools()
    if type_ is f16:
        ways |= {"signbit": halves.signbit, "copysign": halves.copysign, "where": halves.where}
    for name in FUNCTIONS:
        if type_ in OPS[name].types:
            ways[name] = _named_and_typed(steps.lower_function, name, type_)
    return ways


def _of_integers(type_: Type) -> dict[str, Way]:
    ways = {op: _narrowed(op, type_) for op in (*_ARITHMETIC, "invert")}
    if type_.kind == "unsigned":
        ways["absolute"] = _identity
    for op in ("floor_divide", "remainder", "trunc_divide", "fmod"):
        ways[op] = _then_narrowed(getattr(division, op), type_)
    for op in ("left_shift", "right_shift"):
        ways[op] = _named_and_typed(integers.shift, op, type_)
    for op in ("rotate_left", "rotate_right"):
        ways[op] = _named_and_typed(integers.rotate, op, type_)
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor", "minimum", "maximum"):
        ways[op] = _plain(op)
    for op in ("bitwise_count", "count_leading_zeros", "count_trailing_zeros", "reverse_bits", "multiply_high"):
        ways[op] = _typed(getattr(integers, op), type_)
    for op in ("add_saturate", "subtract_saturate", "sign"):
        ways[op] = _typed(getattr(integers, op), type_)
    ways["integer_power"] = _typed(powers.integer_power, type_)
    return ways


def _of_floats(type_: Type) -> dict[str, Way]:
    half = type_ in _HALVES
    same = _plain if half else _in_mode  # a half is computed in ieee
    ways = {
        op: _rounded(op, type_) if half else _in_mode(op)
        for op in ("add", "subtract", "multiply", "divide", "reciprocal", "sqrt")
    }
    ways |= {op: same(op) for op in ("negative", "absolute", "fmin", "fmax", *_TO_INTEGRAL)}
    ways["fma"] = _typed(halves.fma, type_) if half else _in_mode("fma")
    ways["fmod"] = floats.fmod_ieee if half else floats.fmod
    ways["floor_divide"] = _typed(floor_division.floor_divide, type_)
    ways["remainder"] = _typed(floor_division.remainder, type_)
    for op in ("minimum", "maximum"):
        ways[op] = _named(floats.nan_propagating_ieee if half else floats.nan_propagating, op)
    for op in ("isnan", "isinf", "isfinite", "signbit", "sign"):
        ways[op] = getattr(floats, op)
    ways["copysign"] = _plain("copysign")
    ways["nextafter"] = _typed(floats.nextafter, type_)
    return ways


@cache
def _comparisons(type_: Type) -> dict[str, Way]:
    same = _in_mode if type_.is_float and type_ not in _HALVES else _plain
    ways = {op: same(op) for op in _COMPARISONS}
    ways["greater"] = _swapped(same("less"))
    ways["greater_equal"] = _swapped(same("less_equal"))
    return ways


def _of_bools() -> dict[str, Way]:
    ways = {op: _plain(op) for op in ("logical_and", "logical_or", "logical_xor", "logical_not")}
    return {**ways, "equal": _bool_equal, "not_equal": _plain("logical_xor"), "where": _bool_where}


def has_way(op: str, type_: Type) -> bool:
    """Whether the op is lowered for operands of this type."""
    return op in ("cast", "bitcast") or _way(op, type_) is not None
