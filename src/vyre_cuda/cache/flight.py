"""One computation per key at a time: whoever asks while it runs waits for its result.

No lock is held while anything is computed. A failure affects only its own caller; those that waited try themselves.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class _Flight(Generic[V]):
    """A running computation. `result` holds its value once it has succeeded."""

    __slots__ = ("ended", "process", "result", "thread")

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.process = os.getpid()
        self.thread = threading.get_ident()
        self.result: list[V] = []


class SingleFlight(Generic[V]):
    """The running computations, by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[Hashable, _Flight[V]] = {}

    def run(self, key: Hashable, make: Callable[[], V]) -> V:
        """The result of `make`, or that of another thread that was already computing it."""
        while True:
            with self._lock:
                flight = self._flights.get(key)
                if flight is None or flight.process != os.getpid():  # a forked child has none of the threads
                    flight = self._flights[key] = _Flight()
                    break
            if flight.thread == threading.get_ident():
                return make()  # from within itself, for example in a signal handler: nobody else would finish it
            flight.ended.wait()
            if flight.result:
                return flight.result[0]
        try:
            flight.result.append(make())
            return flight.result[0]
        finally:
            with self._lock:
                if self._flights.get(key) is flight:
                    del self._flights[key]
            flight.ended.set()
