"""Host threads that stand for GPU threads, one of which runs at a time.

A member runs until it waits for others or ends; then the next one does. When each one waits or has ended, the caller
decides who may go on. An exception in a member ends them all and is raised where `run` was called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from threading import Thread
from typing import Any


class Stopped(BaseException):
    """Ends a member whose launch has failed elsewhere."""


class Member:
    """One host thread. `waits_at` is what it waits for, None while it can go on."""

    def __init__(self, team: Team, start: Callable[[], None]) -> None:
        self.waits_at: Any = None
        self.has_ended = False
        self._team = team
        self._start = start
        self._turn: SimpleQueue[None] = SimpleQueue()
        self._thread: Thread | None = None

    def wait(self, what: Any) -> None:
        """Let the others run until the team lets this one go on."""
        self.waits_at = what
        self._team._idle.put(None)
        self._turn.get()
        if self._team.is_stopped:
            raise Stopped

    def take_turn(self) -> None:
        """Run until this member waits or ends."""
        if self._thread is None:
            self._thread = Thread(target=copy_context().run, args=(self._work, sys.gettrace()), daemon=True)
            self._thread.start()
        else:
            self._turn.put(None)
        self._team._idle.get()

    def stop(self) -> None:
        """Make this member raise `Stopped` where it waits, or will wait next, and wait for its end."""
        if self._thread is not None:
            self._turn.put(None)
            self._thread.join()

    def _work(self, trace: Any) -> None:
        try:
            sys.settrace(trace)  # a debugger sees all members
            self._start()
        except Stopped:
            pass
        except BaseException as error:  # raised again by the thread that called `run`
            self._team.error = error
        self.has_ended = True
        self._team._idle.put(None)


class Team:
    """Members that take turns."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.is_stopped = False
        self.error: BaseException | None = None
        self._idle: SimpleQueue[None] = SimpleQueue()

    def add(self, start: Callable[[], None]) -> Member:
        self.members.append(Member(self, start))
        return self.members[-1]

    def run(self, switch: Callable[[Member], None], release: Callable[[], None]) -> None:
        """Run all members to their end. `switch` is called before a member's turn; `release` when all of them wait or
        have ended, and sets `waits_at` of some to None, or raises.
        """
        try:
            while not all(member.has_ended for member in self.members):
                ready = [m for m in self.members if m.waits_at is None and not m.has_ended]
                for member in ready:
                    switch(member)
                    member.take_turn()
                    if self.error is not None:
                        raise self.error
                if any(member.waits_at is not None for member in self.members):
                    release()
        finally:
            self.is_stopped = True
            for member in self.members:
                member.stop()
            self.error = None  # its traceback holds the frames that hold this team
