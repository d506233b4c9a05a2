"""Awaiting a submitted call. Apart from `pending`, so that only those who await pay for importing asyncio.

Going through the waiter takes a sleep of its thread, its wake-up and that of the loop: 200 us or more, however short
the run. So the loop polls by itself, between its other work, for as long as a call would spin.
"""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import Any, Protocol

from vyre_cuda._native.call.ticket import Ticket
from vyre_cuda._native.core.context import Event
from vyre_cuda.runtime.waiting.completion_thread import Waiter, Waiting

# Nanoseconds for which the loop polls, once in each of its iterations.
LOOKS_NS = 200_000


class Awaited(Protocol):
    """Something that can be waited for."""

    def done(self) -> bool: ...

    def result(self) -> Any: ...


class _Reached:
    """An event that can be waited for."""

    def __init__(self, event: Event) -> None:
        self.done = event.query
        self.result = event.synchronize


async def event(awaited: Event, waiter: Waiter) -> None:
    """Wait until the event has been reached. Raises the error of work before it."""
    await wait(_Reached(awaited), awaited, waiter)


async def wait(pending: Awaited, ticket: Ticket | Event, waiter: Waiter) -> Any:
    """The result. While the loop polls, other tasks run between two polls."""
    done = pending.done
    if not done():
        end = monotonic_ns() + LOOKS_NS
        await asyncio.sleep(0)
        while not done() and monotonic_ns() < end:
            await asyncio.sleep(0)
    if not done():
        loop = asyncio.get_running_loop()
        reached: asyncio.Future[None] = asyncio.Future(loop=loop)
        waiting = Waiting(ticket, lambda: _wake(loop, reached))
        waiter.add(waiting)
        try:
            await reached
        finally:
            waiter.discard(waiting)
    return pending.result()


def _wake(loop: asyncio.AbstractEventLoop, reached: asyncio.Future[None]) -> None:
    try:
        loop.call_soon_threadsafe(_reach, reached)
    except RuntimeError:
        return  # the loop is closed: nobody is waiting


def _reach(reached: asyncio.Future[None]) -> None:
    if not reached.done():
        reached.set_result(None)
