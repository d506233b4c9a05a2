"""Ops that equal something simpler for all values of their operands: neutral elements, casts of casts and the like.

Each holds bit for bit, -0.0 and infinities included; a NaN stays a NaN. Those that would skip an op on f32 are exact
only where subnormals are kept. They apply before a term is made, so that nothing is compared with them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import FLOATS, Type, bf16, bool_, f16, f32, f64

if TYPE_CHECKING:
    from vyre_cuda.codegen.terms.terms import Terms

_MIRRORED = {"less": "greater", "less_equal": "greater_equal"}
_OPPOSITE = {"equal": "not_equal", "not_equal": "equal"}
# x op c is x, for integers and bools.
_NEUTRAL = {
    **dict.fromkeys(("add", "subtract", "add_saturate", "subtract_saturate", "bitwise_or", "bitwise_xor"), "zero"),
    **dict.fromkeys(("left_shift", "right_shift", "rotate_left", "rotate_right", "logical_or", "logical_xor"), "zero"),
    **dict.fromkeys(("multiply", "floor_divide", "trunc_divide", "logical_and"), "one"),
    "bitwise_and": "ones",
    "minimum": "most",
    "maximum": "least",
}
# x op c is a constant, for integers and bools: by op, the constants c and what they give.
_ABSORBING = {
    "multiply": {"zero": "zero"},
    "multiply_high": {"zero": "zero"},
    "floor_divide": {"zero": "zero"},
    "trunc_divide": {"zero": "zero"},
    "remainder": {"zero": "zero", "one": "zero"},
    "fmod": {"zero": "zero", "one": "zero"},
    "bitwise_and": {"zero": "zero"},
    "logical_and": {"zero": "zero"},
    "less": {"least": "zero"},
    "greater": {"most": "zero"},
    "bitwise_or": {"ones": "ones"},
    "logical_or": {"one": "one"},
    "minimum": {"least": "least"},
    "maximum": {"most": "most"},
    "greater_equal": {"least": "one"},
    "less_equal": {"most": "one"},
}
# x op x is the value, for integers and bools; "self" is x.
_WITH_ITSELF = {
    **dict.fromkeys(("minimum", "maximum", "bitwise_and", "bitwise_or", "logical_and", "logical_or"), "self"),
    **dict.fromkeys(("subtract", "subtract_saturate", "bitwise_xor", "logical_xor"), "zero"),
    **dict.fromkeys(("not_equal", "less"), "zero"),
    **dict.fromkeys(("equal", "less_equal"), "one"),
}
_FLOAT_NEUTRAL = {
    (op, type_.code): bits_of(type_, number)
    for op, number in (("add", -0.0), ("subtract", 0.0), ("multiply", 1.0), ("divide", 1.0))
    for type_ in FLOATS
}
_FLOAT_WITH_ITSELF = frozenset({"minimum", "maximum", "fmin", "fmax"})
_OWN_INVERSE = frozenset({"negative", "invert", "reverse_bits", "logical_not"})
_SIGNIFICAND_BITS = {f16: 11, bf16: 8, f32: 24, f64: 53}
_WIDER_FLOATS = {f16: (f32, f64), bf16: (f32, f64), f32: (f64,), f64: ()}


def simpler(terms: Terms, op: str, type_: Type, args: tuple[int, ...]) -> int | None:
    """The class that an op on classes is already, None where it is a new one."""
    if len(args) != 2:
        if len(args) == 1:
            return _unary(terms, op, type_, args[0])
        return _where(terms, type_, *args) if op == "where" else None
    left, right = args
    ops = terms.ops
    if ops[right] == "const":
        return _with_constant(terms, op, type_, left, right)
    if op in _MIRRORED and ops[left] == "const":
        return _with_constant(terms, _MIRRORED[op], type_, right, left)
    return _with_itself(terms, op, type_, left) if left == right else None


def _pattern(type_: Type, name: str) -> int:
    """The bits of a special value of an integer type, or of bool."""
    ones = (1 << type_.bits) - 1
    if name == "zero":
        return 0
    if name == "one":
        return 1
    if name == "ones":
        return ones
    return (type_.minimum if name == "least" else type_.maximum) & ones


def _with_constant(terms: Terms, op: str, result: Type, x: int, other: int) -> int | None:
    type_, constant = terms.types[x], terms.attrs[other]
    if type_.kind == "float":
        exact = terms.keeps_subnormals or type_ is not f32
        return x if exact and constant == _FLOAT_NEUTRAL.get((op, type_.code)) else None
    what = _special_constants(op, type_).get(constant)
    if what is not None:
        return x if what == "self" else terms.literal(result, _pattern(result, what))
    if type_ is bool_ and (op in _OPPOSITE or (op == "logical_xor" and constant == 1)):
        return x if (op == "equal") == bool(constant) else terms.apply("logical_not", bool_, (x,))
    return None


def _with_itself(terms: Terms, op: str, result: Type, x: int) -> int | None:
    type_ = terms.types[x]
    if type_.kind == "float":
        exact = terms.keeps_subnormals or type_ is not f32
        return x if exact and op in _FLOAT_WITH_ITSELF else None
    found = _WITH_ITSELF.get(op)
    if found is None:
        return None
    return x if found == "self" else terms.literal(result, _pattern(result, found))


@cache
def _special_constants(op: str, type_: Type) -> dict[int, str]:
    """What x op c is, by the bits of c; "self" is x."""
    special = {_pattern(type_, name): what for name, what in reversed(_ABSORBING.get(op, {}).items())}
    if op in _NEUTRAL:
        special[_pattern(type_, _NEUTRAL[op])] = "self"
    return special


def _unary(terms: Terms, op: str, type_: Type, x: int) -> int | None:
    if op == "cast":
        return _cast(terms, x, type_)
    if op == "bitcast":
        for form in terms.with_op(x, "bitcast"):
            return terms.apply("bitcast", type_, terms.args[form])
        return None
    if op == "logical_not":
        for form in terms.forms[x]:
            if terms.ops[form] in _OPPOSITE and terms.types[terms.args[form][0]] is not bool_:
                return terms.apply(_OPPOSITE[terms.ops[form]], bool_, terms.args[form])
    if op in _OWN_INVERSE and (terms.keeps_subnormals or type_ is not f32):
        for form in terms.with_op(x, op):
            return terms.find(terms.args[form][0])
    return None


def _where(terms: Terms, type_: Type, condition: int, a: int, b: int) -> int | None:
    known = terms.constant(condition)
    if known is not None:
        return a if known else b
    if a == b:
        return a
    if type_ is bool_ and terms.constant(a) is not None and terms.constant(b) is not None:
        return condition if terms.constant(a) else terms.apply("logical_not", bool_, (condition,))
    for form in terms.with_op(condition, "logical_not"):
        return terms.apply("where", type_, (terms.args[form][0], b, a))
    return None


def _cast(terms: Terms, x: int, last: Type) -> int | None:
    """A cast of a cast that keeps what this one needs."""
    for form in terms.with_op(x, "cast"):
        inner, middle = terms.args[form][0], terms.types[form]
        first = terms.types[inner]
        if first.is_float and not terms.keeps_subnormals and f32 in (first, middle, last):
            continue
        low_bits = first.is_integer and middle.is_integer and last.is_integer and last.bits <= middle.bits
        # An integer keeps its low bits in a cast to an integer, a float saturates: the same for values that fit.
        alike = middle.is_float == first.is_float or not last.is_integer or _holds(last, first)
        if low_bits or (_holds(middle, first) and alike):
            return terms.apply("cast", last, (inner,))
    return None


def _holds(wide: Type, narrow: Type) -> bool:
    """Whether every value of `narrow` is one of `wide`."""
    if wide is narrow or narrow is bool_:
        return True
    if wide is bool_ or (narrow.is_float and not wide.is_float):
        return False
    if narrow.is_float:
        return wide in _WIDER_FLOATS[narrow]
    if wide.is_float:
        return narrow.maximum.bit_length() <= _SIGNIFICAND_BITS[wide]
    return wide.minimum <= narrow.minimum and narrow.maximum <= wide.maximum
