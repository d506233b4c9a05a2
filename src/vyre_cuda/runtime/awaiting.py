"""Awaiting a submitted call. Apart from `pending`, so that only those who await pay for importing asyncio."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from vyre_cuda._native.ticket import Ticket
from vyre_cuda.runtime.waiter import Waiter, Waiting


class Awaited(Protocol):
    """What is waited for."""

    def done(self) -> bool: ...

    def result(self) -> Any: ...


async def wait(pending: Awaited, ticket: Ticket, waiter: Waiter) -> Any:
    """The result. Two looks, between which others had the loop, spare a short run the way through the waiter."""
    if not pending.done():
        await asyncio.sleep(0)
    if not pending.done():
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
        return  # the loop is closed: nobody waits any more


def _reach(reached: asyncio.Future[None]) -> None:
    if not reached.done():
        reached.set_result(None)
