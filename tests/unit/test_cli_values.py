"""Arguments as typed on the command line: what each form becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.cli.failures import UsageError
from vyre_cuda.cli.values import read_arguments
from vyre_cuda.testing.compare import assert_same

VALUES = {
    vc.f32: st.floats(width=32, allow_nan=False),
    vc.i32: st.integers(-(2**31), 2**31 - 1),
    vc.u32: st.integers(0, 2**32 - 1),
    vc.bool_: st.booleans(),
}
TYPES = pytest.mark.parametrize("type_", list(VALUES), ids=str)


def program(type_: vc.Type, *, scalar: bool = False) -> vc.Program:
    """One argument `x` of this type, and an out without a size."""
    b = vc.Builder("take")
    x = b.scalar("x", type_) if scalar else b.input("x", type_)
    out = b.output("out", type_)
    out[vc.global_id.x] = x if isinstance(x, vc.Value) else x[vc.global_id.x]
    return b.build()


def read(type_: vc.Type, text: str, *, scalar: bool = False, seed: int = 0) -> Any:
    return read_arguments(program(type_, scalar=scalar), [text], seed=seed).args[0]


@TYPES
@given(data=st.data())
def test_list_gives_exactly_its_elements(type_: vc.Type, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[type_]))

    assert_same(np.array(values, type_.dtype), read(type_, ",".join(map(str, values))))


@TYPES
@given(data=st.data())
def test_scalar_is_the_number(type_: vc.Type, data: st.DataObject) -> None:
    value = data.draw(VALUES[type_])

    assert read(type_, str(value), scalar=True) == value


@TYPES
@pytest.mark.parametrize("form", ["zeros", "ones"])
def test_constant_arrays(type_: vc.Type, form: str) -> None:
    assert_same(np.full(7, form == "ones", type_.dtype), read(type_, f"{form}:7"))


@pytest.mark.parametrize("type_", [vc.f32, vc.i32, vc.u32], ids=str)
def test_arange_counts(type_: vc.Type) -> None:
    assert_same(np.arange(9, dtype=type_.dtype), read(type_, "arange:9"))


@TYPES
def test_random_arrays_follow_the_seed(type_: vc.Type) -> None:
    first, again, other = (read(type_, "random:1000", seed=seed) for seed in (1, 1, 2))

    assert first.dtype == type_.dtype
    assert_same(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("type_", [vc.i32, vc.u32], ids=str)
def test_random_integers_cover_the_type(type_: vc.Type) -> None:
    drawn = read(type_, "random:1000").astype(np.float64)
    quarter = 2.0 ** (type_.bits - 2)

    assert drawn.min() < type_.minimum + quarter
    assert drawn.max() > type_.maximum - quarter


def test_random_arguments_differ_from_each_other() -> None:
    b = vc.Builder("two")
    b.input("x", vc.f32)
    b.input("y", vc.f32)

    x, y = read_arguments(b.build(), ["random:8", "random:8"], seed=0).args

    assert not np.array_equal(x, y)


@pytest.mark.parametrize("content", [b"", b"a", b"abcd", b"abcdefg"])
def test_bytes_of_a_file_are_padded_with_zeros(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(content)

    words = read(vc.u32, f"bytes:{path}")

    assert words.tobytes() == content + bytes(-len(content) % 4)


def test_npy_file_is_taken_as_it_is(tmp_path: Path) -> None:
    saved = np.arange(6, dtype=np.int32).reshape(2, 3)
    np.save(tmp_path / "x.npy", saved)

    assert_same(saved, read(vc.i32, str(tmp_path / "x.npy")))


def test_outs_are_given_by_name() -> None:
    given_ = read_arguments(program(vc.f32), ["x=1,2", "out=zeros:3"], seed=0)

    assert given_.args == []
    assert_same(np.array([1, 2], np.float32), given_.kwargs["x"])
    assert_same(np.zeros(3, np.float32), given_.outs["out"])


@pytest.mark.parametrize(
    ("type_", "scalar", "text"),
    [
        (vc.u32, True, "-"),
        (vc.u32, True, "1.5"),
        (vc.bool_, True, "2"),
        (vc.f32, True, "one"),
        (vc.u32, False, "1,-1"),
        (vc.i32, False, "2147483648"),
        (vc.f32, False, "1e39"),
        (vc.f32, False, "zeros:-1"),
        (vc.f32, False, "zeros:"),
        (vc.f32, False, "zeros:1.5"),
        (vc.f32, False, "eye:3"),
        (vc.bool_, False, "arange:2"),
        (vc.i32, False, "arange:2147483649"),
        (vc.f32, False, "nowhere.npy"),
        (vc.f32, False, "bytes:nowhere"),
        (vc.f32, False, "x=1,x=2"),
        (vc.f32, False, "y=1"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(type_: vc.Type, scalar: bool, text: str) -> None:
    with pytest.raises(UsageError):
        read_arguments(program(type_, scalar=scalar), [text], seed=0)


@pytest.mark.parametrize("text", ["f32[4]", "z.npz", "ones", "eye:3"])
def test_what_is_no_array_says_how_one_is_written(text: str) -> None:
    with pytest.raises(UsageError, match=r"x: .* is not an array; write PATH\.npy, 1,2,3, or one of "):
        read(vc.f32, text)


@pytest.mark.parametrize("text", ["nan", "-inf", "+3", ".5", "0x10"])
def test_one_number_is_an_array(text: str) -> None:
    assert read(vc.f32, text).size == 1


def test_npy_file_with_objects_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}]), allow_pickle=True)

    with pytest.raises(UsageError):
        read(vc.f32, str(tmp_path / "x.npy"))
