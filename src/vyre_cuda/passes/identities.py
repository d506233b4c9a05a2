"""Ops that equal a simpler expression for all values of their operands: neutral elements, casts of casts and the like.

Each holds bit for bit, -0.0 and infinities included; a NaN stays a NaN. Those that would skip an op on f32 are exact
only where subnormals are kept, which `keeps_subnormals` says. Two equal operands are one value unless they read memory.
"""

from __future__ import annotations

from vyre_cuda.ir.core.nodes import Apply, Const, Expr
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import Type, bf16, bool_, f16, f32, f64
from vyre_cuda.passes.rebuild import at, has_load

_COMPARISONS = {
    "equal": "not_equal",
    "not_equal": "equal",
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}
# The op with its operands exchanged: commutative ones are their own.
_MIRRORED = {op.name: op.name for op in OPS.values() if op.commutative} | {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
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
    **dict.fromkeys(("not_equal", "less", "greater"), "zero"),
    **dict.fromkeys(("equal", "less_equal", "greater_equal"), "one"),
}
_FLOAT_NEUTRAL = {"add": -0.0, "subtract": 0.0, "multiply": 1.0, "divide": 1.0}
_OWN_INVERSE = frozenset({"negative", "invert", "reverse_bits", "logical_not"})
_SIGNIFICAND_BITS = {f16: 11, bf16: 8, f32: 24, f64: 53}
_WIDER_FLOATS = {f16: (f32, f64), bf16: (f32, f64), f32: (f64,), f64: ()}


def simpler(expr: Apply, *, keeps_subnormals: bool) -> Expr | None:
    """An expression with the same value in every program, made of operands of this one, or None."""
    op, operands = expr.op, expr.operands
    if len(operands) == 2:
        return _binary(expr, op, operands[0], operands[1], keeps_subnormals)
    if len(operands) == 1:
        return _unary(expr, keeps_subnormals)
    return _where(expr) if op == "where" else None


def negated(condition: Expr) -> Expr:
    """The opposite bool, without a `logical_not` where possible."""
    if isinstance(condition, Const):
        return Const(bool_, 1 - condition.bits, condition.source)
    if isinstance(condition, Apply):
        if condition.op == "logical_not":
            return condition.operands[0]
        ordered = condition.op in ("equal", "not_equal") or not condition.operands[0].type.is_float  # NaN
        if condition.op in _COMPARISONS and ordered:
            return Apply(bool_, _COMPARISONS[condition.op], condition.operands, condition.source)
    return Apply(bool_, "logical_not", (condition,), condition.source)


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


def _special(type_: Type, name: str, expr: Apply) -> Const:
    return Const(type_, _pattern(type_, name), expr.source)


def _with_constant(expr: Apply, op: str, x: Expr, constant: Const) -> Expr | None:
    type_ = constant.type
    neutral = _NEUTRAL.get(op)
    if neutral is not None and constant.bits == _pattern(type_, neutral):
        return x
    if type_ is bool_ and (op in ("equal", "not_equal") or (op == "logical_xor" and constant.bits == 1)):
        return x if (op == "equal") == bool(constant.bits) else negated(x)
    for name, result in _ABSORBING.get(op, {}).items():
        if constant.bits == _pattern(type_, name):
            return _special(expr.type, result, expr)
    return None


def _binary(expr: Apply, op: str, left: Expr, right: Expr, keeps_subnormals: bool) -> Expr | None:
    if isinstance(left, Const) and op in _MIRRORED:
        op, left, right = _MIRRORED[op], right, left
    if left.type.is_float:
        return _float_binary(op, left, right) if keeps_subnormals or left.type is not f32 else None
    if isinstance(right, Const):
        return _with_constant(expr, op, left, right)
    if op in _WITH_ITSELF and left == right and not has_load(left):
        found = _WITH_ITSELF[op]
        return left if found == "self" else _special(expr.type, found, expr)
    return None


def _float_binary(op: str, x: Expr, other: Expr) -> Expr | None:
    if isinstance(other, Const) and op in _FLOAT_NEUTRAL:
        return x if other.bits == bits_of(other.type, _FLOAT_NEUTRAL[op]) else None
    if op in ("minimum", "maximum", "fmin", "fmax") and x == other and not has_load(x):
        return x
    return None


def _unary(expr: Apply, keeps_subnormals: bool) -> Expr | None:
    operand = expr.operands[0]
    if expr.op == "cast":
        return _cast(expr, keeps_subnormals)
    if expr.op == "bitcast":
        return _bitcast(expr)
    if expr.op == "logical_not":
        found = negated(operand)
        return None if isinstance(found, Apply) and found.op == "logical_not" else found
    if expr.op in _OWN_INVERSE and isinstance(operand, Apply) and operand.op == expr.op:
        return operand.operands[0] if keeps_subnormals or expr.type is not f32 else None
    return None


def _where(expr: Apply) -> Expr | None:
    condition, a, b = expr.operands
    if isinstance(condition, Const):
        return at(a if condition.bits else b, expr.source)
    if a == b and not has_load(a):
        return a
    if isinstance(a, Const) and isinstance(b, Const) and a.type is bool_:
        return condition if a.bits else negated(condition)
    if isinstance(condition, Apply) and condition.op == "logical_not":
        return Apply(expr.type, "where", (condition.operands[0], b, a), expr.source)
    return None


def _bitcast(expr: Apply) -> Expr | None:
    operand = expr.operands[0]
    if operand.type is expr.type:
        return operand
    if not isinstance(operand, Apply) or operand.op != "bitcast":
        return None
    first = operand.operands[0]
    return first if first.type is expr.type else Apply(expr.type, "bitcast", (first,), expr.source)


def _cast(expr: Apply, keeps_subnormals: bool) -> Expr | None:
    """A cast to the same type, or of a cast that keeps what this one needs."""
    operand, last = expr.operands[0], expr.type
    if operand.type is last:
        return operand
    if not isinstance(operand, Apply) or operand.op != "cast":
        return None
    inner, middle = operand.operands[0], operand.type
    first = inner.type
    if first.is_float and not keeps_subnormals and f32 in (first, middle, last):
        return None
    low_bits = first.is_integer and middle.is_integer and last.is_integer and last.bits <= middle.bits
    # An integer keeps its low bits in a cast to an integer, a float saturates: the same for values that fit.
    alike = middle.is_float == first.is_float or not last.is_integer or _holds(last, first)
    if not (low_bits or (_holds(middle, first) and alike)):
        return None
    return inner if first is last else Apply(last, "cast", (inner,), expr.source)


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
