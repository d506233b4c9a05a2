"""Random numbers by counter, made of ordinary ops: the same seed and counter give the same numbers everywhere.

The generator is Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).
Nothing is kept between calls: a thread takes a counter that no other uses, such as its own number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from vyre_cuda.ir.builder.functions import multiply, multiply_high, sqrt
from vyre_cuda.ir.builder.mathematics import cos, log, sin
from vyre_cuda.ir.builder.operators import Operand
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.types import f32, u32, u64

Words: TypeAlias = tuple[Value, Value, Value, Value]
Floats: TypeAlias = tuple[Value, Value, Value, Value]

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)  # of the two words of the key, from round to round
_UNIT = 2.0**-24  # f32 has the multiples of this below 1
_TURN = 6.2831855


def philox(seed: Operand, counter: Operand | Sequence[Operand], /) -> Words:
    """Four random words of a seed and a counter, by Philox 4x32-10.

    Parameters
    ----------
    seed
        An integer of any type, taken as 64 bits.
    counter
        The same, as the lower 64 bits of the counter; or a sequence of up to four u32, the lowest word first.

    Returns
    -------
    tuple of four Value
        Four expressions of u32.

    Raises
    ------
    ProgramError
        An operand is not an integer.
    TypeError
        A counter without words or of more than four; or a float.
    """
    words = _counter_words(counter)
    key = _halves(seed)
    for number in range(_ROUNDS):
        words = _round(words, key, number)
    return words


def uniform(seed: Operand, counter: Operand | Sequence[Operand], /) -> Floats:
    """Four random numbers from 0 to 1, without 1: the multiples of 2^-24, all as likely.

    Parameters
    ----------
    seed, counter
        Those of `philox`.

    Returns
    -------
    tuple of four Value
        Four expressions of f32.

    Raises
    ------
    ProgramError, TypeError
        As for `philox`.
    """
    a, b, c, d = (_fraction(word) for word in philox(seed, counter))
    return a, b, c, d


def normal(seed: Operand, counter: Operand | Sequence[Operand], /) -> Floats:
    """Four random numbers of the normal distribution with mean 0 and variance 1, by Box and Muller. None exceeds 5.8.

    Parameters
    ----------
    seed, counter
        Those of `philox`.

    Returns
    -------
    tuple of four Value
        Four expressions of f32.

    Raises
    ------
    ProgramError, TypeError
        As for `philox`.
    """
    a, b, c, d = philox(seed, counter)
    return (*_normal_pair(a, b), *_normal_pair(c, d))


def _normal_pair(radius: Value, angle: Value) -> tuple[Value, Value]:
    length = sqrt(multiply(log(_fraction(radius) + _UNIT), -2.0))
    turned = _fraction(angle) * _TURN
    return length * cos(turned), length * sin(turned)


def _fraction(word: Value) -> Value:
    """The upper 24 bits as a fraction of 1."""
    fraction: Value = f32(word >> 8) * _UNIT
    return fraction


def _counter_words(counter: Operand | Sequence[Operand]) -> Words:
    if not isinstance(counter, Sequence):
        return (*_halves(counter), u32(0), u32(0))
    if not 1 <= len(counter) <= 4:
        raise TypeError(f"a counter has 1 to 4 words; {len(counter)} given")
    a, b, c, d = (u32(word) for word in (*counter, 0, 0, 0)[:4])
    return a, b, c, d


def _halves(number: Operand) -> tuple[Value, Value]:
    """The lower and the upper 32 bits."""
    wide = u64(number)
    return u32(wide), u32(wide >> 32)


def _round(words: Words, key: tuple[Value, Value], number: int) -> Words:
    first, second = ((part + (step * number & u32.maximum)) for part, step in zip(key, _STEPS, strict=True))
    a, b, c, d = words
    return (
        multiply_high(c, _MULTIPLIERS[1]) ^ b ^ first,
        multiply(c, _MULTIPLIERS[1]),
        multiply_high(a, _MULTIPLIERS[0]) ^ d ^ second,
        multiply(a, _MULTIPLIERS[0]),
    )
