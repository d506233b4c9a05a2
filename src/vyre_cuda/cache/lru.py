"""A bounded mapping that drops the least recently used entries. Safe to use from many threads."""

from __future__ import annotations

from _thread import allocate_lock  # threading takes two milliseconds to import
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class LRU(Generic[V]):
    """At most `capacity` entries, and at most `max_bytes` if that is given.

    `changed` is called, outside any lock, with the change in entries and bytes, and how many were dropped for
    another.
    """

    def __init__(
        self, capacity: int, max_bytes: int | None = None, changed: Callable[[int, int, int], None] | None = None
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity={capacity}; it must be at least 1")
        self._capacity = capacity
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._bytes = 0
        self._changed = changed
        self._lock = allocate_lock()

    def get(self, key: Hashable) -> V | None:
        """The entry, now the most recently used, or None."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def setdefault(self, key: Hashable, value: V, nbytes: int = 0) -> V:
        """The entry that another thread stored first, else `value`, which is kept unless it alone is too large."""
        dropped: list[tuple[V, int]] = []  # released after the lock: destroying a value may take long
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key][0]
            if self._max_bytes is not None and nbytes > self._max_bytes:
                return value
            self._entries[key] = value, nbytes
            self._bytes += nbytes
            while self._is_over():
                dropped.append(self._entries.popitem(last=False)[1])
                self._bytes -= dropped[-1][1]
        if self._changed is not None:
            self._changed(1 - len(dropped), nbytes - sum(size for _, size in dropped), len(dropped))
        return value

    def _is_over(self) -> bool:
        return len(self._entries) > self._capacity or (self._max_bytes is not None and self._bytes > self._max_bytes)

    def clear(self) -> None:
        with self._lock:
            entries, self._entries = self._entries, OrderedDict()
            nbytes, self._bytes = self._bytes, 0
        if self._changed is not None:
            self._changed(-len(entries), -nbytes, 0)
        entries.clear()

    @property
    def nbytes(self) -> int:
        """The bytes of the entries, as given when they were stored."""
        with self._lock:
            return self._bytes

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)
