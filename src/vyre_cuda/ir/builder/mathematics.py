"""The mathematical functions under their NumPy names, which programs use like those of `functions.py`.

Operands are expressions of f16, bf16, f32 or f64, or Python numbers, which take the type of the other operand. Error
bounds are on the functions page of the documentation.
"""

from __future__ import annotations

from vyre_cuda.ir.builder.docstrings import describe_op
from vyre_cuda.ir.builder.operators import Operand
from vyre_cuda.ir.builder.values import Value, apply, operate
from vyre_cuda.ir.core.ops import OPS


def exp(x: Operand, /) -> Value:
    """e to the power x."""
    return apply("exp", x)


def exp2(x: Operand, /) -> Value:
    """2 to the power x."""
    return apply("exp2", x)


def expm1(x: Operand, /) -> Value:
    """e to the power x, minus 1, accurate for small x."""
    return apply("expm1", x)


def log(x: Operand, /) -> Value:
    """The natural logarithm: NaN for a negative number, -inf for a zero."""
    return apply("log", x)


def log2(x: Operand, /) -> Value:
    """The logarithm to base 2."""
    return apply("log2", x)


def log10(x: Operand, /) -> Value:
    """The logarithm to base 10."""
    return apply("log10", x)


def log1p(x: Operand, /) -> Value:
    """The natural logarithm of 1 + x, accurate for small x."""
    return apply("log1p", x)


def power(x: Operand, y: Operand, /) -> Value:
    """x to the power y: NaN for a negative x unless y is a whole number; 1 where y is 0 or x is 1.

    Integers wrap; a negative exponent gives 0, except for the bases 1 and -1.
    """
    return operate((OPS["power"], OPS["integer_power"]), (x, y))


def rsqrt(x: Operand, /) -> Value:
    """1 / sqrt(x): a zero gives an infinity of its sign."""
    return apply("rsqrt", x)


def cbrt(x: Operand, /) -> Value:
    """The cube root, also of negative numbers."""
    return apply("cbrt", x)


def hypot(x: Operand, y: Operand, /) -> Value:
    """The square root of x * x + y * y, without intermediate overflow."""
    return apply("hypot", x, y)


def sin(x: Operand, /) -> Value:
    """The sine of an angle in radians, of any size."""
    return apply("sin", x)


def cos(x: Operand, /) -> Value:
    """The cosine of an angle in radians, of any size."""
    return apply("cos", x)


def tan(x: Operand, /) -> Value:
    """The tangent of an angle in radians, of any size."""
    return apply("tan", x)


def arcsin(x: Operand, /) -> Value:
    """The angle from -pi/2 to pi/2 whose sine is x; NaN where |x| > 1."""
    return apply("arcsin", x)


def arccos(x: Operand, /) -> Value:
    """The angle from 0 to pi whose cosine is x; NaN where |x| > 1."""
    return apply("arccos", x)


def arctan(x: Operand, /) -> Value:
    """The angle from -pi/2 to pi/2 whose tangent is x."""
    return apply("arctan", x)


def arctan2(y: Operand, x: Operand, /) -> Value:
    """The angle from -pi to pi of the point (x, y)."""
    return apply("arctan2", y, x)


def sinh(x: Operand, /) -> Value:
    """The hyperbolic sine."""
    return apply("sinh", x)


def cosh(x: Operand, /) -> Value:
    """The hyperbolic cosine."""
    return apply("cosh", x)


def tanh(x: Operand, /) -> Value:
    """The hyperbolic tangent."""
    return apply("tanh", x)


def arcsinh(x: Operand, /) -> Value:
    """The inverse of sinh."""
    return apply("arcsinh", x)


def arccosh(x: Operand, /) -> Value:
    """The nonnegative inverse of cosh; NaN below 1."""
    return apply("arccosh", x)


def arctanh(x: Operand, /) -> Value:
    """The inverse of tanh: infinite for 1 and -1, NaN beyond."""
    return apply("arctanh", x)


def erf(x: Operand, /) -> Value:
    """The error function."""
    return apply("erf", x)


def sigmoid(x: Operand, /) -> Value:
    """1 / (1 + e to the power -x)."""
    return apply("sigmoid", x)


for _name, _function in tuple(globals().items()):
    if _name in OPS and _name != "bitcast":
        describe_op(_function, _name)
