"""Awaiting a submitted call. Apart from `pending`, so that only those who await pay for importing asyncio."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

# Seconds between looks: the first, the factor to the next, the longest.
FIRST_LOOK = 50e-6
GROWTH = 1.5
LONGEST_LOOK = 2e-3


class Awaited(Protocol):
    """What is looked at."""

    def done(self) -> bool: ...

    def result(self) -> Any: ...


async def poll(pending: Awaited) -> Any:
    """The result, looking for it ever more rarely and leaving the loop to others meanwhile."""
    pause = FIRST_LOOK
    while not pending.done():
        await asyncio.sleep(pause)
        pause = min(pause * GROWTH, LONGEST_LOOK)
    return pending.result()
