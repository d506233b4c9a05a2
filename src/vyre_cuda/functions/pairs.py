"""Sums and products with their rounding errors: pairs of floats whose exact sum is the result.

Each is exact where nothing overflows and the error of a product does not underflow.
"""

from __future__ import annotations

import math

from vyre_cuda.functions.steps import Steps, V

Pair = tuple[V, V]


def two_sum(a: V, b: V) -> Pair:
    """a + b (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def ordered_sum(a: V, b: V) -> Pair:
    """a + b where |a| >= |b| or a is 0 (Dekker)."""
    total = a + b
    return total, b - (total - a)


def two_product(m: Steps, a: V, b: V) -> Pair:
    """a * b; one of both may be a number."""
    product = a * b
    return product, m.fma(a, b, -product)


def quotient(m: Steps, above: Pair, below: Pair) -> Pair:
    """above / below, nearly to twice the precision; one reciprocal."""
    inverse = 1.0 / below[0]
    high = above[0] * inverse
    rest = m.fma(-high, below[0], above[0]) + m.fma(-high, below[1], above[1])
    return high, rest * inverse


def shortened(constant: tuple[float, ...], bits: int) -> tuple[float, float]:
    """The pair of a constant, whose larger part is a multiple of 2^-bits."""
    high = math.ldexp(round(math.ldexp(constant[0], bits)), -bits)
    return high, (constant[0] - high) + constant[1]
