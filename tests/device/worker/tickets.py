"""Tickets of workers against launches, bit for bit, in as many calls as asked for.

    python -m tests.device.worker.tickets --device cuda --tickets 10000000 [--blocks 4] [--processes 8] [--seed 1]
        [--seconds 240] [--every 10]

Each round draws programs of the independent generator that a worker can run, with several sets of arguments: what was
drawn, and the same values in other orders. It makes one worker of the programs, and rows of tickets, each a program
with one of its sets. The rows run again and again, in random order: in each, calls with host arrays are submitted while
calls on device arrays are made and waited for, all with results of their own. Then the bytes of all results of the row,
which lie side by side, are compared with those of launches, and overwritten before it runs again.
The numbers of the calls begin near 2^32 in every second round, so that they wrap, and the worker leaves the device
often in every third.
Every few seconds a line says how many tickets all processes have done, how many were wrong, and the rate. It ends when
all are done or when the seconds are over, whichever is first, with a line for each process. The exit code is 1 if a
result differs or a process has ended in another way, and 2 if the time was over before the tickets were.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import random
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import vyre_cuda as vc
from vyre_cuda.codegen.worker import refused
from vyre_cuda.runtime.worker.worker import Worker

sys.path.insert(0, str(Path(__file__).parents[2] / "independent"))

KINDS = ("general", "folding", "lockstep", "ftz", "functions", "wide")
PROGRAMS = 6  # of a worker
SETS = 8  # of arguments of each
ROWS = 48
HOST, ON_DEVICE = 36, 12  # tickets of a row
ROUND = 100_000  # tickets
ALIGN = 256  # bytes between the results of two tickets
UNWRITTEN = 0xA5
GRACE = 30.0  # seconds that a process has to end what it began when the time was over


class Case:
    """A kernel with sets of arguments, and the results of its launches with each."""

    def __init__(self, device: vc.Device, drawn: Any, chance: random.Random) -> None:
        from arrays import arguments
        from program_text import program_text

        self.kernel = device.compile(vc.parse(program_text(drawn.program)), **drawn.options)
        self.grid = drawn.program.grid
        given = arguments(drawn.program)
        first = [given[p.name] for p in self.kernel.program.parameters if p.kind != "out"]
        self.sets = [first, *([_shuffled(value, chance) for value in first] for _ in range(SETS - 1))]
        self.results = [self._launched(values) for values in self.sets]

    def _launched(self, values: list[Any]) -> list[np.ndarray[Any, Any]]:
        found = self.kernel(*values, grid=self.grid)
        return list(found) if isinstance(found, tuple) else [found]


def _shuffled(value: Any, chance: random.Random) -> Any:
    """An array with the same elements, so that loops that it bounds have their ends."""
    if not isinstance(value, np.ndarray):
        return value
    order = list(range(value.size))
    chance.shuffle(order)
    return value.reshape(-1)[order].reshape(value.shape)


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
            case = Case(device, drawn, chance)
        except (vc.UnsupportedError, TypeError):
            continue
        if refused(case.kernel.lowered, case.kernel.bounds) is None and any(result.size for result in case.results[0]):
            cases.append(case)
    return cases


def _places(arrays: list[np.ndarray[Any, Any]]) -> tuple[list[int], int]:
    """Where each begins in one piece of memory, in bytes, and the end."""
    places, end = [], 0
    for array in arrays:
        places.append(end)
        end += -(-array.nbytes // ALIGN) * ALIGN
    return places, end


def _in_memory(memory: np.ndarray[Any, Any], place: int, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return memory[place : place + like.nbytes].view(like.dtype).reshape(like.shape)


class HostTickets:
    """Calls with host arrays, whose results lie side by side in `found`, and those of launches in `wanted`."""

    def __init__(self, tickets: list[tuple[Case, int]]) -> None:
        each = [case.results[number] for case, number in tickets]
        places, size = _places([result for results in each for result in results])
        self.found, self.wanted = (np.full(size, UNWRITTEN, np.uint8) for _ in range(2))
        self.calls: list[tuple[vc.Kernel, list[Any], Any, Any]] = []
        place = iter(places)
        for (case, number), results in zip(tickets, each, strict=True):
            outs = []
            for result in results:
                at = next(place)
                _in_memory(self.wanted, at, result)[...] = result
                outs.append(_in_memory(self.found, at, result))
            self.calls.append((case.kernel, case.sets[number], tuple(outs) if len(outs) > 1 else outs[0], case.grid))

    def wrong(self) -> int:
        """How many bytes differ; they are overwritten."""
        differ = 0 if np.array_equal(self.found, self.wanted) else int(np.count_nonzero(self.found != self.wanted))
        self.found.fill(UNWRITTEN)
        return differ


class DeviceTickets:
    """Calls on device arrays. Those that are written lie side by side, in one array for each type."""

    def __init__(self, device: vc.Device, tickets: list[tuple[Case, int]]) -> None:
        written: dict[vc.Type, list[tuple[int, int, np.ndarray[Any, Any], np.ndarray[Any, Any] | None]]] = {}
        rows: list[list[Any]] = []
        for at, (case, number) in enumerate(tickets):
            values, results = iter(case.sets[number]), iter(case.results[number])
            row: list[Any] = []
            for p in case.kernel.program.parameters:
                value = None if p.kind == "out" else next(values)
                if p.is_writable:
                    written.setdefault(p.type, []).append((at, len(row), next(results), value))
                    value = None
                row.append(device.array(value) if isinstance(value, np.ndarray) else value)
            rows.append(row)
        self._slabs: list[tuple[vc.DeviceArray, np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        for members in written.values():
            places, size = _places([result for _, _, result, _ in members])
            before, after = (np.full(size, UNWRITTEN, np.uint8) for _ in range(2))
            dtype = members[0][2].dtype
            slab = device.array(before.view(dtype))
            for place, (at, parameter, result, value) in zip(places, members, strict=True):
                _in_memory(after, place, result)[...] = result
                if value is not None:
                    _in_memory(before, place, result)[...] = value
                first = place // dtype.itemsize
                rows[at][parameter] = slab[first : first + result.size].reshape(result.shape)
            self._slabs.append((slab, before.view(dtype), after))
        self.calls = [(case.kernel, row, case.grid) for (case, _), row in zip(tickets, rows, strict=True)]

    def begin(self) -> None:
        for slab, before, _ in self._slabs:
            slab.copy_from(before)

    def wrong(self) -> int:
        found = ((slab.numpy().view(np.uint8), wanted) for slab, _, wanted in self._slabs)
        return sum(int(np.count_nonzero(bytes_ != wanted)) for bytes_, wanted in found)


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

    def run(self, tickets: int, blocks: int) -> int:
        """How many tickets it was: fewer if the time was over, and up to a row more."""
        while time.monotonic() < self._progress.end:
            cases = drawn_cases(self._device, self._chance)
            first = 2**32 - tickets // 2 if self._number % 2 else 1
            busy = 0.001 if self._number % 3 == 2 else 0.01
            try:
                worker = Worker(self._device, [c.kernel for c in cases], blocks=blocks, busy=busy, first=first)
            except vc.UnsupportedError:
                continue  # together they need too much, or one of them what a worker does not have
            with worker:
                return self._calls(worker, tickets, [self._row(cases) for _ in range(ROWS)])
        return 0

    def _row(self, cases: list[Case]) -> tuple[HostTickets, DeviceTickets]:
        def some(count: int) -> list[tuple[Case, int]]:
            return [(self._chance.choice(cases), self._chance.randrange(SETS)) for _ in range(count)]

        return HostTickets(some(HOST)), DeviceTickets(self._device, some(ON_DEVICE))

    def _calls(self, worker: Worker, tickets: int, rows: list[tuple[HostTickets, DeviceTickets]]) -> int:
        done = 0
        while done < tickets and time.monotonic() < self._progress.end:
            host, on_device = self._chance.choice(rows)
            on_device.begin()
            pending = [worker.submit(kernel, *values, out=out, grid=grid) for kernel, values, out, grid in host.calls]
            for kernel, values, grid in on_device.calls:
                worker.call(kernel, *values, grid=grid)
            for one in pending:
                one.result()
            wrong = host.wrong() + on_device.wrong()
            done += HOST + ON_DEVICE
            self._progress.done[self._place] += HOST + ON_DEVICE
            self._progress.wrong[self._place] += wrong
        return done


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
    print(f"{seconds:6.1f} s: {done} tickets, {wrong} bytes wrong, {done / seconds:.0f}/s", flush=True)


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
        print(f"process {share.place}: {done} of {share.tickets} tickets, {wrong} bytes wrong, {rate}", flush=True)
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
