"""What `@vc.vectorize` refuses, where it is written or when its program is built."""

from __future__ import annotations

from typing import Any

import pytest

import vyre_cuda as vc


def test_parameters_and_the_result_need_types() -> None:
    with pytest.raises(vc.ProgramError, match=r"needs the type of its result: write def f\(...\) -> vc.f32"):

        @vc.vectorize
        def f(a: vc.f32): ...

    with pytest.raises(vc.ProgramError, match="b has no annotation"):

        @vc.vectorize
        def g(a: vc.f32, b) -> vc.f32: ...  # type: ignore[no-untyped-def]

    with pytest.raises(vc.ProgramError, match="a of a vectorized function is a number"):

        @vc.vectorize
        def h(a: vc.In[vc.f32]) -> vc.f32: ...

    with pytest.raises(vc.ProgramError, match="takes no numbers"):

        @vc.vectorize
        def k() -> vc.f32: ...


@vc.vectorize
def widened(a: vc.f32) -> vc.f32:
    return vc.f64(a)


@vc.vectorize
def nothing(a: vc.f32) -> vc.f32:
    a * 2


@vc.vectorize
def pair(a: vc.f32) -> vc.f32:
    return a, a


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (widened, r"widened returns f64, and its annotation says f32 \(write vc.f32\(...\)\).*: vc.f32\)"),
        (nothing, "nothing returns the Python value None, and its annotation says f32"),
        (pair, "pair returns the Python value"),
    ],
)
def test_another_result_than_the_annotation_says_is_an_error_at_the_annotation(function: Any, message: str) -> None:
    with pytest.raises(vc.ProgramError, match=message) as caught:
        function.program()
    assert caught.value.diagnostics[0].source[0] == __file__


def test_a_vectorized_function_says_what_it_is() -> None:
    assert repr(widened) == "<vyre_cuda.vectorize widened(a: f32) -> f32>"
    assert widened.__name__ == "widened"
