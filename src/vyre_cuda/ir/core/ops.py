"""The op table: every op of the expression language, declared once.

Builder, validator, interpreter, printer, wire format, instruction selection, documentation and tests read it. An op is
a NumPy ufunc: it carries NumPy's name and, wherever NumPy defines a result exactly, gives that result bit for bit.
`code` is the op's number in wire bytes; codes are never reused.
"""

from __future__ import annotations

from typing import Literal

from vyre_cuda.errors import counted
from vyre_cuda.ir.core.types import FLOATS, INTEGERS, NUMBERS, TYPES, Type, bool_, u32
from vyre_cuda.records import FrozenRecord

Result = Literal["same", "bool", "explicit"]


class Op(FrozenRecord):
    """One row. `types` are the types that the operands may have; all operands have the same one.

    `result` is "same" (the operands' type), "bool" or "explicit" (named by the node: casts). `leading_bool` marks
    `where`, whose first operand is a bool and not counted among these operands. `rule` is empty for mathematical
    functions, whose bounds are in `functions.table`, which a start does not load.
    """

    name: str
    code: int
    arity: int
    types: tuple[Type, ...]
    result: Result = "same"
    commutative: bool = False
    symbol: str = ""
    leading_bool: bool = False
    rule: str = ""


def _function(name: str, code: int, arity: int = 1, symbol: str = "") -> Op:
    """A mathematical function; its forms, and so its bounds, are those of `functions.table`."""
    return Op(name, code, arity, FLOATS, symbol=symbol)


_FUNCTIONS = (
    _function("exp2", 57),
    _function("exp", 58),
    _function("expm1", 59),
    _function("log", 60),
    _function("log2", 61),
    _function("log10", 62),
    _function("log1p", 63),
    _function("sin", 64),
    _function("cos", 65),
    _function("tan", 66),
    _function("arcsin", 67),
    _function("arccos", 68),
    _function("arctan", 69),
    _function("arctan2", 70, 2),
    _function("sinh", 71),
    _function("cosh", 72),
    _function("tanh", 73),
    _function("arcsinh", 74),
    _function("arccosh", 75),
    _function("arctanh", 76),
    _function("power", 77, 2, "**"),
    _function("hypot", 78, 2),
    _function("cbrt", 79),
    _function("erf", 80),
    _function("rsqrt", 81),
    _function("sigmoid", 82),
)

_ROWS = (
    Op("add", 1, 2, NUMBERS, commutative=True, symbol="+", rule="integers wrap; floats round to nearest even"),
    Op("subtract", 2, 2, NUMBERS, symbol="-", rule="integers wrap; floats round to nearest even"),
    Op("multiply", 3, 2, NUMBERS, commutative=True, symbol="*", rule="integers wrap; floats round to nearest even"),
    Op("negative", 4, 1, NUMBERS, rule="integers wrap"),
    Op("absolute", 5, 1, NUMBERS, rule="the smallest integer stays as it is"),
    Op("fma", 6, 3, FLOATS, rule="x * y + z with one rounding"),
    Op(
        "floor_divide",
        7,
        2,
        NUMBERS,
        symbol="//",
        rule="quotient rounded down; integers: x // 0 = 0; MIN // -1 = MIN; floats as NumPy; f16 and bf16 through f32",
    ),
    Op(
        "remainder",
        8,
        2,
        NUMBERS,
        symbol="%",
        rule="sign of the divisor; integers: x % 0 = 0; MIN % -1 = 0; floats as NumPy; f16 and bf16 through f32",
    ),
    Op("trunc_divide", 9, 2, INTEGERS, rule="quotient rounded toward zero; x / 0 = 0; MIN / -1 = MIN"),
    Op("fmod", 10, 2, NUMBERS, rule="sign of the dividend; exact for floats; 0 for an integer divisor of 0"),
    Op("divide", 11, 2, FLOATS, symbol="/", rule="correctly rounded"),
    Op("reciprocal", 12, 1, FLOATS, rule="1 / x, correctly rounded"),
    Op("sqrt", 13, 1, FLOATS, rule="correctly rounded"),
    Op("left_shift", 14, 2, INTEGERS, symbol="<<", rule="the count is unsigned; 0 from the width on"),
    Op("right_shift", 15, 2, INTEGERS, symbol=">>", rule="the count is unsigned; 0 or the sign from the width on"),
    Op("bitwise_and", 16, 2, INTEGERS, commutative=True, symbol="&"),
    Op("bitwise_or", 17, 2, INTEGERS, commutative=True, symbol="|"),
    Op("bitwise_xor", 18, 2, INTEGERS, commutative=True, symbol="^"),
    Op("invert", 19, 1, INTEGERS, rule="flips every bit"),
    Op("logical_and", 20, 2, (bool_,), commutative=True, symbol="&"),
    Op("logical_or", 21, 2, (bool_,), commutative=True, symbol="|"),
    Op("logical_xor", 22, 2, (bool_,), commutative=True, symbol="^"),
    Op("logical_not", 23, 1, (bool_,)),
    Op("equal", 24, 2, TYPES, "bool", commutative=True, symbol="==", rule="IEEE for floats"),
    Op("not_equal", 25, 2, TYPES, "bool", commutative=True, symbol="!=", rule="IEEE for floats"),
    Op("less", 26, 2, NUMBERS, "bool", symbol="<", rule="signed or unsigned according to the type"),
    Op("less_equal", 27, 2, NUMBERS, "bool", symbol="<=", rule="signed or unsigned according to the type"),
    Op("greater", 28, 2, NUMBERS, "bool", symbol=">", rule="signed or unsigned according to the type"),
    Op("greater_equal", 29, 2, NUMBERS, "bool", symbol=">=", rule="signed or unsigned according to the type"),
    Op("minimum", 30, 2, NUMBERS, commutative=True, rule="propagates NaN; -0 counts as less than +0"),
    Op("maximum", 31, 2, NUMBERS, commutative=True, rule="propagates NaN; -0 counts as less than +0"),
    Op("fmin", 32, 2, FLOATS, commutative=True, rule="ignores NaN; -0 counts as less than +0"),
    Op("fmax", 33, 2, FLOATS, commutative=True, rule="ignores NaN; -0 counts as less than +0"),
    Op("floor", 34, 1, FLOATS),
    Op("ceil", 35, 1, FLOATS),
    Op("trunc", 36, 1, FLOATS),
    Op("rint", 37, 1, FLOATS, rule="halves round to even"),
    Op("isnan", 38, 1, FLOATS, "bool"),
    Op("isinf", 39, 1, FLOATS, "bool"),
    Op("isfinite", 40, 1, FLOATS, "bool"),
    Op("where", 41, 3, TYPES, leading_bool=True, rule="both values are evaluated"),
    Op(
        "cast",
        42,
        1,
        TYPES,
        "explicit",
        rule="int keeps low bits; float to int truncates and saturates; NaN gives 0",
    ),
    Op("bitcast", 43, 1, NUMBERS, "explicit", rule="keeps the bits; the widths must be equal"),
    Op("bitwise_count", 44, 1, INTEGERS, rule="number of ones in the two's complement pattern, in the operand's type"),
    Op("count_leading_zeros", 45, 1, INTEGERS, rule="the width for 0"),
    Op("count_trailing_zeros", 46, 1, INTEGERS, rule="the width for 0"),
    Op("reverse_bits", 47, 1, INTEGERS),
    Op("rotate_left", 48, 2, INTEGERS, rule="the count is unsigned, modulo the width"),
    Op("rotate_right", 49, 2, INTEGERS, rule="the count is unsigned, modulo the width"),
    Op("multiply_high", 50, 2, INTEGERS, commutative=True, rule="upper half of the double-width product"),
    Op("add_saturate", 51, 2, INTEGERS, commutative=True, rule="clamped to the type's range"),
    Op("subtract_saturate", 52, 2, INTEGERS, rule="clamped to the type's range"),
    Op("copysign", 53, 2, FLOATS, rule="magnitude of the first operand, sign of the second"),
    Op("sign", 54, 1, NUMBERS, rule="-1, 0 or 1; positive zero for a zero, NaN for NaN"),
    Op("signbit", 55, 1, FLOATS, "bool"),
    Op("nextafter", 56, 2, FLOATS, rule="the next float toward the second operand; the second if both are equal"),
    *_FUNCTIONS,
    Op(
        "integer_power",
        83,
        2,
        INTEGERS,
        symbol="**",
        rule="wraps; for a negative exponent 0, and for the bases 1 and -1 what is exact; 0 ** 0 = 1",
    ),
)

OPS: dict[str, Op] = {op.name: op for op in _ROWS}
FUNCTIONS: dict[str, Op] = {op.name: op for op in _FUNCTIONS}


# Memory orders and scopes of atomics. Positions are wire numbers: append only.
ORDERS: tuple[str, ...] = ("relaxed", "acquire", "release", "acq_rel")
SCOPES: tuple[str, ...] = ("block", "device", "system")


class AtomicOp(FrozenRecord):
    """An atomic: `operands` follow the index, `types` are those of the element and of every operand.

    `result` False: it returns nothing. `orders` are those that make sense: a load releases nothing, a store acquires
    nothing. `code` as in `Op`.
    """

    name: str
    code: int
    operands: int
    types: tuple[Type, ...]
    result: bool = True
    orders: tuple[str, ...] = ORDERS


_ATOMICS = (
    AtomicOp("add", 0, 1, NUMBERS),
    AtomicOp("compare_exchange", 1, 2, INTEGERS),
    AtomicOp("subtract", 2, 1, INTEGERS),
    AtomicOp("minimum", 3, 1, NUMBERS),
    AtomicOp("maximum", 4, 1, NUMBERS),
    AtomicOp("bitwise_and", 5, 1, INTEGERS),
    AtomicOp("bitwise_or", 6, 1, INTEGERS),
    AtomicOp("bitwise_xor", 7, 1, INTEGERS),
    AtomicOp("exchange", 8, 1, NUMBERS),
    AtomicOp("load", 9, 0, NUMBERS, orders=("relaxed", "acquire")),
    AtomicOp("store", 10, 1, NUMBERS, result=False, orders=("relaxed", "release")),
)
ATOMICS: dict[str, AtomicOp] = {op.name: op for op in _ATOMICS}


class WarpOp(FrozenRecord):
    """A warp operation: `value` types of its first operand, `lane` whether a second one (u32) follows.

    `result` is "same" (the value's type), "bool" or "u32". `combines` are the ops that a reduction or scan may apply.
    """

    name: str
    code: int
    types: tuple[Type, ...]
    lane: bool = False
    result: Literal["same", "bool", "u32"] = "same"
    combines: tuple[str, ...] = ()


# Combining ops and the types they take; bitwise ones are for integers.
COMBINES = ("add", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor")

_WARP = (
    WarpOp("shuffle", 0, TYPES, lane=True),
    WarpOp("shuffle_up", 1, TYPES, lane=True),
    WarpOp("shuffle_down", 2, TYPES, lane=True),
    WarpOp("shuffle_xor", 3, TYPES, lane=True),
    WarpOp("broadcast", 4, TYPES, lane=True),
    WarpOp("any", 5, (bool_,), result="bool"),
    WarpOp("all", 6, (bool_,), result="bool"),
    WarpOp("ballot", 7, (bool_,), result="u32"),
    WarpOp("match", 8, TYPES, result="u32"),
    WarpOp("reduce", 9, NUMBERS, combines=COMBINES),
    WarpOp("inclusive_scan", 10, NUMBERS, combines=COMBINES),
    WarpOp("exclusive_scan", 11, NUMBERS, combines=COMBINES),
)
WARP_OPS: dict[str, WarpOp] = {op.name: op for op in _WARP}

# Ops that the host computes in sizes, work and what these must reach.
HOST_OPS = ("add", "subtract", "multiply", "floor_divide", "minimum", "maximum", "cast")

BY_CODE: dict[int, Op] = {op.code: op for op in _ROWS}
ATOMICS_BY_CODE: dict[int, AtomicOp] = {op.code: op for op in _ATOMICS}
WARP_OPS_BY_CODE: dict[int, WarpOp] = {op.code: op for op in _WARP}


def warp_result_type(op: WarpOp, value: Type) -> Type:
    """The type of a warp operation's result for a value of this type."""
    return {"same": value, "bool": bool_, "u32": u32}[op.result]


def _way_out(op: Op, type_: Type) -> str:
    """What to write instead of an op that is not defined for a type."""
    if op.name == "divide" and type_.is_integer:
        return " (write // for a whole quotient, or vc.f32(...) around the operands for a fraction)"
    if type_ is bool_:
        return " (write vc.i32(...) around a condition to count with it)"
    if type_.is_float and not any(taken.is_float for taken in op.types):
        return f" (write vc.i32(...) for the value, or vc.bitcast(x, vc.u{type_.bits}) for the bits)"
    return ""


def result_type(op: Op, operands: tuple[Type, ...], explicit: Type | None = None) -> Type:
    """The type of `op` applied to operands of these types.

    Raises TypeError with the message that a diagnostic shows. `explicit` is the target of a cast.
    """
    if len(operands) != op.arity:
        raise TypeError(f"{op.name} takes {counted(op.arity, 'operand')}, {len(operands)} given")
    same = operands[1:] if op.leading_bool else operands
    if op.leading_bool and operands[0] is not bool_:
        raise TypeError(f"operand 0 of {op.name} is {operands[0]}; it must be bool_")
    for position, operand in enumerate(operands[1:] if not op.leading_bool else operands[2:], start=1):
        if operand is not same[0]:
            at = position + op.leading_bool
            raise TypeError(
                f"operand {at} is {operand}, operand {int(op.leading_bool)} is {same[0]}; "
                f"{op.name} needs operands of one type "
                f"(write vc.{same[0]}(...))"
            )
    if same[0] not in op.types:
        taken = ", ".join(t.name for t in op.types)
        raise TypeError(f"{op.name} is not defined for {same[0]}; it takes {taken}{_way_out(op, same[0])}")
    if op.result == "bool":
        return bool_
    if op.result == "same":
        return same[0]
    if explicit is None:
        raise TypeError(f"{op.name} needs a target type")
    if op.name == "bitcast" and (explicit not in op.types or explicit.bits != same[0].bits):
        raise TypeError(f"bitcast from {same[0]} to {explicit}: the widths must be equal, and neither may be bool_")
    return explicit
