"""Processes that ask questions, each with a context of its own.

A process that crashes, hangs or loses its context is replaced. What it was at is asked again in halves, until one
question is left, which is reported.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import silicon_units
from silicon_ask import Outcome, ask
from silicon_driver import Device, DriverCallError

QUESTIONS_PER_KERNEL = 192
HANG_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Job:
    """Some questions of a unit; an `end` of None is its last."""

    unit: str
    begin: int = 0
    end: int | None = None


def serve(pipe: Connection, library: str, emulator_library: str, sample: int) -> None:
    """Ask what comes through the pipe until it closes."""
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    device, emulator = Device(library), Device(emulator_library)
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        _serve_job(pipe, device, emulator, job, sample)


def _serve_job(pipe: Connection, device: Device, emulator: Device, job: Job, sample: int) -> None:
    plan = silicon_units.plan(job.unit, sample)
    end = len(plan) if job.end is None else job.end
    for begin in range(job.begin, end, QUESTIONS_PER_KERNEL):
        stop = min(begin + QUESTIONS_PER_KERNEL, end)
        part = [make() for make in plan[begin:stop]]
        pipe.send(("at", begin, stop, end))
        try:
            pipe.send(("outcome", ask(device, emulator, part)))
        except DriverCallError as error:
            lost = "cuModuleLoadDataEx" not in str(error)
            pipe.send(("failed", begin, stop, str(error), part[0].snippet(), lost))
            if lost:
                os._exit(1)
    pipe.send(("done",))


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: Connection
    job: Job | None = None
    at: tuple[int, int, int | None] = (0, 0, None)
    since: float = 0.0


@dataclass(slots=True)
class Pool:
    """Asks the questions of units. `told` hears of each outcome and each question that cannot be asked."""

    library: str
    emulator_library: str
    jobs: int
    sample: int
    told: Callable[[Outcome, list[dict[str, Any]]], None]
    hang_seconds: float = HANG_SECONDS
    queue: deque[Job] = field(default_factory=deque)
    _workers: list[_Worker] = field(default_factory=list)

    def run(self, units: list[str], seconds: float) -> list[Job]:
        """Ask everything; the jobs that the time did not allow."""
        self.queue.extend(Job(unit) for unit in units)
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end and (self.queue or any(w.job for w in self._workers)):
                self._dispatch()
                self._hear()
        finally:
            left = [*self.queue, *(Job(w.job.unit, w.at[0], w.job.end) for w in self._workers if w.job)]
            for worker in self._workers:
                worker.process.kill()
                worker.process.join()
        return left

    def _dispatch(self) -> None:
        while self.queue and len(self._workers) < self.jobs and all(w.job for w in self._workers):
            self._workers.append(self._start())
        for worker in self._workers:
            if worker.job is None and self.queue:
                job = self.queue.popleft()
                worker.job, worker.at, worker.since = job, (job.begin, job.begin, job.end), time.monotonic()
                worker.pipe.send(job)

    def _start(self) -> _Worker:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        arguments = (theirs, self.library, self.emulator_library, self.sample)
        process = context.Process(target=serve, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return _Worker(process=process, pipe=ours)

    def _hear(self) -> None:
        ready = wait([worker.pipe for worker in self._workers], timeout=1.0)
        for worker in list(self._workers):
            if worker.pipe in ready:
                try:
                    self._take(worker, worker.pipe.recv())
                except (EOFError, ConnectionError):
                    self._replace(worker, "the process ended")
            elif worker.job is not None and time.monotonic() - worker.since > self.hang_seconds:
                self._replace(worker, f"no answer in {self.hang_seconds:.0f} s")

    def _take(self, worker: _Worker, message: tuple[Any, ...]) -> None:
        worker.since = time.monotonic()
        if message[0] == "at":
            worker.at = message[1:]
        elif message[0] == "outcome":
            self.told(message[1], [])
        elif message[0] == "done":
            worker.job = None
        elif worker.job is not None:
            _, begin, stop, error, ptx, lost = message
            self._again(worker.job.unit, begin, stop, error, ptx)
            if lost:
                self._requeue_rest(worker)
                self._replace(worker, error)

    def _requeue_rest(self, worker: _Worker) -> None:
        """The questions behind those that a lost context was at."""
        if worker.job is None:
            return
        _, stop, end = worker.at
        if end is None or stop < end:
            self.queue.append(Job(worker.job.unit, stop, end))
        worker.job = None

    def _replace(self, worker: _Worker, reason: str) -> None:
        self._workers.remove(worker)
        worker.process.kill()
        worker.process.join()
        if worker.job is None:
            return
        begin, stop, _ = worker.at
        if stop > begin:
            self._again(worker.job.unit, begin, stop, reason, "")
            self._requeue_rest(worker)
        else:
            self._report(worker.job.unit, begin, f"{reason} before the first question", "")

    def _again(self, unit: str, begin: int, stop: int, reason: str, ptx: str) -> None:
        if stop - begin == 1:
            self._report(unit, begin, reason, ptx)
            return
        middle = (begin + stop) // 2
        self.queue.appendleft(Job(unit, middle, stop))
        self.queue.appendleft(Job(unit, begin, middle))

    def _report(self, unit: str, number: int, reason: str, ptx: str) -> None:
        self.told(Outcome(), [{"kind": "refused", "unit": unit, "question": number, "reason": reason, "ptx": ptx}])
