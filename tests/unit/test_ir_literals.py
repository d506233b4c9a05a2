"""Literals: what each means, rounded once, printed so that it is read back, and refused with its line."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.core.nodes import Const, Let
from vyre_cuda.ir.core.scalars import value_of
from vyre_cuda.ir.core.types import FLOATS, Type, f32
from vyre_cuda.ir.read.parse import parse
from vyre_cuda.ir.text.literals import format_literal, parse_literal
from vyre_cuda.testing.edges import bit_patterns


def bits_of_literal(text: str) -> int:
    (statement,) = parse(f"program p\nlet v = {text}").body
    assert isinstance(statement, Let)
    assert isinstance(statement.value, Const)
    return statement.value.bits


def nearest_even(exact: Fraction) -> int:
    """The bits of the float32 nearest to a positive number, found by search."""
    low, high = 0, 0x7F800000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if Fraction(value_of(f32, middle)) <= exact else (low, middle)
    below = Fraction(value_of(f32, low))
    above = Fraction(value_of(f32, high)) if high < 0x7F800000 else Fraction(2) ** 128
    if exact - below == above - exact:
        return low if low % 2 == 0 else high
    return low if exact - below < above - exact else high


@given(st.integers(0, 0x7F7FFFFE), st.integers(-3, 3), st.integers(20, 90))
def test_decimal_near_the_middle_of_two_floats_is_rounded_once(bits: int, nudge: int, digits: int) -> None:
    middle = (Fraction(value_of(f32, bits)) + Fraction(value_of(f32, bits + 1))) / 2
    scale = 10 ** (digits + max(0, -math.floor(math.log10(middle))))
    scaled = round(middle * scale) + nudge
    text = f"{scaled}e-{len(str(scale)) - 1}"
    exact = Fraction(scaled, scale)

    assume(len(f"f32:{text}") <= 128)  # the longest literal
    assert bits_of_literal(f"f32:{text}") == nearest_even(exact)


def test_literal_just_below_the_overflow_threshold_is_the_largest() -> None:
    threshold = 2**128 - 2**103

    assert bits_of_literal(f"f32:{threshold - 1}") == 0x7F7FFFFF


@pytest.mark.parametrize(
    "text, bits",
    [
        ("u32:4294967295", 2**32 - 1),
        ("i32:-2147483648", 2**31),
        ("f32:1", 0x3F800000),
        ("f32:-inf", 0xFF800000),
        ("f32:nan", 0x7FC00000),
        ("f32:bits(0x80000000)", 0x80000000),
        ("f32:1e-999999999", 0),
        ("i8:-128", 0x80),
        ("u64:18446744073709551615", 2**64 - 1),
        ("f16:65519.99", 0x7BFF),
        ("f16:1e-8", 0),
        ("f16:nan", 0x7E00),
        ("bf16:1.00390625", 0x3F80),
        ("bf16:1.00390625000000000000000001", 0x3F81),
        ("bf16:-inf", 0xFF80),
        ("f64:0.1", 0x3FB999999999999A),
        ("f64:-0.0", 1 << 63),
        ("bool_:false", 0),
    ],
)
def test_literal_means(text: str, bits: int) -> None:
    assert bits_of_literal(text) == bits


@pytest.mark.parametrize(
    "text",
    [
        "u32:4294967296",
        "u32:-1",
        "i32:2147483648",
        "i32:1.5",
        "u32:0x10",
        "u32:true",
        "u32:nan",
        "f32:3.4028236e38",
        "f32:1e999999999",
        "f32:bits(0x1ffffffff)",
        "f32:.5",
        "f32:true",
        "bool_:1",
        "u32: 7",
        "u32:" + "9" * 200,
        "u128:1",
        "u8:256",
        "i8:-129",
        "i64:9223372036854775808",
        "u64:-1",
        "f16:65520",
        "bf16:3.4e38",
        "f64:1e309",
        "bf16:bits(0x10000)",
        "7",
    ],
)
def test_literal_is_refused(text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(f"program p\nlet v = {text}")

    assert [diagnostic.source for diagnostic in caught.value.diagnostics] == [("<text>", 2)]


@pytest.mark.parametrize("type_", FLOATS, ids=str)
@given(data=st.data())
def test_every_float_is_printed_so_that_it_is_read_back(type_: Type, data: st.DataObject) -> None:
    bits = data.draw(bit_patterns(type_))

    assert parse_literal(type_, format_literal(type_, bits)) == bits


def test_float_literals_agree_with_numpy() -> None:
    for value in np.array([0.1, 1 / 3, 1e-40, 3.4e38, 16777217.0], np.float32):
        assert bits_of_literal(f"f32:{value}") == int(value.view(np.uint32))
