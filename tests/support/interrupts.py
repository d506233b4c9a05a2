"""Ctrl-C at every moment of a piece of work: wherever Python would look for signals, one place after the other.

It looks when a function is entered, and when one that is written in C has returned; a profile function is called at
both, and what it raises is raised there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from uncollected import uncollected


class _Interrupt:
    """Raises KeyboardInterrupt at the n-th of those places."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_return") and argument is not sys.setprofile:
            self.left -= 1
            if self.left == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt


def interrupted(work: Callable[[], object]) -> Iterator[int]:
    """Run `work` until it has once come to its end, each time with Ctrl-C one place later; gives the number of the
    place after each run that it ended."""
    place = 0
    while True:
        place += 1
        with uncollected():  # what the collector calls lets nothing be raised
            is_interrupted = _is_interrupted(work, place)
        if not is_interrupted:
            return
        yield place


def _is_interrupted(work: Callable[[], object], place: int) -> bool:
    before = sys.getprofile()
    sys.setprofile(_Interrupt(place))
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(before)
    return False
