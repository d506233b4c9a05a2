"""The functions that programs use besides a builder: every op under its NumPy name.

The op table (`ir/core/ops.py`) decides; these functions only give its rows signatures. Operands are expressions or
Python numbers, which take the type of the other operand. Wrong types raise ProgramError with the rule that they break.
"""

from __future__ import annotations

from vyre_cuda.ir.builder.docstrings import describe_op
from vyre_cuda.ir.builder.operators import Expression, Operand
from vyre_cuda.ir.builder.values import Value, apply, operate
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.types import Type


def add(x: Operand, y: Operand, /) -> Value:
    """x + y: integers wrap; floats round to nearest even."""
    return apply("add", x, y)


def subtract(x: Operand, y: Operand, /) -> Value:
    """x - y: integers wrap; floats round to nearest even."""
    return apply("subtract", x, y)


def multiply(x: Operand, y: Operand, /) -> Value:
    """x * y: integers wrap; floats round to nearest even."""
    return apply("multiply", x, y)


def negative(x: Operand, /) -> Value:
    """-x: integers wrap."""
    return apply("negative", x)


def absolute(x: Operand, /) -> Value:
    """|x|: the smallest integer stays as it is."""
    return apply("absolute", x)


def fma(x: Operand, y: Operand, z: Operand, /) -> Value:
    """x * y + z with one rounding."""
    return apply("fma", x, y, z)


def floor_divide(x: Operand, y: Operand, /) -> Value:
    """x // y: quotient rounded down; for integers x // 0 = 0, MIN // -1 = MIN; for floats NumPy's result."""
    return apply("floor_divide", x, y)


def remainder(x: Operand, y: Operand, /) -> Value:
    """x % y: sign of the divisor; for integers x % 0 = 0, MIN % -1 = 0; for floats NumPy's result."""
    return apply("remainder", x, y)


def trunc_divide(x: Operand, y: Operand, /) -> Value:
    """x / y rounded toward zero; x / 0 = 0; MIN / -1 = MIN."""
    return apply("trunc_divide", x, y)


def fmod(x: Operand, y: Operand, /) -> Value:
    """The remainder of trunc_divide: sign of the dividend; exact for floats; 0 for an integer divisor of 0."""
    return apply("fmod", x, y)


def integer_power(x: Operand, y: Operand, /) -> Value:
    """x ** y of integers: wraps; for a negative y 0, and for the bases 1 and -1 what is exact; 0 ** 0 = 1."""
    return apply("integer_power", x, y)


def divide(x: Operand, y: Operand, /) -> Value:
    """x / y: correctly rounded."""
    return apply("divide", x, y)


def reciprocal(x: Operand, /) -> Value:
    """1 / x: correctly rounded."""
    return apply("reciprocal", x)


def sqrt(x: Operand, /) -> Value:
    """The square root: correctly rounded."""
    return apply("sqrt", x)


def left_shift(x: Operand, y: Operand, /) -> Value:
    """x << y: the count is unsigned; 0 from the width on."""
    return apply("left_shift", x, y)


def right_shift(x: Operand, y: Operand, /) -> Value:
    """x >> y: the count is unsigned; 0 or the sign from the width on."""
    return apply("right_shift", x, y)


def bitwise_and(x: Operand, y: Operand, /) -> Value:
    """x & y."""
    return apply("bitwise_and", x, y)


def bitwise_or(x: Operand, y: Operand, /) -> Value:
    """x | y."""
    return apply("bitwise_or", x, y)


def bitwise_xor(x: Operand, y: Operand, /) -> Value:
    """x ^ y."""
    return apply("bitwise_xor", x, y)


def invert(x: Operand, /) -> Value:
    """~x: flips every bit."""
    return apply("invert", x)


def logical_and(x: Operand, y: Operand, /) -> Value:
    """x and y."""
    return apply("logical_and", x, y)


def logical_or(x: Operand, y: Operand, /) -> Value:
    """x or y."""
    return apply("logical_or", x, y)


def logical_xor(x: Operand, y: Operand, /) -> Value:
    """x or y, not both."""
    return apply("logical_xor", x, y)


def logical_not(x: Operand, /) -> Value:
    """not x."""
    return apply("logical_not", x)


def equal(x: Operand, y: Operand, /) -> Value:
    """x == y: IEEE for floats."""
    return apply("equal", x, y)


def not_equal(x: Operand, y: Operand, /) -> Value:
    """x != y: IEEE for floats."""
    return apply("not_equal", x, y)


def less(x: Operand, y: Operand, /) -> Value:
    """x < y: signed or unsigned according to the type."""
    return apply("less", x, y)


def less_equal(x: Operand, y: Operand, /) -> Value:
    """x <= y: signed or unsigned according to the type."""
    return apply("less_equal", x, y)


def greater(x: Operand, y: Operand, /) -> Value:
    """x > y: signed or unsigned according to the type."""
    return apply("greater", x, y)


def greater_equal(x: Operand, y: Operand, /) -> Value:
    """x >= y: signed or unsigned according to the type."""
    return apply("greater_equal", x, y)


def minimum(x: Operand, y: Operand, /) -> Value:
    """The smaller: propagates NaN; -0 counts as less than +0."""
    return apply("minimum", x, y)


def maximum(x: Operand, y: Operand, /) -> Value:
    """The larger: propagates NaN; -0 counts as less than +0."""
    return apply("maximum", x, y)


def fmin(x: Operand, y: Operand, /) -> Value:
    """The smaller: ignores NaN; -0 counts as less than +0."""
    return apply("fmin", x, y)


def fmax(x: Operand, y: Operand, /) -> Value:
    """The larger: ignores NaN; -0 counts as less than +0."""
    return apply("fmax", x, y)


def clip(x: Operand, low: Operand, high: Operand, /) -> Value:
    """minimum(maximum(x, low), high): between the bounds, NaN for a NaN, and `high` if the bounds are out of order.

    Parameters
    ----------
    x, low, high
        Expressions of an integer or float type, the same for all, or numbers, which take their type.

    Returns
    -------
    Value
        An expression of their type.

    Raises
    ------
    ProgramError
        An operand has another type.
    """
    return apply("minimum", apply("maximum", x, low), high)


def square(x: Operand, /) -> Value:
    """x * x: integers wrap; floats round to nearest even.

    Parameters
    ----------
    x
        An expression of an integer or float type.

    Returns
    -------
    Value
        An expression of its type.

    Raises
    ------
    ProgramError
        The operand has another type.
    """
    value = x.read() if isinstance(x, Expression) else x
    return apply("multiply", value, value)


def floor(x: Operand, /) -> Value:
    """The largest whole number not above x."""
    return apply("floor", x)


def ceil(x: Operand, /) -> Value:
    """The smallest whole number not below x."""
    return apply("ceil", x)


def trunc(x: Operand, /) -> Value:
    """x without its fractional part."""
    return apply("trunc", x)


def rint(x: Operand, /) -> Value:
    """x rounded to a whole number: halves round to even."""
    return apply("rint", x)


def isnan(x: Operand, /) -> Value:
    """Whether x is a NaN."""
    return apply("isnan", x)


def isinf(x: Operand, /) -> Value:
    """Whether x is an infinity."""
    return apply("isinf", x)


def isfinite(x: Operand, /) -> Value:
    """Whether x is neither infinite nor a NaN."""
    return apply("isfinite", x)


def bitwise_count(x: Operand, /) -> Value:
    """The number of ones in the two's complement pattern, in the operand's type."""
    return apply("bitwise_count", x)


def count_leading_zeros(x: Operand, /) -> Value:
    """The number of zeros above the highest one; the width for 0."""
    return apply("count_leading_zeros", x)


def count_trailing_zeros(x: Operand, /) -> Value:
    """The number of zeros below the lowest one; the width for 0."""
    return apply("count_trailing_zeros", x)


def reverse_bits(x: Operand, /) -> Value:
    """The bits in reverse order."""
    return apply("reverse_bits", x)


def rotate_left(x: Operand, y: Operand, /) -> Value:
    """x rotated to the left by y bits: the count is unsigned, modulo the width."""
    return apply("rotate_left", x, y)


def rotate_right(x: Operand, y: Operand, /) -> Value:
    """x rotated to the right by y bits: the count is unsigned, modulo the width."""
    return apply("rotate_right", x, y)


def multiply_high(x: Operand, y: Operand, /) -> Value:
    """The upper half of the double-width product."""
    return apply("multiply_high", x, y)


def add_saturate(x: Operand, y: Operand, /) -> Value:
    """x + y: clamped to the type's range."""
    return apply("add_saturate", x, y)


def subtract_saturate(x: Operand, y: Operand, /) -> Value:
    """x - y: clamped to the type's range."""
    return apply("subtract_saturate", x, y)


def copysign(x: Operand, y: Operand, /) -> Value:
    """The magnitude of x with the sign of y."""
    return apply("copysign", x, y)


def sign(x: Operand, /) -> Value:
    """-1, 0 or 1: positive zero for a zero, NaN for NaN."""
    return apply("sign", x)


def signbit(x: Operand, /) -> Value:
    """Whether the sign bit is set."""
    return apply("signbit", x)


def nextafter(x: Operand, y: Operand, /) -> Value:
    """The next float after x toward y: y when they are equal."""
    return apply("nextafter", x, y)


def where(condition: Operand, x: Operand, y: Operand, /) -> Value:
    """x where the condition holds, else y; both are evaluated."""
    return apply("where", condition, x, y)


def bitcast(x: Operand, type_: Type, /) -> Value:
    """The bits of x as another type of the same width.

    Parameters
    ----------
    x
        An expression of an integer or float type.
    type_
        The type of the result.

    Returns
    -------
    Value
        An expression of this type.

    Raises
    ------
    ProgramError
        The widths differ, or one is bool_.
    """
    return operate((OPS["bitcast"],), (x,), type_)


for _name, _function in tuple(globals().items()):
    if _name in OPS and _name != "bitcast":
        describe_op(_function, _name)
