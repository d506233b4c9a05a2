"""Tickets of workers against launches, bit for bit, in as many calls as asked for.

    python -m tests.device.worker.tickets --device cuda --tickets 10000000 [--blocks 4] [--processes 8] [--seed 1]

Each round draws programs of the independent generator that a worker can run, makes one worker of them, and submits
calls of all in random order, many at a time; each result has the bytes of the same call as a launch. Every third call
is a call on device arrays that waits. The numbers of the calls begin near 2^32 in every second round, so that they
wrap, and the worker leaves the device often in every third.
Prints a line for each process and exits with 1 if a result differs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda.runtime.worker.worker import Worker

sys.path.insert(0, str(Path(__file__).parents[2] / "independent"))

KINDS = ("general", "folding", "lockstep", "ftz", "functions", "wide")
PROGRAMS = 6  # of a worker
IN_FLIGHT = 48
ROUND = 50_000  # tickets


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


def run_round(device: vc.Device, number: int, tickets: int, blocks: int, chance: random.Random) -> int:
    """How many results differed."""
    cases = drawn_cases(device, chance)
    first = 2**32 - tickets // 2 if number % 2 else 1
    busy = 0.001 if number % 3 == 2 else 0.01
    wrong = 0
    waiting: deque[tuple[Case, Any]] = deque()
    rows = [case.on_device(device) for case in cases]
    repeatable = [all(p.kind != "inout" for p in case.kernel.program.parameters) for case in cases]
    try:
        worker = Worker(device, [case.kernel for case in cases], blocks=blocks, busy=busy, first=first)
    except vc.UnsupportedError:
        return run_round(device, number, tickets, blocks, chance)
    with worker:
        for _ in range(tickets):
            at = chance.randrange(len(cases))
            case = cases[at]
            if repeatable[at] and chance.random() < 1 / 3:
                worker.call(case.kernel, *rows[at], grid=case.grid)
                if chance.random() < 1 / 16:
                    wrong += not case.agrees_on_device(rows[at])
                continue
            waiting.append((case, worker.submit(case.kernel, *case.arguments, grid=case.grid)))
            if len(waiting) >= IN_FLIGHT:
                case, pending = waiting.popleft()
                wrong += not case.agrees(pending.result())
        for case, pending in waiting:
            wrong += not case.agrees(pending.result())
        for case, row, again in zip(cases, rows, repeatable, strict=True):
            if again:
                worker.call(case.kernel, *row, grid=case.grid)
                wrong += not case.agrees_on_device(row)
    return wrong


def work(place: int, name: str, tickets: int, blocks: int, seed: int) -> tuple[int, int, float]:
    """The tickets of one process, how many were wrong, and seconds."""
    chance = random.Random(f"{seed}/{place}")
    begin, done, wrong, number = time.monotonic(), 0, 0, 0
    with vc.Device(name if not name.isdigit() else int(name)) as device:
        while done < tickets:
            share = min(ROUND, tickets - done)
            wrong += run_round(device, number, share, blocks, chance)
            done += share
            number += 1
    return done, wrong, time.monotonic() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tickets", type=int, default=100_000)
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shares = [
        (place, options.device, options.tickets // options.processes, options.blocks, options.seed)
        for place in range(options.processes)
    ]
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        wrong = 0
        for place, (done, bad, seconds) in enumerate(pool.starmap(work, shares)):
            print(f"process {place}: {done} tickets, {bad} wrong, {seconds:.1f} s, {done / seconds:.0f}/s", flush=True)
            wrong += bad
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
