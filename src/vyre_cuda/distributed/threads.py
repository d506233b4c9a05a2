"""A thread for each device of a group of one process, for calls that NCCL may keep until the others make theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor


class Threads:
    """Runs calls side by side: the first in the calling thread, the others in threads that stay."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._pool: ThreadPoolExecutor | None = None  # none for one device

    def run(self, calls: Sequence[Callable[[], None]]) -> None:
        """Returns when all have; raises the error of the first that has one."""
        if self._pool is None and self._size > 1:
            self._pool = ThreadPoolExecutor(self._size - 1, "vyre_cuda device")
        others = [] if self._pool is None else [self._pool.submit(call) for call in calls[1:]]
        failures: list[BaseException] = []
        for result in (calls[0], *(other.result for other in others)):
            try:
                result()
            except BaseException as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
