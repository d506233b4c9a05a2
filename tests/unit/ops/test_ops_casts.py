"""Casts among all thirteen types against exact conversion, and bitcasts against the bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vyre_cuda.ir.core.types import FLOATS, INTEGERS, NUMBERS, TYPES, Type, bf16, f16, f32, f64, i64, u64
from vyre_cuda.testing.conformance import Count

from . import exact
from .grid import Array, assert_equal, computed, operands

pytestmark = pytest.mark.conformance


def inputs(source: Type) -> Array:
    (values,) = operands((source,), random=1500)
    return np.concatenate([values[::29], values[-3:]]) if values.size > 9999 else values


@pytest.mark.thin
@pytest.mark.parametrize(("source", "target"), list(itertools.product(TYPES, TYPES)), ids=str)
def test_cast_equals_exact_conversion(source: Type, target: Type, count_interpreter: Count) -> None:
    values = inputs(source)
    numbers = exact.values(source, values)
    expected = exact.array(target, [exact.converted(number, source, target) for number in numbers])

    assert_equal(target, expected, computed("cast", (source,), [values], target), [values])
    count_interpreter("casts", source.name, target.name, values.size)


NARROWING = [(f64, f32), (f64, f16), (f64, bf16), (f32, f16), (f32, bf16), *itertools.product((u64, i64), FLOATS)]


@pytest.mark.thin(4)
@pytest.mark.parametrize(("source", "target"), NARROWING, ids=str)
def test_cast_to_a_narrower_float_rounds_once(source: Type, target: Type, count_interpreter: Count) -> None:
    """Values next to halfway between two of the target: an intermediate rounding would make ties of them."""
    rng = np.random.default_rng(11)
    digits = {f16: 11, bf16: 8, f32: 24, f64: 53}[target]
    room = {f64: 53, f32: 24, u64: 64, i64: 63}[source] - digits - 2
    if source.is_integer and target is f16:
        room = 3  # up to 2^15, f16 ends at 2^16
    lead = (rng.integers(1 << (digits - 1), 1 << digits, 500) * 2 + 1).tolist()
    near = [(value << room) + side for value in lead for side in (-1, 0, 1)]
    numbers = [value * 2.0 ** (-digits - room) if source.is_float else value for value in near]
    values = exact.array(source, numbers)
    expected = exact.array(target, [exact.converted(number, source, target) for number in numbers])

    assert_equal(target, expected, computed("cast", (source,), [values], target), [values])
    count_interpreter("casts", source.name, target.name, values.size)


@pytest.mark.parametrize(("source", "target"), list(itertools.product((f64, f32), (f16, bf16))), ids=str)
def test_cast_to_subnormals_and_to_infinity_rounds_once(source: Type, target: Type) -> None:
    least, most = {f16: (-24, 15), bf16: (-133, 127)}[target]
    digits = {f16: 11, bf16: 8}[target]
    halves = np.ldexp(np.arange(0.0, 70.0), least - 1)
    largest = np.ldexp(2.0 - np.ldexp(1.0, -digits), most)  # halfway between the largest and infinity
    middle = np.concatenate([halves, [largest]]).astype(source.storage)
    around = [np.nextafter(middle, source.storage.type(end)) for end in (-np.inf, np.inf)]
    values = np.concatenate([middle, *around])
    values = np.concatenate([values, -values])
    expected = exact.array(target, [exact.converted(v, source, target) for v in exact.values(source, values)])

    assert_equal(target, expected, computed("cast", (source,), [values], target), [values])


@pytest.mark.parametrize(("source", "target"), list(itertools.product(FLOATS, INTEGERS)), ids=str)
def test_cast_saturates_next_to_the_ends_of_the_type(source: Type, target: Type) -> None:
    ends = [float(target.minimum), float(target.maximum), float(target.maximum + 1), -1.0, 0.0]
    wide = np.array([end + d for end in ends for d in (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0)])
    (values,) = [computed("cast", (f64,), [wide], source)]
    expected = [exact.converted(v, source, target) for v in exact.values(source, values)]

    found = computed("cast", (source,), [values], target)

    assert expected == found.tolist()


@pytest.mark.parametrize(("source", "target"), [(s, t) for s in NUMBERS for t in NUMBERS if s.bits == t.bits], ids=str)
def test_bitcast_keeps_bits(source: Type, target: Type, count_interpreter: Count) -> None:
    values = inputs(source)
    numbers = np.array(exact.values(source, values))
    values = values[numbers == numbers]

    found = computed("bitcast", (source,), [values], target)

    assert found.dtype == target.storage
    assert values.tobytes() == found.tobytes()
    count_interpreter("bitcasts", source.name, target.name, values.size)
