"""Options of compile with values that they cannot have are refused with what they can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc


def plain() -> vc.Program:
    b = vc.Builder("plain", block=32)
    x = b.inout("x", vc.f32)
    x[vc.global_id.x] = x[vc.global_id.x] + 1.0
    return b.build()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"precision": None}, r"precision=None; it must be one of ieee, ftz, fast"),
        ({"precision": ["ftz"]}, r"precision=\['ftz'\]; it must be one of ieee, ftz, fast"),
        ({"bounds": None}, r"bounds=None; it must be one of check, off, trap"),
        ({"bounds": False}, r"bounds=False; it must be one of check, off, trap"),
        ({"max_ulp": float("nan")}, r"max_ulp is NaN; it must be a number of ULP, or None"),
    ],
)
def test_an_option_that_is_no_word_of_its_own_is_refused_with_those_that_are(
    device: vc.Device, options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        device.compile(plain(), **options)
    with pytest.raises(ValueError, match=expected):
        vc.ptx(plain(), **options)


@pytest.mark.parametrize(("compiled", "wrong", "shown"), [(2, "2", "a str"), (1, True, "a bool")])
def test_a_bound_of_another_kind_finds_no_kernel_that_was_compiled_for_the_number(
    device: vc.Device, compiled: int, wrong: Any, shown: str
) -> None:
    device.compile(plain(), max_ulp=compiled)

    with pytest.raises(TypeError, match=f"max_ulp= is {shown}; it must be a number of ULP, or None"):
        device.compile(plain(), max_ulp=wrong)


def test_a_block_with_axes_is_refused_with_where_it_is_given(device: vc.Device) -> None:
    shape: Any = (16, 16)
    with pytest.raises(TypeError, match=r"block=\(16, 16\); .*where the program is built, by Builder\(block=\.\.\.\)"):
        device.compile(plain(), block=shape)


def test_a_block_may_be_a_number_of_numpy(device: vc.Device) -> None:
    threads: Any = np.int64(64)

    assert device.compile(plain(), block=threads) is device.compile(plain(), block=64)
