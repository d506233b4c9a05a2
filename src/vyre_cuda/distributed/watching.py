"""The thread that watches a communicator: it ends what would wait for ever, and says why.

A rank that is gone, an error of NCCL, and work that has not ended within the limit each end the communicator; then the
waits for its device fail with the reason.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from vyre_cuda._native.collective.collective import Member
from vyre_cuda.distributed.elements import words_of
from vyre_cuda.distributed.session import Session, named
from vyre_cuda.errors import CommunicationError, Error

_SENT = ("send", "recv")
_PAUSE = 0.1  # seconds between two looks
# No more seconds than these count as waited between two looks: where this process is stopped for long, or gets no core,
# what others have sent it has not been taken either, and their part may be there.
_MOST_BETWEEN = 0.5
_CLOSE = 10.0  # seconds that a close waits for work
# Seconds that work may need to end although a rank has left in order: it has given all of its own before.
_AFTER_LEAVING = 5.0
# Seconds after an error of NCCL within which the rank whose end it comes from is known,
_AFTER_ERROR = 1.0
_OTHERS_TELL = 5.0  # and within which the others have told what they have given


class Watcher:
    """Of one rank. `session` is None for a group of one process, where nobody can be gone."""

    def __init__(self, member: Member, session: Session | None, number: int, limit: float) -> None:
        self.session, self.limit, self.number = session, limit, number
        self._stop = threading.Event()
        self._has_closed = False
        self._told: tuple[Any, ...] = ()
        self._waited, self._looked = 0.0, time.monotonic()
        arguments = (weakref.ref(member), weakref.ref(self))
        self._thread = threading.Thread(target=_watch, args=arguments, name="vyre_cuda communicator", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def close(self, member: Member) -> None:
        """Tell the others that this rank gives no more, as what it waits for in its close may be them, and stop when
        its work has ended: where a rank is gone, that ends by a look."""
        self._has_closed = True
        if self.session is not None and not member.is_closed:
            with suppress(Error, ValueError):  # the device is lost, or rank 0 is gone; or another thread has closed it
                _, issued, digest, _, last, _ = member.watch()
                self._publish((issued, digest, last))
            await_work_of([(self, member)])
        self.stop()

    def await_work(self, member: Member, limit: float) -> None:
        """End it where it has not ended then."""
        pause = 0.001
        while True:
            is_ended, _, _, waiting, *_ = member.watch()
            if is_ended or waiting == 0.0:
                return
            if time.monotonic() >= limit:
                break
            time.sleep(pause)
            pause = min(pause * 2, _PAUSE)
        member.abort("the communicator is closed, and its work had not ended")

    def _publish(self, state: tuple[Any, ...]) -> None:
        issued, digest, last = state
        told = {"number": self.number, "issued": issued, "digest": f"{digest:016x}", "last": words_of(*last)}
        if self.session is not None:
            self.session.publish(told | {"has_closed": self._has_closed})

    def explained(self, member: Member, what: str, error: CommunicationError) -> CommunicationError:
        """An error in a call: with the rank whose end it comes from, where one has ended; where it is NCCL's, else with
        what each rank was given."""
        session, rank = self.session, member.rank
        try:
            is_ended, issued, digest, _, last, _ = member.watch()
        except (Error, ValueError):  # the device is lost, or another thread has closed the communicator
            return error
        if session is None:
            return error
        has_lost = session.has_lost_ranks(0.0 if is_ended else _AFTER_ERROR)
        if is_ended:  # for a reason, which the error says
            return CommunicationError(str(error), sorted(session.gone))
        if session.gone:
            return session.error(f"rank {rank} was refused {what} ({error})")
        if has_lost:
            return CommunicationError(f"{named(session.left)} left the group while rank {rank} calls {what} ({error})")
        compared = self._compared(member, (issued, digest, last), _OTHERS_TELL)
        return CommunicationError(f"rank {rank} was refused {what} ({error}); {compared}")

    def look(self, member: Member) -> bool:
        """One look; whether to go on."""
        is_ended, issued, digest, waiting, last, error = member.watch()
        if is_ended:
            return False
        waiting = self._awake(waiting)
        state = (issued, digest, last)
        if self.session is not None and state != self._told:
            self._told = state
            with suppress(CommunicationError):  # rank 0 is gone, which is a reason below; or it has left
                self._publish(state)
        why = self._reason(member, waiting, error, state)
        if why is not None:
            member.abort(why)
        return why is None

    def _awake(self, waiting: float) -> float:
        """Those of the seconds that work has been waited for in which this process could have seen its end."""
        before, self._looked = self._looked, time.monotonic()
        self._waited = min(self._waited + min(self._looked - before, _MOST_BETWEEN), waiting)
        return self._waited

    def _reason(self, member: Member, waiting: float, error: int, state: tuple[Any, ...]) -> str | None:
        """Why to end the communicator."""
        session = self.session
        if session is not None and error:
            session.has_lost_ranks(_AFTER_ERROR)  # the one whose end it comes from
        why = None if session is not None and session.gone else self._own_reason(member, waiting, error, state)
        if session is not None and session.gone:
            return str(session.error(f"rank {member.rank} ended its communicator, and what it computed is unspecified"))
        return why

    def _own_reason(self, member: Member, waiting: float, error: int, state: tuple[Any, ...]) -> str | None:
        """What this rank itself sees."""
        session = self.session
        if error:
            compared = self._compared(member, state, _OTHERS_TELL)
            last = _described(state).removesuffix(",")
            return f"NCCL reports error {error} for rank {member.rank}, whose last is {last}; {compared}"
        if session is not None and session.left and waiting > min(_AFTER_LEAVING, self.limit):
            last = _described(state).removesuffix(",")
            return f"{named(session.left)} left the group while rank {member.rank} waits for {last}"
        if waiting > self.limit:
            compared = self._compared(member, state)
            return f"{_described(state)} of rank {member.rank} has not ended after {waiting:.1f} s; {compared}"
        return None

    def _states(self, member: Member, issued: int, patience: float) -> dict[int, Any] | None:
        """What all have told, once they have been given as much as this rank or have ended, or `patience` is over."""
        session, limit = self.session, time.monotonic() + patience
        assert session is not None
        while True:
            told = session.states()
            if told is None or session.gone or session.left or time.monotonic() >= limit:
                return told
            here = [its for its in told.values() if its["number"] == self.number]
            if sum(its["issued"] >= issued or its["has_closed"] for its in here) == member.size:
                return told
            if self._stop.wait(_PAUSE):
                return told

    def _compared(self, member: Member, state: tuple[Any, ...], patience: float = 0.0) -> str:
        """What the others have done instead."""
        if self.session is None:
            return "the other devices of the group may have been given other collectives"
        issued, digest, last = state
        others = self._states(member, issued, patience)
        if others is None:
            return "rank 0, which knows what the others have been given, does not answer"
        words = []
        for rank in range(member.size):
            other = others.get(rank)
            if rank == member.rank:
                continue
            if other is None or other["number"] != self.number:
                words.append(f"rank {rank} has not reported what it was given")
            elif other["issued"] == issued and other["digest"] != f"{digest:016x}":
                words.append(f"rank {rank} was given others: its last is {other['last']}")
            elif other["has_closed"]:
                words.append(f"rank {rank} has closed its communicator after collective {other['issued']}")
            elif other["issued"] == 0:
                words.append(f"rank {rank} was given none")
            elif other["issued"] != issued:
                words.append(f"rank {rank} was given {other['issued']} (the last: {other['last']})")
            elif words_of(*last).startswith(_SENT) or other["last"].startswith(_SENT):  # they are not in the digest
                words.append(f"rank {rank} was given as many: its last is {other['last']}")
        return "; ".join(words) or "all ranks were given the same collectives"


def await_work_of(ranks: Sequence[tuple[Watcher, Member]]) -> None:
    """Wait until all work of those that close has ended, or is ended because it is late."""
    limit = time.monotonic() + _CLOSE
    for watcher, member in ranks:
        with suppress(Error, ValueError):  # as in a close
            watcher.await_work(member, limit)


def _described(state: tuple[Any, ...]) -> str:
    issued, _, last = state
    return f"the {words_of(*last)}, collective {issued},"


def _watch(member: weakref.ref[Member], watcher: weakref.ref[Watcher]) -> None:
    while True:
        alive, own = member(), watcher()
        if alive is None or own is None or own._stop.wait(_PAUSE):
            return
        try:
            if not own.look(alive):
                return
        except Error:
            return  # the device is closed or lost, and its waits say so
        del alive, own
