"""Bound calls while a second Python thread never stops computing: what other threads cost under the GIL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harness import programs
from harness.inputs import saxpy_sets
from harness.timing import Line
from harness.ways.base import Bench, SaxpyGroup


class Busy(SaxpyGroup):
    """The same calls as without the thread, on any core, as the thread needs one too."""

    ROWS = ("call_enqueue_same_busy", "call_enqueue_changed_busy")
    ONE_CORE = False

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench, programs.saxpy(), saxpy_sets(bench.seed, bench.counts))
        self.counts = self.counts.few_blocks()  # each drain waits for the other thread's turn to end

    def call_enqueue_same_busy(self, id: str) -> Line:
        with _busy_thread():
            return self.call_same(id)

    def call_enqueue_changed_busy(self, id: str) -> Line:
        with _busy_thread():
            return self.call_changed(id)


@contextmanager
def _busy_thread() -> Iterator[None]:
    running, stop = threading.Event(), threading.Event()

    def compute() -> None:
        running.set()
        total = 0
        while not stop.is_set():
            for number in range(1000):
                total += number * number

    thread = threading.Thread(target=compute)
    thread.start()
    running.wait()
    try:
        yield
    finally:
        stop.set()
        thread.join()
