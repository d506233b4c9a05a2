"""Types as values: names, dtypes, ranges, copies."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.scalars import bits_of, value_of
from vyre_cuda.ir.core.types import BY_CODE, BY_NAME, TYPES, Type, by_dtype


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_a_type_is_found_by_name_code_and_dtype(type_: Type) -> None:
    assert BY_NAME[type_.name] is type_
    assert BY_CODE[type_.code] is type_
    assert by_dtype(type_.dtype) is type_
    assert type_.dtype.itemsize == type_.itemsize


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_copies_of_a_type_are_the_type(type_: Type) -> None:
    assert pickle.loads(pickle.dumps(type_)) is type_
    assert copy.deepcopy(type_) is type_


def test_a_program_survives_pickling() -> None:
    b = vc.Builder("copied")
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    out[vc.global_id.x] = x[vc.global_id.x] + 1
    program = b.build()

    again = pickle.loads(pickle.dumps(program))

    assert again == program
    assert again.fingerprint == program.fingerprint
    np.testing.assert_array_equal([2, 3], vc.evaluate(again, np.array([1, 2], np.float32)))


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_bits_and_values_are_inverse(type_: Type) -> None:
    for bits in (0, 1, (1 << type_.bits) - 1, 1 << (type_.bits - 1)):
        value = value_of(type_, bits)
        if value == value:  # not NaN
            assert bits_of(type_, value) == bits


@pytest.mark.parametrize(
    ("error", "type_", "value"),
    [
        (OverflowError, vc.u32, -1),
        (OverflowError, vc.u32, 2**32),
        (OverflowError, vc.i32, 2**31),
        (OverflowError, vc.f32, 1e39),
        (OverflowError, vc.f32, 10**400),
        (TypeError, vc.u32, 1.0),
        (TypeError, vc.bool_, 1),
        (TypeError, vc.f32, True),
        (TypeError, vc.f32, "1"),
        (TypeError, vc.f32, np.float64(0.1)),
        (OverflowError, vc.u32, np.int32(-1)),
    ],
)
def test_numbers_that_a_type_does_not_take(error: type[Exception], type_: Type, value: object) -> None:
    with pytest.raises(error):
        bits_of(type_, value)


def test_ints_round_once_to_nearest_even() -> None:
    assert value_of(vc.f32, bits_of(vc.f32, 2**24 + 1)) == 2**24
    assert value_of(vc.f32, bits_of(vc.f32, 2**24 + 3)) == 2**24 + 4
    assert value_of(vc.f32, bits_of(vc.f32, 2**60 + 2**36 + 1)) == 2**60 + 2**37
    assert value_of(vc.f32, bits_of(vc.f32, float("inf"))) == float("inf")
