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


sized = st.tuples(st.integers(0, 8), st.integers(0, 12))


@given(capacity=st.integers(1, 5), most=st.integers(0, 20), entries=st.lists(sized, max_size=60))
def test_entries_are_kept_within_count_and_bytes(capacity: int, most: int, entries: list[tuple[int, int]]) -> None:
    changes: list[tuple[int, int, int]] = []
    cache: LRU[int] = LRU(capacity, most, lambda *change: changes.append(change))
    model: list[tuple[int, int]] = []
    expected_drops = 0
    for key, nbytes in entries:
        cache.setdefault(key, key, nbytes)
        known = [each for each in model if each[0] == key]
        if known:
            model = [each for each in model if each[0] != key] + known
        elif nbytes <= most:
            model.append((key, nbytes))
        while len(model) > capacity or sum(size for _, size in model) > most:
            model.pop(0)
            expected_drops += 1

        assert (len(cache), cache.nbytes) == (len(model), sum(size for _, size in model))
        assert [sum(column) for column in zip((0, 0, 0), *changes, strict=True)] == [
            len(cache),
            cache.nbytes,
            expected_drops,
        ]
    assert {key for key in range(9) if cache.get(key) is not None} == {key for key, _ in model}
    cache.clear()
    assert [sum(column) for column in zip((0, 0, 0), *changes, strict=True)] == [0, 0, expected_drops]


def test_an_entry_larger_than_all_is_given_back_and_drops_no_other() -> None:
    cache: LRU[str] = LRU(4, 10)
    cache.setdefault("a", "small", 4)

    assert cache.setdefault("b", "large", 11) == "large"
    assert (cache.get("a"), cache.get("b")) == ("small", None)


def test_a_value_ends_outside_of_the_lock() -> None:
    """The end of a kernel may look at the same cache."""
    cache: LRU[object] = LRU(1)

    class Looks:
        def __del__(self) -> None:
            cache.get("b")

    cache.setdefault("a", Looks())
    cache.setdefault("b", Looks())
    cache.clear()

    assert len(cache) == 0
