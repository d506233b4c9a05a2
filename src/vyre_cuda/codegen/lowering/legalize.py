"""Ops of the IR in terms of instructions that the target has.

`apply_op` takes the op of a node with the types of operands and result and gives the result's value. Every (op, operand
type) of the op table is lowered in one way: the instruction of that name, or a function that makes a sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vyre_cuda.codegen.lowering import casts, division, floats, floor_division, halves, integers, powers
from vyre_cuda.codegen.lowering.steps import lower_function
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.errors import InternalError
from vyre_cuda.ir.core.ops import FUNCTIONS, OPS
from vyre_cuda.ir.core.types import FLOATS, INTEGERS, NUMBERS, TYPES, Type, bf16, bool_, f16

Way = Callable[..., int]  # (builder, operands...) -> value


def apply_op(b: Builder, op: str, result: Type, source: Type, operands: Sequence[int]) -> int:
    """The value of an IR op on operands of type `source` (behind the condition of `where`)."""
    if op == "cast":
        return casts.cast(b, source, result, operands[0])
    if op == "bitcast":
        return casts.bitcast(b, source, result, operands[0])
    way = _WAYS.get((op, source))
    if way is None:
        raise InternalError(f"{op} of {source} has neither an instruction nor a sequence")
    return way(b, *operands)


# ---- ways -----------------------------------------------------------------------------------------------------------


def _plain(op: str) -> Way:
    """The instruction, whatever the precision."""
    return lambda b, *operands: b.apply(op, *operands)


def _in_mode(op: str) -> Way:
    """The instruction in the precision of the program."""
    return lambda b, *operands: b.in_mode(op, *operands)


def _swapped(way: Way) -> Way:
    return lambda b, left, right: way(b, right, left)


def _narrowed(op: str, type_: Type) -> Way:
    """On 32 bits, and back to the type."""
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

_WAYS: dict[tuple[str, Type], Way] = {}


def _put_integers() -> None:
    for type_ in INTEGERS:
        for op in _ARITHMETIC:
            _WAYS[op, type_] = _narrowed(op, type_)
        if type_.kind == "unsigned":
            _WAYS["absolute", type_] = _identity
        for op in ("floor_divide", "remainder", "trunc_divide", "fmod"):
            _WAYS[op, type_] = _then_narrowed(getattr(division, op), type_)
        for op in ("left_shift", "right_shift"):
            _WAYS[op, type_] = _named_and_typed(integers.shift, op, type_)
        for op in ("rotate_left", "rotate_right"):
            _WAYS[op, type_] = _named_and_typed(integers.rotate, op, type_)
        for op in ("bitwise_and", "bitwise_or", "bitwise_xor", "minimum", "maximum"):
            _WAYS[op, type_] = _plain(op)
        _WAYS["invert", type_] = _narrowed("invert", type_)
        for function in (
            integers.bitwise_count,
            integers.count_leading_zeros,
            integers.count_trailing_zeros,
            integers.reverse_bits,
            integers.multiply_high,
            integers.add_saturate,
            integers.subtract_saturate,
            integers.sign,
            powers.integer_power,
        ):
            _WAYS[function.__name__, type_] = _typed(function, type_)


def _put_floats() -> None:
    for type_ in FLOATS:
        half = type_ in _HALVES
        same = _plain if half else _in_mode  # a half is computed in ieee
        for op in ("add", "subtract", "multiply", "divide", "reciprocal", "sqrt"):
            _WAYS[op, type_] = _rounded(op, type_) if half else _in_mode(op)
        for op in ("negative", "absolute", "fmin", "fmax", *_TO_INTEGRAL):
            _WAYS[op, type_] = same(op)
        _WAYS["fma", type_] = _typed(halves.fma, type_) if half else _in_mode("fma")
        _WAYS["fmod", type_] = floats.fmod_ieee if half else floats.fmod
        _WAYS["floor_divide", type_] = _typed(floor_division.floor_divide, type_)
        _WAYS["remainder", type_] = _typed(floor_division.remainder, type_)
        for op in ("minimum", "maximum"):
            _WAYS[op, type_] = _named(floats.nan_propagating_ieee if half else floats.nan_propagating, op)
        for function in (floats.isnan, floats.isinf, floats.isfinite, floats.signbit, floats.sign):
            _WAYS[function.__name__, type_] = function
        _WAYS["copysign", type_] = _plain("copysign")
        _WAYS["nextafter", type_] = _typed(floats.nextafter, type_)
    _WAYS["signbit", f16] = halves.signbit
    _WAYS["copysign", f16] = halves.copysign


def _put_others() -> None:
    for op in ("logical_and", "logical_or", "logical_xor", "logical_not"):
        _WAYS[op, bool_] = _plain(op)
    for type_ in NUMBERS:
        same = _in_mode if type_.is_float and type_ not in _HALVES else _plain
        for op in _COMPARISONS:
            _WAYS[op, type_] = same(op)
        _WAYS["greater", type_] = _swapped(same("less"))
        _WAYS["greater_equal", type_] = _swapped(same("less_equal"))
    _WAYS["equal", bool_] = _bool_equal
    _WAYS["not_equal", bool_] = _plain("logical_xor")
    for type_ in TYPES:
        _WAYS["where", type_] = _plain("where")
    _WAYS["where", bool_] = _bool_where
    _WAYS["where", f16] = halves.where


def _put_functions() -> None:
    for name in FUNCTIONS:
        for type_ in OPS[name].types:
            _WAYS[name, type_] = _named_and_typed(lower_function, name, type_)


_put_integers()
_put_floats()
_put_others()
_put_functions()


def has_way(op: str, type_: Type) -> bool:
    """Whether the op is lowered for operands of this type."""
    return op in ("cast", "bitcast") or (op, type_) in _WAYS
