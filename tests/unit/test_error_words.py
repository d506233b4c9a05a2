"""The words that error messages share."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_cuda.errors import counted, type_name


@pytest.mark.parametrize(
    ("number", "words", "expected"),
    [
        (0, ("element",), "0 elements"),
        (1, ("element",), "1 element"),
        (2, ("element",), "2 elements"),
        (1, ("axis", "axes"), "1 axis"),
        (3, ("axis", "axes"), "3 axes"),
        (np.int64(1), ("byte",), "1 byte"),
    ],
)
def test_a_noun_goes_with_its_number(number: int, words: tuple[str, ...], expected: str) -> None:
    assert counted(number, *words) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(1, "an int"), ("", "a str"), (None, "None"), (np.zeros(1), "an ndarray")]
)
def test_a_type_has_its_article(value: object, expected: str) -> None:
    assert type_name(value) == expected
