"""The bounded mapping keeps what was used last."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre_cuda.cache.lru import LRU


@given(capacity=st.integers(1, 5), keys=st.lists(st.integers(0, 8), max_size=60))
def test_the_most_recently_used_entries_are_kept(capacity: int, keys: list[int]) -> None:
    cache: LRU[str] = LRU(capacity)
    recent: list[int] = []
    for key in keys:
        cache.setdefault(key, str(key))
        recent = [*(k for k in recent if k != key), key][-capacity:]

        assert [k for k in range(9) if k in recent] == [k for k in range(9) if _peek(cache, k)]
        assert len(cache) == len(recent)
        for k in recent:  # looking refreshed them in ascending order: restore the order of use
            cache.get(k)


def _peek(cache: LRU[str], key: int) -> bool:
    return cache.get(key) is not None


def test_the_first_value_of_a_key_stays() -> None:
    cache: LRU[str] = LRU(2)

    assert cache.setdefault("a", "first") == "first"
    assert cache.setdefault("a", "second") == "first"
    cache.clear()
    assert cache.get("a") is None


def test_a_capacity_below_one_is_refused() -> None:
    with pytest.raises(ValueError):
        LRU(0)
