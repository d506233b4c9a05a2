"""Integer expressions as sums: a constant and coefficients times terms, modulo 2^n.

A term stands for an exact integer that is not looked into, such as an id, the counter of a loop, a size or a load; the
caller numbers them. A sum says what an expression of n bits is modulo 2^n, and so nothing about whether it wraps:
`interval` and `extended` answer that, from what is known about the terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from vyre_cuda.records import FrozenRecord

# The least and the greatest integer that a term can be.
Interval: TypeAlias = tuple[int, int]


class Affine(FrozenRecord):
    """constant + the sum of coefficient * term, modulo 2^bits.

    `terms` has (term, coefficient), ascending; the coefficients are from 1 to 2^bits - 1, the constant from 0. So sums
    that are equal for all terms are equal objects, and an object is its own key.
    """

    bits: int
    terms: tuple[tuple[int, int], ...]
    constant: int

    def __add__(self, other: Affine) -> Affine:
        return self._plus(other, 1)

    def __sub__(self, other: Affine) -> Affine:
        return self._plus(other, -1)

    def __mul__(self, factor: int) -> Affine:
        mask = (1 << self.bits) - 1
        terms = tuple([(term, coefficient * factor & mask) for term, coefficient in self.terms])
        if not factor & 1:  # an odd one keeps all terms
            terms = tuple([product for product in terms if product[1]])
        return Affine(self.bits, terms, self.constant * factor & mask)

    def __lshift__(self, count: int) -> Affine:
        return self * (1 << count)

    def __neg__(self) -> Affine:
        return self * -1

    def _plus(self, other: Affine, factor: int) -> Affine:
        if not other.terms:
            constant = self.constant + factor * other.constant
            return Affine(self.bits, self.terms, constant & ((1 << self.bits) - 1))
        if factor == 1 and (not self.terms or self.terms[-1][0] < other.terms[0][0]):  # none in common
            mask = (1 << self.bits) - 1
            return Affine(self.bits, self.terms + other.terms, self.constant + other.constant & mask)
        sums = dict(self.terms)
        for term, coefficient in other.terms:
            sums[term] = sums.get(term, 0) + factor * coefficient
        return affine(self.bits, sums.items(), self.constant + factor * other.constant)

    # ---- questions ----

    def coefficient(self, term: int) -> int:
        """The coefficient of a term, 0 if it does not occur."""
        return dict(self.terms).get(term, 0)

    def evaluate(self, values: Mapping[int, int]) -> int:
        """The residue, from 0 to 2^bits - 1, where the terms are these integers."""
        total = self.constant + sum(coefficient * values[term] for term, coefficient in self.terms)
        return total % (1 << self.bits)

    def distance(self, other: Affine) -> int | None:
        """self - other, from -2^(bits - 1) on; None if that depends on a term."""
        rest = self - other
        return None if rest.terms else _centered(rest.constant, rest.bits)

    def replaced(self, term: int, by: Affine) -> Affine:
        """With a sum in place of a term, which must be the term modulo 2^bits."""
        coefficient = self.coefficient(term)
        return self + (by - single(self.bits, term)) * coefficient if coefficient else self

    def within_block(self, count: int, multiple: Callable[[int], int] = lambda _: 1) -> tuple[Affine, int] | None:
        """The greatest multiple of `count` that is not above it, and how far above that it is; None if that differs.

        `count` is a power of 2 below 2^bits, and each term is a multiple of `multiple` of it, a power of 2 up to
        2^bits. The two are so as exact numbers, signed or not, because a multiple of `count` has room for `count`
        numbers before the next one.
        """
        if any(coefficient * multiple(term) % count for term, coefficient in self.terms):
            return None
        above = self.constant % count
        return Affine(self.bits, self.terms, self.constant - above), above

    def without(self, left_out: Callable[[int, int], bool]) -> Affine:
        """The sum of the constant and those terms for which this, called with term and coefficient, is false."""
        return Affine(self.bits, tuple([each for each in self.terms if not left_out(*each)]), self.constant)

    # ---- wrapping ----

    def interval(self, of: Callable[[int], Interval], *, signed: bool = False) -> Interval:
        """What the expression, read as a signed or an unsigned number, can be; the whole type if it may wrap.

        Both ends are reached if it cannot wrap and the terms do not depend on each other.
        """
        window = self._window(of, signed)
        if window is None:
            half = 1 << (self.bits - 1)
            return (-half, half - 1) if signed else (0, 2 * half - 1)
        low, high, turns = window
        return low - turns, high - turns

    def extended(self, bits: int, of: Callable[[int], Interval], *, signed: bool = False) -> Affine | None:
        """The expression, read as a signed or an unsigned number, in more bits; None if it may wrap."""
        window = self._window(of, signed)
        if window is None:
            return None
        terms = ((term, _centered(coefficient, self.bits)) for term, coefficient in self.terms)
        return affine(bits, terms, _centered(self.constant, self.bits) - window[2])

    def _window(self, of: Callable[[int], Interval], signed: bool) -> tuple[int, int, int] | None:
        """The ends of the exact sum with coefficients around 0, and the multiple of 2^bits between it and the number;
        None if that is not the same everywhere.
        """
        low = high = _centered(self.constant, self.bits)
        for term, coefficient in self.terms:
            factor = _centered(coefficient, self.bits)
            ends = of(term)
            low += factor * ends[factor < 0]
            high += factor * ends[factor > 0]
        half = 1 << (self.bits - 1)
        offset = half if signed else 0
        turns = (low + offset) >> self.bits
        return (low, high, turns << self.bits) if (high + offset) >> self.bits == turns else None


def affine(bits: int, terms: Iterable[tuple[int, int]], constant: int) -> Affine:
    """The sum of these; each term at most once, coefficients and constant any integers."""
    mask = (1 << bits) - 1
    reduced = [(term, coefficient & mask) for term, coefficient in terms if coefficient & mask]
    if len(reduced) > 1:
        reduced.sort()
    return Affine(bits, tuple(reduced), constant & mask)


def number(bits: int, value: int) -> Affine:
    """A sum without terms."""
    return Affine(bits, (), value & ((1 << bits) - 1))


def single(bits: int, term: int) -> Affine:
    """A term alone."""
    return Affine(bits, ((term, 1),), 0)


def _centered(residue: int, bits: int) -> int:
    """The integer of least magnitude with this residue."""
    return residue - (1 << bits) if residue >> (bits - 1) else residue
