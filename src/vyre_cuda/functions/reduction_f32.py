"""An f32 minus the nearest multiple of pi/2: what sin, cos and tan have in common.

Up to 2^16 the multiple is subtracted in three parts of pi/2. Beyond, the fraction of x / (2 pi) is a product of the
significand with those 96 bits of 1 / (2 pi) that are not whole turns (Payne and Hanek, "Radian reduction for
trigonometric functions"): no f32 is nearer to a multiple of pi/2 than 2^-31 turns, of which 64 bits keep 33.
"""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f32 import INVERSE_TWO_PI_BITS, PI_2, TWO_OVER_PI, TWO_PI
from vyre_cuda.functions.exponential_f32 import ROUNDER, power_of_two
from vyre_cuda.functions.steps import Steps, V

LIMIT = 65536.0


def quadrant(m: Steps, x: V) -> tuple[V, V, V]:
    """r, its error, and the number of the quadrant (an s32, to be taken modulo 4): x = r + rest + quadrant pi/2.

    r and rest are NaN for an infinity or NaN.
    """
    shifted = m.fma(x, TWO_OVER_PI[0], ROUNDER)
    multiple = shifted - ROUNDER
    near = m.fma(multiple, -PI_2[0], x)  # exact, and a multiple of the last bit of the product
    product = multiple * PI_2[1]
    next_ = near - product
    lost = ((near - next_) - product) - m.fma(multiple, PI_2[1], -product)
    rest = m.fma(multiple, -PI_2[2], lost)
    r = next_ + rest
    usual = (r, (next_ - r) + rest, m.bits(shifted, "s32"))
    r, rest, number = m.rare(~(m.absolute(x) < LIMIT), usual, far, x)
    return r, rest, number


def far(m: Steps, x: V) -> tuple[V, V, V]:
    """`quadrant` of an x that is 2^16 or more, or not finite."""
    bits = m.bits(x, "u32")
    exponent = ((bits >> 23) & 0xFF) - 126  # x = 0.significand * 2^exponent
    significand = (bits << 8) | 0x80000000
    high, low = _turns(m, significand, exponent)
    number = (high + 0x20000000) >> 30
    high = high - (number << 30)  # a signed number from -1/8 to 1/8 turns
    below = m.bits(high, "s32") < 0
    opposite = m.where(low == 0, m.constant("u32", 1), 0) + ~high
    high, low = m.where(below, opposite, high), m.where(below, ~low + 1, low)
    r, rest = _radians(m, high, low)
    negative = below ^ (x < 0.0)
    quadrants = m.bits(number, "s32")
    undefined = x - x  # NaN where x is not finite
    return (
        m.where(negative, -r, r) + undefined,
        m.where(negative, -rest, rest),
        m.where(x < 0.0, -quadrants, quadrants),
    )


def _turns(m: Steps, significand: V, exponent: V) -> tuple[V, V]:
    """The fraction of significand * 2^(exponent - 32) / (2 pi), its first 32 bits and the next 32."""
    index, shift = exponent >> 5, exponent & 31
    words = [_chosen(m, index, first) for first in range(4)]
    rest = 32 - shift
    whole, middle, last = (m.shift_left(words[k], shift) | m.shift_right(words[k + 1], rest) for k in range(3))
    carried = m.multiply_high(significand, last)
    low = significand * middle + carried
    carry = m.where(low < carried, m.constant("u32", 1), 0)
    return significand * whole + m.multiply_high(significand, middle) + carry, low


def _chosen(m: Steps, index: V, first: int) -> V:
    """Word first + index of 1 / (2 pi), with 32 zeros before the point; index is from 0 to 4."""
    words = (0, *INVERSE_TWO_PI_BITS)[first : first + 5]
    value = m.constant("u32", words[4])
    for k in reversed(range(4)):
        value = m.where(index == k, words[k], value)
    return value


def _radians(m: Steps, high: V, low: V) -> tuple[V, V]:
    """(high + low / 2^32) / 2^32 turns, not 0, as radians in two f32: the first 32 bits that are not 0 times 2 pi."""
    zeros = m.count_leading_zeros(high)
    bits = m.shift_left(high, zeros) | m.shift_right(low, 32 - zeros)
    top, tail = m.cast(bits >> 8, "f32"), m.cast(bits & 0xFF, "f32") * 2.0**-8
    product = top * TWO_PI[0]
    rest = m.fma(top, TWO_PI[0], -product) + m.fma(top, TWO_PI[1], tail * TWO_PI[0])
    scale = power_of_two(m, -24 - m.bits(zeros, "s32"))
    r = product + rest
    return r * scale, ((product - r) + rest) * scale
