"""Neighbors that a thread could access at once and that stay one by one."""

from __future__ import annotations

import pytest

from .vector_programs import text_of

ATOMIC = "atomic add y[i], f32:1.0 order relaxed scope device"


@pytest.mark.parametrize(
    "between",
    (
        "store y[load(at[i])], f32:1.0",
        ATOMIC,
        "barrier",
        "let w = warp ballot greater(a, f32:1.0)",
        "store y[j], f32:2.0",
    ),
)
def test_loads_are_not_moved_over_what_may_change_them(between: str) -> None:
    body = f"let a = load(y[i])\n{between}\nlet b = load(y[j])\nstore z[i], add(a, b)"

    assert "ld.global.v2" not in text_of(body)
    assert "ld.global.v2" in text_of(body.replace(between + "\n", ""))


@pytest.mark.parametrize(
    "between", ("let a = load(y[load(at[i])])\nstore z[j], a", "store y[load(at[i])], f32:1.0", "barrier")
)
def test_stores_are_not_moved_over_what_may_see_them(between: str) -> None:
    body = f"store y[i], f32:3.0\n{between}\nstore y[j], f32:4.0"

    assert "st.global.v2" not in text_of(body)
    assert "st.global.v2" in text_of(body.replace(between, "let a = load(x[i])"))


def test_stores_to_other_elements_and_other_arrays_do_not_matter() -> None:
    text = text_of("store y[i], load(x[i])\nstore z[i], f32:1.0\nstore y[j], load(x[j])\nstore z[j], f32:2.0")

    assert text.count("ld.global.v2") == 1
    assert text.count("st.global.v2") == 2


def test_what_all_threads_access_needs_no_second_form() -> None:
    assert ".v2" not in text_of("store y[global_id.x], add(load(x[u32:0]), load(x[u32:1]))")


def test_shared_arrays_need_no_test_of_their_address() -> None:
    text = text_of(
        "let a = load(s[i])\nlet b = load(s[j])\nstore y[global_id.x], add(a, b)", header="shared s: f32[64]"
    )

    assert "ld.shared.v2.f32" in text
    assert "otherwise" not in text
