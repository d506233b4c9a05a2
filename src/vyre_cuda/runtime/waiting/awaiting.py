"""Awaiting a submitted call. Apart from `pending`, so that only those who await pay for importing asyncio.

Going through the waiter takes a sleep of its thread, its wake-up and that of the loop: 200 us or more, however short
the run. So the loop polls by itself, between its other work, for as long as a call would spin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from time import monotonic_ns
from typing import Any

from vyre_cuda._native.call.ticket import Ticket
from vyre_cuda._native.core.context import Event
from vyre_cuda.runtime.waiting.completion_thread import Waiter, Waiting

# Nanoseconds for which the loop polls, once in each of its iterations.
LOOKS_NS = 200_000


def wait(
    done: Callable[[], bool], result: Callable[[], Any], ticket: Ticket | Event, waiter: Waiter
) -> Generator[Any, None, Any]:
    """What `await` iterates over, until `done`; gives the result. While the loop polls, other tasks run between two
    polls."""
    if not done():
        end = monotonic_ns() + LOOKS_NS
        yield  # as asyncio.sleep(0) does, without its two coroutines in each iteration
        while not done():
            if monotonic_ns() >= end:
                yield from _woken(ticket, waiter)
                break
            yield
    return result()


def _woken(ticket: Ticket | Event, waiter: Waiter) -> Generator[Any, None, None]:
    """Until the waiter's thread has seen the end."""
    loop = asyncio.get_running_loop()
    reached: asyncio.Future[None] = asyncio.Future(loop=loop)
    waiting = Waiting(ticket, lambda: _wake(loop, reached))
    waiter.add(waiting)
    try:
        yield from reached.__await__()
    finally:
        waiter.discard(waiting)


def _wake(loop: asyncio.AbstractEventLoop, reached: asyncio.Future[None]) -> None:
    try:
        loop.call_soon_threadsafe(_reach, reached)
    except RuntimeError:
        return  # the loop is closed: nobody is waiting


def _reach(reached: asyncio.Future[None]) -> None:
    if not reached.done():
        reached.set_result(None)
