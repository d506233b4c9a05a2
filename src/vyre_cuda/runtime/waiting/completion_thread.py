"""One thread per device completes all the runs that event loops wait for.

It starts with the first of them, sleeps while there are none, and ends with the device or the process.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, get_ident  # threading takes two milliseconds to import
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.call.ticket import Ticket, exact_sleeps, finished
from vyre_cuda._native.core.context import Event
from vyre_cuda.later import later

if TYPE_CHECKING:
    import threading

    from vyre_cuda.runtime.waiting import awaiting
else:
    awaiting = later("vyre_cuda.runtime.waiting.awaiting")
    threading = later("threading")  # two milliseconds that a process without an event loop does not need

# Seconds between polls: the first, the factor to the next, the longest.
FIRST_LOOK = 50e-6
GROWTH = 1.5
LONGEST_LOOK = 1e-3
# Seconds that a process waits at exit for the thread, which may be polling.
JOIN_LIMIT = 1.0


class Waiting:
    """A run that somebody waits for, and what to call, from the waiter's thread, when it has finished."""

    __slots__ = ("ticket", "wake")

    def __init__(self, ticket: Ticket | Event, wake: Callable[[], None]) -> None:
        self.ticket = ticket
        self.wake = wake


class Waiter:
    """The runs that are waited for."""

    def __init__(self) -> None:
        # The condition is entered by its lock: a signal handler that raises within its own `__enter__` would leave it
        # locked for ever.
        self._lock = allocate_lock()
        self._changed: threading.Condition | None = None  # made with the thread
        self._waiting: dict[Waiting, None] = {}
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._process = os.getpid()

    def awaited(self, event: Event) -> Generator[Any, None, None]:
        """What `await event` iterates over."""
        return awaiting.wait(event.query, event.synchronize, event, self)

    def add(self, waiting: Waiting) -> None:
        """Wake it when its run has finished; at once after a stop, because then every run answers at once."""
        with self._lock:
            stopped = self._stopped
            if not stopped:
                self._start()
                self._waiting[waiting] = None
                self._wake_up()
        if stopped:
            waiting.wake()

    def discard(self, waiting: Waiting) -> None:
        """Stop waiting for it."""
        with self._lock:
            self._waiting.pop(waiting, None)

    def collect(self) -> None:
        """Wake those whose run has finished, and keep its results for them. Does nothing in a forked child."""
        if os.getpid() != self._process:
            return
        with self._lock:
            waiting = list(self._waiting)
        if waiting:
            self._wake_finished(waiting)

    def stop(self) -> None:
        """Wake everything and end the thread. Does nothing in a forked child, where there is no such thread."""
        if os.getpid() != self._process:
            return
        with self._lock:
            self._stopped = True
            left = list(self._waiting)
            self._waiting.clear()
            self._wake_up()
            thread = self._thread
        for waiting in left:
            waiting.wake()
        if thread is not None and thread.ident != get_ident():
            thread.join(JOIN_LIMIT)

    def _start(self) -> None:
        if self._thread is None:
            self._changed = threading.Condition(self._lock)
            # Daemon: an exiting process must not wait for a kernel that never ends.
            thread = threading.Thread(target=self._serve, args=(self._changed,), name="vyre_cuda waiter", daemon=True)
            thread.start()  # if that fails, the next one that waits tries again
            self._thread = thread

    def _wake_up(self) -> None:
        """Also a second thread, and past a wake-up in whose middle Ctrl-C came, which a single one would be lost to."""
        if self._changed is not None:
            self._changed.notify_all()

    def _serve(self, changed: threading.Condition) -> None:
        exact_sleeps()
        pause = FIRST_LOOK
        while pause > 0:
            try:
                pause = self._look(changed, pause)
            except MemoryError:
                pause = LONGEST_LOOK  # nobody is forgotten: the next poll finds whoever was not woken

    def _look(self, changed: threading.Condition, pause: float) -> float:
        """After a pause, wake those whose run has finished. Returns the next pause, 0 at the end."""
        waiting = self._next(changed, pause)
        if waiting is None:
            return 0
        return FIRST_LOOK if self._wake_finished(waiting) else min(pause * GROWTH, LONGEST_LOOK)

    def _wake_finished(self, waiting: list[Waiting]) -> bool:
        """Poll each once; whether one had finished."""
        done = [one for one, ended in zip(waiting, finished([w.ticket for w in waiting]), strict=True) if ended]
        for one in done:
            one.wake()
            self.discard(one)
        return bool(done)

    def _next(self, changed: threading.Condition, pause: float) -> list[Waiting] | None:
        """After a pause, what to poll next; None at the end."""
        with self._lock:
            if self._waiting and not self._stopped:
                changed.wait(pause)
            while not self._waiting and not self._stopped:
                changed.wait()
            return None if self._stopped else list(self._waiting)
