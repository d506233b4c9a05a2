"""Reduction of sin, cos and tan of f64 to an eighth of a turn, for every finite argument.

x = n pi/2 + r with |r| at most a little above pi/4. Below 2^30 n pi/2 is subtracted from x in three parts; from there
on (Payne and Hanek, "Radian reduction for trigonometric functions") x times the bits of 2/pi that matter is an integer
of 192 bits, whose two upper ones are n. No f64 is closer to a multiple of pi/2 than 2^-62, so 64 of the others are
enough.
"""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f64 import HALF_PI, TWO_OVER_PI, TWO_OVER_PI_BITS
from vyre_cuda.functions.exponential_f64 import whole
from vyre_cuda.functions.pairs import ordered_sum, two_product, two_sum
from vyre_cuda.functions.steps import Steps, V

_LARGE = 2.0**30
# 32 zeros and then the bits of 2/pi after the point, the highest word first.
_ZEROS = 32
_HALVES = (0, *TWO_OVER_PI_BITS)
_WORDS = tuple(high << 32 | low for high, low in zip(_HALVES[::2], _HALVES[1::2], strict=True))
_LEAST_EXPONENT = -22  # of the last bit of a number from 2^30 on


def reduced(m: Steps, x: V) -> tuple[V, V, V]:
    """n, an s64 of which only the last two bits matter, and the pair r; meaningless for infinities and NaN."""
    steps, n = whole(m, x, TWO_OVER_PI[0])
    left = m.fma(steps, -HALF_PI[0], x)  # exact: no bit below 2^-53, none above 2^0
    part, part_low = two_product(m, steps, HALF_PI[1])
    high, low = two_sum(left, -part)
    low = m.fma(steps, -HALF_PI[2], low - part_low)
    return m.rare(m.absolute(x) >= _LARGE, (n, *ordered_sum(high, low)), reduced_large, x)


def reduced_large(m: Steps, x: V) -> tuple[V, V, V]:
    """The same for a finite x from 2^30 on in magnitude."""
    bits = m.bits(x, "u64")
    exponent = m.cast((bits >> 52) & 0x7FF, "u32")
    fraction = (bits & 0xFFFFFFFFFFFFF) | (1 << 52)
    first, second, third = _window(m, exponent - (1023 + 52 + _LEAST_EXPONENT))
    # The product modulo 2^192: upper half of fraction * third, and so on.
    middle = m.multiply_high(fraction, third)
    low = middle + fraction * second
    carry = m.where(low < middle, 1, m.constant("u64", 0))
    high = m.multiply_high(fraction, second) + fraction * first + carry
    # Two bits of n, rounded; what is left is a signed fraction of a quarter turn.
    n = (high + (1 << 61)) >> 62
    top, bottom = (high << 2) | (low >> 62), low << 2
    negative = m.bits(top, "s64") < 0
    top, bottom = m.where(negative, ~top, top), m.where(negative, ~bottom, bottom)
    zeros = m.count_leading_zeros(top)
    count, back = m.cast(zeros, "u32"), m.cast(64 - zeros, "u32")
    top = m.shift_left(top, count) | m.shift_right(bottom, back)
    bottom = m.shift_left(bottom, count)
    # The upper 53 bits, and the 53 after them.
    unit = m.bits((1023 - 53 - zeros) << 52, "f64")
    upper = m.cast(top >> 11, "f64") * unit
    lower = m.cast(((top & 0x7FF) << 42) | (bottom >> 22), "f64") * (unit * 2.0**-53)
    r, r_low = two_product(m, upper, HALF_PI[0])
    r, r_low = ordered_sum(r, m.fma(lower, HALF_PI[0], m.fma(upper, HALF_PI[1], r_low)))
    signed = m.bits(n, "s64")
    sign = m.where(negative ^ (x < 0.0), -1.0, m.constant("f64", 1.0))
    return m.where(x < 0.0, -signed, signed), r * sign, r_low * sign


def _window(m: Steps, start: V) -> tuple[V, V, V]:
    """192 bits of the words from bit start + 8 on, in three words; `start` is a u32 up to 1001."""
    offset = start + (_ZEROS + _LEAST_EXPONENT - 2)
    words = [m.constant("u64", word) for word in _WORDS]
    for distance in (8, 4, 2, 1):  # word index, from its highest bit down
        beyond = (offset & (64 * distance)) != 0
        kept = len(words) - distance
        words = [m.where(beyond, words[at + distance], words[at]) for at in range(kept)]
    count = offset & 63
    back = 64 - count
    shifted = [m.shift_left(words[at], count) | m.shift_right(words[at + 1], back) for at in range(3)]
    return shifted[0], shifted[1], shifted[2]
