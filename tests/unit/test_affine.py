"""Sums modulo 2^n against plain integers: few bits and short intervals, so that every case is tried and many wrap."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre_cuda.ir.affine import Affine, affine, number, single

BITS = st.integers(2, 5)
FACTORS = st.integers(-40, 40)
TERMS = (3, 7, 11)


@st.composite
def sums(draw: st.DrawFn, bits: int | None = None) -> Affine:
    width = bits if bits is not None else draw(BITS)
    chosen = draw(st.lists(st.sampled_from(TERMS), unique=True, max_size=3))
    return affine(width, [(term, draw(FACTORS)) for term in chosen], draw(FACTORS))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Affine, Affine]:
    bits = draw(BITS)
    return draw(sums(bits)), draw(sums(bits))


@st.composite
def intervals(draw: st.DrawFn) -> dict[int, tuple[int, int]]:
    found = {}
    for term in TERMS:
        low = draw(st.integers(-9, 20))
        found[term] = (low, low + draw(st.integers(0, 4)))
    return found


def values(within: dict[int, tuple[int, int]]) -> list[dict[int, int]]:
    every = product(*(range(low, high + 1) for low, high in within.values()))
    return [dict(zip(within, chosen, strict=True)) for chosen in every]


ANY = values(dict.fromkeys(TERMS, (-1, 1)))


def exact(residue: int, bits: int, signed: bool) -> int:
    return residue - (1 << bits) if signed and residue >> (bits - 1) else residue


@given(pairs(), FACTORS, st.integers(0, 6))
def test_operations_are_those_of_integers_modulo_2_to_the_n(both: tuple[Affine, Affine], by: int, count: int) -> None:
    a, b = both
    for v in ANY:
        x, y, modulus = a.evaluate(v), b.evaluate(v), 1 << a.bits
        assert (a + b).evaluate(v) == (x + y) % modulus
        assert (a - b).evaluate(v) == (x - y) % modulus
        assert (a * by).evaluate(v) == x * by % modulus
        assert (a << count).evaluate(v) == (x << count) % modulus
        assert (-a).evaluate(v) == -x % modulus


@given(pairs())
def test_equal_objects_are_the_sums_that_are_equal_everywhere(both: tuple[Affine, Affine]) -> None:
    a, b = both
    same = all(a.evaluate(v) == b.evaluate(v) for v in values(dict.fromkeys(TERMS, (0, 1))))

    assert (a == b) is same
    assert hash(a + b) == hash(b + a)
    assert a + b - b == a


@given(pairs())
def test_a_distance_is_told_where_it_is_the_same_everywhere(both: tuple[Affine, Affine]) -> None:
    a, b = both
    apart = {(a.evaluate(v) - b.evaluate(v)) % (1 << a.bits) for v in values(dict.fromkeys(TERMS, (0, 1)))}
    distance = a.distance(b)

    assert (distance is not None) is (len(apart) == 1)
    if distance is not None:
        assert {distance % (1 << a.bits)} == apart
        assert -(1 << a.bits - 1) <= distance < 1 << a.bits - 1


@given(pairs())
def test_a_sum_takes_the_place_of_a_term(both: tuple[Affine, Affine]) -> None:
    a, by = both
    for v in ANY:
        assert a.replaced(3, by).evaluate(v) == a.evaluate({**v, 3: by.evaluate(v)})


@given(sums(), intervals(), st.booleans())
def test_an_interval_holds_and_is_reached_where_nothing_wraps(
    a: Affine, within: dict[int, tuple[int, int]], signed: bool
) -> None:
    low, high = a.interval(within.__getitem__, signed=signed)
    found = [exact(a.evaluate(v), a.bits, signed) for v in values(within)]

    assert low <= min(found)
    assert max(found) <= high
    if a.extended(64, within.__getitem__, signed=signed) is not None:
        assert (low, high) == (min(found), max(found))


@given(sums(), intervals(), st.booleans())
def test_an_extended_sum_is_the_same_number(a: Affine, within: dict[int, tuple[int, int]], signed: bool) -> None:
    wide = a.extended(9, within.__getitem__, signed=signed)

    for v in values(within) if wide is not None else ():
        assert exact(wide.evaluate(v), 9, signed) == exact(a.evaluate(v), a.bits, signed)


@pytest.mark.parametrize(
    ("most", "signed", "expected"),
    [(3, False, (0, 12)), (4, False, (0, 15)), (3, True, (-8, 7)), (1, True, (0, 4))],
)
def test_four_times_a_term_wraps_in_four_bits_where_it_does_not_fit(
    most: int, signed: bool, expected: tuple[int, int]
) -> None:
    assert (single(4, 1) * 4).interval(lambda _: (0, most), signed=signed) == expected


def test_what_is_below_zero_everywhere_is_a_large_unsigned_number() -> None:
    below = single(8, 1) - number(8, 10)

    assert below.interval(lambda _: (0, 9)) == (246, 255)
    assert below.interval(lambda _: (0, 10)) == (0, 255)
    assert below.interval(lambda _: (0, 10), signed=True) == (-10, 0)


@given(made=sums(), within=intervals(), count=st.sampled_from((2, 4, 8, 16)), multiple=st.sampled_from((1, 2, 4)))
def test_the_block_of_a_sum_begins_at_a_multiple_whatever_the_terms_are(
    made: Affine, within: dict[int, tuple[int, int]], count: int, multiple: int
) -> None:
    if count >= 1 << made.bits:
        return
    found = made.within_block(count, lambda _: multiple)
    terms = [{term: value * multiple for term, value in each.items()} for each in values(within)]

    if found is not None:
        assert {made.evaluate(each) % count for each in terms} == {found[1]}
        for each in terms:
            assert made.evaluate(each) == found[0].evaluate(each) + found[1]  # without wrapping
