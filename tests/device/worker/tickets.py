"""Tickets of workers against launches, bit for bit, in as many calls as asked for.

    python -m tests.device.worker.tickets --gpus 2 --tickets 10000000 [--blocks 4] [--threads 4] [--seed 1]
        [--seconds 240] [--every 10]
    python -m tests.device.worker.tickets --device emulator [--processes 2] [...]

With `--gpus` each GPU has one process: processes that share a GPU by time slices get a hundredth of its rate.
Each round draws programs of the independent generator that a worker can run, with several sets of arguments: what was
drawn, and the same values in other orders. It compiles them into one kernel, of which it makes several workers, one
after the other: with one block and with several; with numbers that begin shortly before 2^32, so that they wrap; and
with launches that leave the device often. Several threads give tickets to each worker, each all programs with all sets,
in another order each time: calls with host arrays are submitted while calls on device arrays are made and waited for.
Then the bytes of all results, which lie side by side, are compared with those of launches, and overwritten before the
next time. The programs of the next round are compiled meanwhile, so the worker is paused while they are loaded.
Every few seconds a line says how many tickets all processes have done, how many bytes were wrong, and the rate. It ends
when all are done or when the seconds are over, whichever is first, with a line for each process and one for all. The
exit code is 1 if a result differs or a process has ended in another way, and 2 if the time was over before the tickets
were.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import random
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import vyre_cuda as vc
from vyre_cuda.runtime.worker.compiled import entry_of
from vyre_cuda.runtime.worker.worker import Worker

from .ticket_rows import Case, Row, drawn_cases

ROUND = 200_000  # tickets of the same programs
NUMBERS = 2**32
NEAR = range(64, 1024)  # calls before the numbers wrap
GRACE = 30.0  # seconds that a process has to end what it began when the time was over
SWITCH = 1e-4  # seconds after which another thread runs Python


class Setting(NamedTuple):
    """How a worker of a round differs from the others."""

    is_near: bool  # its numbers wrap
    busy: float  # seconds
    is_single: bool  # it has one block


SETTINGS = (
    Setting(is_near=True, busy=0.01, is_single=True),
    Setting(is_near=False, busy=0.001, is_single=False),
    Setting(is_near=True, busy=0.001, is_single=False),
    Setting(is_near=False, busy=0.01, is_single=False),
)


class Counts:
    """What has been done, by one process, whose threads add to it."""

    FIELDS = ("tickets", "wrong", "programs", "workers", "wraps", "launches", "turns", "pauses", "spread")

    def __init__(self, values: Any) -> None:
        self.values = values  # of the fields
        self._lock = threading.Lock()

    def add(self, **more: int) -> None:
        with self._lock:
            for name, count in more.items():
                self.values[self.FIELDS.index(name)] += count

    def __getattr__(self, name: str) -> int:
        return int(self.values[self.FIELDS.index(name)])


class Progress:
    """What the processes have done, and when to end."""

    def __init__(self, context: Any, processes: int, end: float) -> None:
        self.counts = [context.RawArray("q", len(Counts.FIELDS)) for _ in range(processes)]
        self.seconds = context.RawArray("d", processes)
        self.end = end  # of time.monotonic, which is the same for all processes of a machine

    def total(self) -> Counts:
        return Counts([sum(values) for values in zip(*self.counts, strict=True)])


class Share(NamedTuple):
    """What one process is to do."""

    place: int
    device: str
    tickets: int
    blocks: int
    threads: int
    seed: int


class Round:
    """Tickets of the same programs."""

    def __init__(self, device: vc.Device, cases: list[Case], entry: Any, threads: int) -> None:
        self._device, self._cases, self._entry = device, cases, entry
        self._rows = [Row(device, cases) for _ in range(threads)]

    @staticmethod
    def drawn(device: vc.Device, chance: random.Random, threads: int) -> Round:
        while True:
            cases = drawn_cases(device, chance)
            try:
                entry = entry_of(device, [case.kernel for case in cases])
            except vc.UnsupportedError:
                continue  # together they need too much, or one of them what a worker does not have
            return Round(device, cases, entry, threads)

    def run(
        self,
        tickets: int,
        blocks: int,
        seed: int,
        counts: Counts,
        is_over: Callable[[], bool],
        make: Callable[..., Worker] = Worker,
    ) -> None:
        """Up to a row for each thread and worker more than so many."""
        counts.add(programs=len(self._cases))
        chance = random.Random(seed)
        for number, setting in enumerate(SETTINGS):
            count = 1 if setting.is_single else blocks
            before = chance.choice(NEAR) if setting.is_near else NUMBERS - 1
            kernels = [case.kernel for case in self._cases]
            first = NUMBERS - before
            part = tickets // len(SETTINGS)
            worker = make(self._device, kernels, blocks=count, busy=setting.busy, first=first, entry=self._entry)
            with worker:
                done = self._calls(worker, part, f"{seed}/{number}", counts, is_over)
                stats = worker.stats()
            # Some block has at least its share of the calls.
            wraps = int(done >= before * count)
            counts.add(workers=1, wraps=wraps, launches=stats.launches, pauses=stats.pauses)

    def _calls(self, worker: Worker, tickets: int, seed: str, counts: Counts, is_over: Callable[[], bool]) -> int:
        def calls_of(number: int, row: Row) -> int:
            chance, done = random.Random(f"{seed}/{number}"), 0
            starts = row.starts(worker)
            while done * len(self._rows) < tickets and not is_over():
                chance.shuffle(starts)
                counts.add(wrong=row.run(starts), tickets=len(starts))
                done += len(starts)
            return done

        with ThreadPoolExecutor(len(self._rows)) as threads:
            return sum(threads.map(calls_of, range(len(self._rows)), self._rows))


def work(share: Share, progress: Progress) -> None:
    """One process."""
    sys.setswitchinterval(SWITCH)
    chance = random.Random(f"{share.seed}/{share.place}")
    counts = Counts(progress.counts[share.place])
    begin = time.monotonic()

    def is_over() -> bool:
        return time.monotonic() >= progress.end

    with vc.Device(int(share.device) if share.device.isdigit() else share.device) as device:
        print(f"process {share.place}: {device}", flush=True)
        with ThreadPoolExecutor(1) as beside:
            following = beside.submit(Round.drawn, device, chance, share.threads)
            while counts.tickets < share.tickets and not is_over():
                this, left = following.result(), share.tickets - counts.tickets
                if left > ROUND:
                    following = beside.submit(Round.drawn, device, chance, share.threads)
                this.run(min(ROUND, left), share.blocks, left, counts, is_over)
        stats = device.stats()
        counts.add(turns=stats.worker_turns, spread=stats.worker_spread_calls)
    progress.seconds[share.place] = time.monotonic() - begin


def told(progress: Progress, begin: float) -> None:
    total, seconds = progress.total(), time.monotonic() - begin
    print(
        f"{seconds:6.1f} s: {total.tickets} tickets, {total.wrong} bytes wrong, {total.tickets / seconds:.0f}/s",
        flush=True,
    )


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
    for process, share in zip(processes, shares, strict=True):
        process.join()
        counts, took = Counts(progress.counts[share.place]), progress.seconds[share.place]
        rate = f"{took:.1f} s, {counts.tickets / took:.0f}/s" if took else f"ended with code {process.exitcode}"
        done = f"{counts.tickets} of {share.tickets} tickets, {counts.wrong} bytes wrong"
        print(f"process {share.place}: {done}, {rate}", flush=True)
        failed |= counts.wrong > 0 or process.exitcode != 0
        short |= counts.tickets < share.tickets
    total = progress.total()
    print("all: " + ", ".join(f"{getattr(total, name)} {name}" for name in Counts.FIELDS), flush=True)
    return 1 if failed else 2 if short else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--gpus", type=int, help="the first so many GPUs, each with one process")
    where.add_argument("--device", default="auto")
    parser.add_argument("--processes", type=int, default=1, help="on --device")
    parser.add_argument("--tickets", type=int, default=100_000)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--threads", type=int, default=4, help="of each process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--every", type=float, default=10.0, help="seconds from one line of progress to the next")
    options = parser.parse_args()
    devices = [options.device] * options.processes
    if options.gpus is not None:
        devices = [str(number) for number in range(options.gpus)]
    each, more = divmod(options.tickets, len(devices))
    shares = [
        Share(place, device, each + (place < more), options.blocks, options.threads, options.seed)
        for place, device in enumerate(devices)
    ]
    return run(shares, options.seconds, options.every)


if __name__ == "__main__":
    sys.exit(main())
