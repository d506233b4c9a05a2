"""Calls that threads make at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor


def side_by_side(calls: Sequence[Callable[[], object]]) -> None:
    """All of them at once; when all have ended, the exception of the first that failed."""
    with ThreadPoolExecutor(len(calls)) as pool:
        begun = [pool.submit(call) for call in calls]
    for each in begun:
        each.result()
