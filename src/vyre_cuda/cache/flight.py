"""One computation of a key at a time: who comes while it runs waits for its result.

No lock is held while anything is computed. What fails, fails for its own caller alone; who waited tries by himself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class _Flight(Generic[V]):
    """A computation that runs. `result` has its value once it has ended well."""

    __slots__ = ("ended", "process", "result", "thread")

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.process = os.getpid()
        self.thread = threading.get_ident()
        self.result: list[V] = []


class SingleFlight(Generic[V]):
    """What is computed at this moment, by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[Hashable, _Flight[V]] = {}

    def run(self, key: Hashable, make: Callable[[], V]) -> V:
        """What `make` gives, or gave another thread that was at it already."""
        while True:
            with self._lock:
                flight = self._flights.get(key)
                if flight is None or flight.process != os.getpid():  # a forked child has none of the threads
                    flight = self._flights[key] = _Flight()
                    break
            if flight.thread == threading.get_ident():
                return make()  # from within itself, as by a signal handler: nobody else would end it
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
