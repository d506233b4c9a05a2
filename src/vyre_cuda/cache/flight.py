"""One computation per key at a time: whoever asks while it runs waits for its result.

No lock is held while anything is computed. A failure affects only its own caller; those that waited try themselves.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, get_ident  # threading takes two milliseconds to import
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class _Flight(Generic[V]):
    """A computation. Its thread has the lock while it runs, so it ends wherever Ctrl-C comes; `result` holds its value
    once it has succeeded."""

    __slots__ = ("lock", "process", "result", "thread")

    def __init__(self) -> None:
        self.lock = allocate_lock()
        self.process = os.getpid()
        self.thread = get_ident()
        self.result: list[V] = []

    def runs(self) -> bool:
        """Not in a forked child, which has none of the threads."""
        return self.process == os.getpid() and self.lock.locked()


class SingleFlight(Generic[V]):
    """The running computations, by key."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._flights: dict[Hashable, _Flight[V]] = {}

    def run(self, key: Hashable, make: Callable[[], V]) -> V:
        """The result of `make`, or that of another thread that was already computing it."""
        own: _Flight[V] = _Flight()
        while True:
            with own.lock:
                flight = self._running(key, own)
                if flight is own:
                    return self._made(key, own, make)
            if flight.thread == own.thread:
                return make()  # from within itself, for example in a signal handler: nobody else would finish it
            with flight.lock:
                pass
            if flight.result:
                return flight.result[0]

    def _running(self, key: Hashable, own: _Flight[V]) -> _Flight[V]:
        """The one that runs, which is the caller's if there was none."""
        with self._lock:
            flight = self._flights.get(key)
            if flight is None or not flight.runs():
                flight = self._flights[key] = own
            return flight

    def _made(self, key: Hashable, own: _Flight[V], make: Callable[[], V]) -> V:
        try:
            own.result.append(make())
            return own.result[0]
        finally:
            with self._lock:
                if self._flights.get(key) is own:
                    del self._flights[key]
