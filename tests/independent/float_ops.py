"""Every op on floats that has one right result; mathematical functions are not among them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from integer_ops import COMPARISONS
from number_formats import ROUND, flush_f32, from_bits, keep, round_f32_flushing, to_bits

Function = Callable[..., Any]
Unary = Callable[[float], float]

# Those that `ftz` leaves alone: they move bits or look at them.
KEEPING_SUBNORMALS = ("copysign", "sign", "signbit", "nextafter", "isnan", "isinf", "isfinite")


def quotient(x: float, y: float) -> float:
    if y == 0 and x == x:
        return math.nan if x == 0 else math.copysign(math.inf, x) * math.copysign(1.0, y)
    return x / y if y != 0 else math.nan


def square_root(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def float_remainder(x: float, y: float) -> float:
    if x != x or y != y or y == 0 or math.isinf(x):
        return math.nan
    return math.fmod(x, y)


def is_negative(x: float) -> bool:
    return math.copysign(1.0, x) < 0


def fused(x: float, y: float, z: float, *, to_odd: bool) -> float:
    """x * y + z to 53 bits: rounded to nearest, or to odd for a rounding to fewer bits that follows."""
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return z if math.isfinite(x) and math.isfinite(y) else x * y + z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        # An exact product is no zero where the float one underflowed to it.
        return x * y + z if x == 0 or y == 0 else 0.0
    sign = -1.0 if exact < 0 else 1.0
    try:
        nearest = float(exact)
    except OverflowError:
        return sign * math.inf
    rest = exact - Fraction(nearest) if to_odd else Fraction(0)
    if rest and to_bits("f64", nearest) & 1 == 0:
        nearest = math.nextafter(nearest, math.inf if rest > 0 else -math.inf)
    return math.copysign(nearest, sign)


def _extreme(*, largest: bool, ignores_nan: bool) -> Function:
    def extreme(x: float, y: float) -> float:
        if x != x:
            return y if ignores_nan else x
        if y != y:
            return x if ignores_nan else y
        if x == y:
            return y if is_negative(x) == largest else x
        return x if (x > y) == largest else y

    return extreme


def _integral(to_int: Callable[[float], int]) -> Unary:
    def integral(x: float) -> float:
        if x - x != 0 or abs(x) >= 2.0**53:
            return x
        return math.copysign(to_int(x), x)

    return integral


def _sign(x: float) -> float:
    if x == 0:
        return 0.0
    return x if x != x else math.copysign(1.0, x)


def _next_after(type_: str) -> Function:
    magnitude_bit = 1 << {"f16": 15, "bf16": 15, "f32": 31, "f64": 63}[type_]

    def next_after(x: float, y: float) -> float:
        if x != x or y != y:
            return math.nan
        if x == y:
            return y
        if x == 0:
            return float(from_bits(type_, 1 | (magnitude_bit if y < 0 else 0)))
        outward = (y > x) == (x > 0)
        return float(from_bits(type_, to_bits(type_, x) + (1 if outward else -1)))

    return next_after


def _floored(type_: str) -> tuple[Function, Function]:
    """Quotient and remainder of a division rounded down, as NumPy has them: in f32 for what is narrower."""
    rounded: Unary = ROUND["f64" if type_ == "f64" else "f32"]
    to_type: Unary = ROUND[type_]

    def both(x: float, y: float) -> tuple[float, float]:
        rest = float_remainder(x, y)
        if y == 0:
            return rounded(quotient(x, y)), rest
        whole = rounded(quotient(rounded(x - rest), y))
        if rest == 0:
            rest = math.copysign(0.0, y)
        elif (y < 0) != (rest < 0):
            rest, whole = rounded(rest + y), rounded(whole - 1.0)
        if whole == 0:
            return math.copysign(0.0, quotient(x, y)), rest
        down = _integral(math.floor)(whole)
        return (rounded(down + 1.0) if whole - down > 0.5 else down), rest

    return lambda x, y: to_type(both(x, y)[0]), lambda x, y: to_type(both(x, y)[1])


def float_ops(type_: str, *, flushes: bool = False) -> dict[str, Function]:
    """`flushes`: as `ftz` has them, which f32 alone differs in."""
    flushes = flushes and type_ == "f32"
    rounded: Unary = round_f32_flushing if flushes else ROUND[type_]

    def fma(x: float, y: float, z: float) -> float:
        return rounded(fused(x, y, z, to_odd=type_ != "f64"))

    floor_divide, remainder = _floored(type_)
    ops: dict[str, Function] = {
        **COMPARISONS,
        "floor_divide": floor_divide,
        "remainder": remainder,
        "add": lambda x, y: rounded(x + y),
        "subtract": lambda x, y: rounded(x - y),
        "multiply": lambda x, y: rounded(x * y),
        "divide": lambda x, y: rounded(quotient(x, y)),
        "reciprocal": lambda x: rounded(quotient(1.0, x)),
        "sqrt": lambda x: rounded(square_root(x)),
        "fma": fma,
        "negative": lambda x: -x,
        "absolute": abs,
        "fmod": float_remainder,
        "minimum": _extreme(largest=False, ignores_nan=False),
        "maximum": _extreme(largest=True, ignores_nan=False),
        "fmin": _extreme(largest=False, ignores_nan=True),
        "fmax": _extreme(largest=True, ignores_nan=True),
        "floor": _integral(math.floor),
        "ceil": _integral(math.ceil),
        "trunc": _integral(math.trunc),
        "rint": _integral(round),
        "isnan": lambda x: x != x,
        "isinf": lambda x: x - x != 0 and x == x,
        "isfinite": lambda x: x - x == 0,
        "copysign": math.copysign,
        "sign": _sign,
        "signbit": is_negative,
        "nextafter": _next_after(type_),
    }
    return {name: _between_flushes(name, ops[name]) for name in ops} if flushes else ops


def _between_flushes(name: str, plain: Function) -> Function:
    if name in KEEPING_SUBNORMALS:
        return plain
    after: Function = keep if name in COMPARISONS else flush_f32
    return lambda *operands: after(plain(*map(flush_f32, operands)))
