"""Work that stops at some seeds, for the tests of what watches it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

SLEEPS, DIES, FAILS, CANNOT_GO_ON, IS_SLOW = 7, 60, 70, 80, 90
LONG = 1e6  # seconds: longer than any limit


def stops_at(tell: Callable[[str], None], step: str) -> None:
    """As if this step had begun long ago, so that no test has to wait for a limit."""
    now: Any = tell.__self__  # type: ignore[attr-defined]  # a method of Now
    now.tell(step, time.monotonic() - LONG)


class Stopping:
    """At one seed it sleeps for ever, and at one it dies, the first time only."""

    def __init__(self, folder: str, _: Callable[[str], None]) -> None:
        self._folder = Path(folder)
        self._looked, self._goes_on = threading.Event(), threading.Event()
        self._is_slow = False

    def _is_first(self, seed: int) -> bool:
        marker = self._folder / f"seen-{seed}"
        is_first = not marker.exists()
        marker.touch()
        return is_first

    def one(self, seed: int, tell: Callable[[str], None]) -> tuple[Counter[str], str, bool]:
        tell("works")
        if seed in (SLEEPS, DIES, IS_SLOW) and self._is_first(seed):
            if seed == DIES:
                print("this is the end", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            self._is_slow = seed == IS_SLOW
            stops_at(tell, "sleeps")
            self._looked.wait()
            if seed == SLEEPS:
                threading.Event().wait()
            tell("goes on")
            self._goes_on.set()
        why = "it differs" if seed in (FAILS, CANNOT_GO_ON) else ""
        return Counter(seeds=1, odd=seed % 2), why, seed != CANNOT_GO_ON

    def look(self, write: Callable[[str], None]) -> None:
        write("this thread still runs")
        self._looked.set()
        if self._is_slow:
            self._goes_on.wait()  # so that it is seen, however long that takes
        write("looked")


class Sleeping:
    """All of it sleeps for ever; a file of the folder is named by its number."""

    def __init__(self, folder: str, _: Callable[[str], None]) -> None:
        self._folder = Path(folder)

    def one(self, seed: int, _: Callable[[str], None]) -> tuple[Counter[str], str, bool]:
        (self._folder / f"{os.getpid()}").touch()
        threading.Event().wait()
        raise AssertionError(seed)

    def look(self, write: Callable[[str], None]) -> None:
        write("looked")


class Unable:
    """It cannot even begin."""

    def __init__(self, folder: str, _: Callable[[str], None]) -> None:
        raise OSError(f"nothing can begin in {folder}")


def sleep_in(folder: str) -> None:
    """For a pool of processes."""
    Sleeping(folder, print).one(0, print)
