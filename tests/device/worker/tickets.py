"""Tickets of workers against launches, bit for bit, in as many calls as asked for.

    python -m tests.device.worker.tickets --device cuda --tickets 10000000 [--blocks 4] [--processes 8] [--seed 1]
        [--seconds 240] [--every 10]

Each round draws programs of the independent generator that a worker can run, makes one worker of them, and submits
calls of all in random order, many at a time; each result has the bytes of the same call as a launch. Every third call
is a call on device arrays that waits. The numbers of the calls begin near 2^32 in every second round, so that they
wrap, and the worker leaves the device often in every third.
Every few seconds a line says how many tickets all processes have done, how many were wrong, and the rate. It ends when
all are done or when the seconds are over, whichever is first, with a line for each process: what is in flight then is
still compared. The exit code is 1 if a result differs or a process has ended in another way, and 2 if the time was over
before the tickets were.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import random
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import vyre_cuda as vc
from vyre_cuda.runtime.worker.worker import Worker

sys.path.insert(0, str(Path(__file__).parents[2] / "independent"))

KINDS = ("general", "folding", "lockstep", "ftz", "functions", "wide")
PROGRAMS = 6  # of a worker
IN_FLIGHT = 48
ROUND = 50_000  # tickets
BETWEEN = 256  # tickets from one look at the clock to the next
GRACE = 30.0  # seconds that a process has to end what it began when the time was over


class Case:
    """A kernel with arguments, and the bytes of its results."""

    def __init__(self, device: vc.Device, drawn: Any) -> None:
        from arrays import arguments
        from program_text import program_text

        program = drawn.program
        self.kernel = device.compile(vc.parse(program_text(program)), **drawn.options)
        given = arguments(program)
        self.arguments = [given[p.name] for p in self.kernel.program.parameters if p.kind != "out"]
        self.grid = program.grid
        found = self.kernel(*self.arguments, grid=self.grid)
        self.results = found if isinstance(found, tuple) else (found,)
        self.bytes = [result.tobytes() for result in self.results]
        names = [p.name for p in self.kernel.program.parameters if p.is_writable]
        self.shapes = dict(zip(names, self.results, strict=True))

    def agrees(self, found: Any) -> bool:
        several = found if isinstance(found, tuple) else (found,)
        return [result.tobytes() for result in several] == self.bytes

    def on_device(self, device: vc.Device) -> list[Any]:
        values = iter(self.arguments)
        row = []
        for p in self.kernel.program.parameters:
            value = np.zeros_like(self.shapes[p.name]) if p.kind == "out" else next(values)
            row.append(device.array(value) if isinstance(value, np.ndarray) else value)
        return row

    def agrees_on_device(self, row: list[Any]) -> bool:
        parameters = self.kernel.program.parameters
        found = [array.numpy().tobytes() for array, p in zip(row, parameters, strict=True) if p.is_writable]
        return found == self.bytes


def drawn_cases(device: vc.Device, chance: random.Random) -> list[Case]:
    from oracle import OutOfFuel
    from random_cases import draw_case

    cases: list[Case] = []
    while len(cases) < PROGRAMS:
        try:
            drawn = draw_case(chance.choice(KINDS), chance.randrange(2**40), 0)
        except OutOfFuel:
            continue
        program = drawn.program
        if drawn.options.get("bounds") == "trap" or program.work is not None or program.is_shaped:
            continue
        if drawn.wanted is None or drawn.wanted.failure is not None:
            continue
        try:
            case = Case(device, drawn)
            with device.worker([case.kernel]):  # what a worker does not run is left out
                cases.append(case)
        except (vc.UnsupportedError, TypeError):
            continue
    return cases


class Progress:
    """What the processes have done, as far as they have said it, and when to end."""

    def __init__(self, context: Any, processes: int, end: float) -> None:
        self.done = context.RawArray("q", processes)
        self.wrong = context.RawArray("q", processes)
        self.seconds = context.RawArray("d", processes)
        self.end = end  # of time.monotonic, which is the same for all processes of a machine


class Share(NamedTuple):
    """What one process is to do."""

    place: int
    device: str
    tickets: int
    blocks: int
    seed: int


class Round:
    """Tickets of one worker. `place`: of the process, in `progress`."""

    def __init__(self, device: vc.Device, number: int, chance: random.Random, progress: Progress, place: int) -> None:
        self._device, self._number, self._chance = device, number, chance
        self._progress, self._place = progress, place
        self._waiting: deque[tuple[Case, Any]] = deque()

    def run(self, tickets: int, blocks: int) -> int:
        """How many tickets it was: fewer if the time was over."""
        while True:
            self._cases = drawn_cases(self._device, self._chance)
            self._rows = [case.on_device(self._device) for case in self._cases]
            self._repeatable = [all(p.kind != "inout" for p in c.kernel.program.parameters) for c in self._cases]
            first = 2**32 - tickets // 2 if self._number % 2 else 1
            busy = 0.001 if self._number % 3 == 2 else 0.01
            kernels = [case.kernel for case in self._cases]
            try:
                worker = Worker(self._device, kernels, blocks=blocks, busy=busy, first=first)
            except vc.UnsupportedError:
                continue  # together they need too much
            with worker:
                return self._calls(worker, tickets)

    def _calls(self, worker: Worker, tickets: int) -> int:
        done = 0
        while done < tickets and time.monotonic() < self._progress.end:
            some = min(BETWEEN, tickets - done)
            for _ in range(some):
                self._one(worker)
            done += some
            self._progress.done[self._place] += some
        while self._waiting:
            self._compare(*self._waiting.popleft())
        for case, row, again in zip(self._cases, self._rows, self._repeatable, strict=True):
            if again:
                worker.call(case.kernel, *row, grid=case.grid)
                self._count(case.agrees_on_device(row))
        return done

    def _one(self, worker: Worker) -> None:
        chance = self._chance
        at = chance.randrange(len(self._cases))
        case = self._cases[at]
        if self._repeatable[at] and chance.random() < 1 / 3:
            worker.call(case.kernel, *self._rows[at], grid=case.grid)
            if chance.random() < 1 / 16:
                self._count(case.agrees_on_device(self._rows[at]))
            return
        self._waiting.append((case, worker.submit(case.kernel, *case.arguments, grid=case.grid)))
        if len(self._waiting) >= IN_FLIGHT:
            self._compare(*self._waiting.popleft())

    def _compare(self, case: Case, pending: Any) -> None:
        self._count(case.agrees(pending.result()))

    def _count(self, agrees: bool) -> None:
        if not agrees:
            self._progress.wrong[self._place] += 1


def work(share: Share, progress: Progress) -> None:
    """One process."""
    chance = random.Random(f"{share.seed}/{share.place}")
    name = share.device
    begin, done, number = time.monotonic(), 0, 0
    with vc.Device(name if not name.isdigit() else int(name)) as device:
        while done < share.tickets and time.monotonic() < progress.end:
            part = Round(device, number, chance, progress, share.place)
            done += part.run(min(ROUND, share.tickets - done), share.blocks)
            number += 1
    progress.seconds[share.place] = time.monotonic() - begin


def told(progress: Progress, begin: float) -> None:
    done, wrong, seconds = sum(progress.done), sum(progress.wrong), time.monotonic() - begin
    print(f"{seconds:6.1f} s: {done} tickets, {wrong} wrong, {done / seconds:.0f}/s", flush=True)


def await_all(processes: list[Any], progress: Progress, every: float) -> None:
    """Until all have ended, or should have: then they are ended."""
    begin = time.monotonic()
    next_line, last = begin + every, progress.end + GRACE
    while left := [process.sentinel for process in processes if process.is_alive()]:
        now = time.monotonic()
        if now >= last:
            break
        if now >= next_line:
            told(progress, begin)
            next_line = now + every
        multiprocessing.connection.wait(left, min(next_line, last) - now)
        processes = [process for process in processes if process.is_alive()]
    for process in processes:
        process.kill()
        process.join()
    told(progress, begin)


def run(shares: list[Share], seconds: float, every: float) -> int:
    """The exit code."""
    context = multiprocessing.get_context("spawn")
    progress = Progress(context, len(shares), time.monotonic() + seconds)
    processes = [context.Process(target=work, args=(share, progress)) for share in shares]
    for process in processes:
        process.start()
    await_all(processes, progress, every)
    failed = short = False
    for process in processes:
        process.join()
    for share, process in zip(shares, processes, strict=True):
        done, wrong, took = (values[share.place] for values in (progress.done, progress.wrong, progress.seconds))
        rate = f"{took:.1f} s, {done / took:.0f}/s" if took else f"ended with code {process.exitcode}"
        print(f"process {share.place}: {done} of {share.tickets} tickets, {wrong} wrong, {rate}", flush=True)
        failed |= wrong > 0 or process.exitcode != 0
        short |= done < share.tickets
    return 1 if failed else 2 if short else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tickets", type=int, default=100_000)
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--every", type=float, default=10.0, help="seconds from one line of progress to the next")
    options = parser.parse_args()
    each, more = divmod(options.tickets, options.processes)
    shares = [
        Share(place, options.device, each + (place < more), options.blocks, options.seed)
        for place in range(options.processes)
    ]
    return run(shares, options.seconds, options.every)


if __name__ == "__main__":
    sys.exit(main())
