"""The processes of a run: started, watched, and started again when one hangs, loses its device or dies."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import Any

from worker import Report, Share, work

# A case takes milliseconds; a process that is at one for so long hangs. Opening a device may take its time, too.
HANGS_AFTER_S = 40.0
OPENS_WITHIN_S = 180.0
RESTARTS = 10

_spawn = multiprocessing.get_context("spawn")


@dataclass(slots=True)
class Running:
    """A process and what it was given."""

    process: Any
    receiver: Connection
    share: Share
    started: float
    restarts: int = 0
    is_open: bool = False


class Pool:
    """Runs shares; `reports` gives what they tell, `described` is the first device's description."""

    def __init__(self, shares: list[Share]) -> None:
        self._current = _spawn.RawArray("Q", len(shares))
        self._since = _spawn.RawArray("d", len(shares))
        self._running = {share.place: self._start(share, 0) for share in shares}
        self.described: dict[str, Any] = {}
        self.problems: list[str] = []

    def _start(self, share: Share, restarts: int) -> Running:
        receiver, sender = _spawn.Pipe(duplex=False)
        self._since[share.place] = 0.0
        process = _spawn.Process(target=work, args=(share, sender, self._current, self._since), daemon=True)
        process.start()
        sender.close()
        return Running(process, receiver, share, time.monotonic(), restarts)

    def reports(self, every: float) -> Iterator[Report | None]:
        """Each report as it comes, and None about every so many seconds, until all processes have ended."""
        told = time.monotonic()
        while self._running:
            places = {running.receiver: place for place, running in self._running.items()}
            for receiver in wait(list(places), timeout=0.5):
                assert isinstance(receiver, Connection)
                yield from self._received(self._running[places[receiver]], receiver)
            for running in list(self._running.values()):
                yield from self._watched(running)
            if time.monotonic() - told >= every:
                told = time.monotonic()
                yield None

    def _received(self, running: Running, receiver: Connection) -> Iterator[Report]:
        """All that is there to read."""
        place = running.share.place
        while True:
            try:
                message = receiver.recv()
            except (EOFError, OSError):
                yield from self._again(running, f"process {place} died at case {self._current[place]}")
                return
            if isinstance(message, Report):
                yield message
            elif isinstance(message, dict):
                running.is_open = True
                self.described = self.described or message
            elif message == "lost":
                yield from self._again(
                    running, f"process {place} lost its device at case {self._current[place]}", died=False
                )
                return
            else:
                running.process.join(30)
                self._close(running)
                return
            if not receiver.poll():
                return

    def _watched(self, running: Running) -> Iterator[Report]:
        if self._running.get(running.share.place) is not running:
            return
        now = time.monotonic()
        since = self._since[running.share.place]
        if running.is_open and since and now - since > HANGS_AFTER_S:
            yield from self._again(
                running, f"process {running.share.place} hung at case {self._current[running.share.place]}"
            )
        elif not running.is_open and now - running.started > OPENS_WITHIN_S:
            yield from self._again(running, f"process {running.share.place} did not open its device")

    def _again(self, running: Running, problem: str, *, died: bool = True) -> Iterator[Report]:
        """Another process for what the one that ended has not done; the case it was at is refused."""
        share = running.share
        self.problems.append(problem)
        next_case = share.first
        if self._since[share.place]:
            at = int(self._current[share.place])
            next_case = at + share.step
            if died:
                yield Report(at, "unfinished", "refused", finding={"problem": problem, "number": at})
        self._close(running)
        if running.restarts < RESTARTS and time.monotonic() < share.deadline and next_case < share.end:
            again = replace(share, first=next_case)
            self._running[share.place] = self._start(again, running.restarts + 1)

    def _close(self, running: Running) -> None:
        if running.process.is_alive():
            running.process.kill()
        running.receiver.close()
        del self._running[running.share.place]

    def close(self) -> None:
        """End what still runs."""
        for running in list(self._running.values()):
            self._close(running)
