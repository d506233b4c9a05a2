"""Random programs with their arguments and what their launches give, and tickets of workers that must give the same."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda.codegen.worker import refused
from vyre_cuda.runtime.worker.worker import Worker

from .. import programs

sys.path.insert(0, str(Path(__file__).parents[2] / "independent"))

KINDS = ("general", "folding", "lockstep", "ftz", "functions", "wide")
PROGRAMS = 6  # of a worker
SETS = 8  # of arguments of each
ALIGN = 256  # bytes between the results of two tickets
UNWRITTEN = 0xA5

Start = Callable[[], Any]  # of a ticket: what it gives, if anything, has to be waited for


class Case:
    """A kernel with sets of arguments, and the results of its launches with each."""

    def __init__(self, kernel: vc.Kernel, given: list[Any], grid: Any, chance: random.Random) -> None:
        self.kernel, self.grid = kernel, grid
        self.sets = [given, *([_shuffled(value, chance) for value in given] for _ in range(SETS - 1))]
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


def _of_many_blocks(device: vc.Device, chance: random.Random) -> Case:
    """Drawn programs have few blocks, and most of them leave gaps in their results, so that they are not spread."""
    x = np.array([chance.randrange(-(2**31), 2**31) for _ in range(1024)], np.int32)
    return Case(device.compile(programs.divmod_of()), [x, chance.randrange(1, 2**16)], None, chance)


def _of_drawn(device: vc.Device, drawn: Any, chance: random.Random) -> Case:
    from arrays import arguments
    from program_text import program_text

    kernel = device.compile(vc.parse(program_text(drawn.program)), **drawn.options)
    given = arguments(drawn.program)
    values = [given[p.name] for p in kernel.program.parameters if p.kind != "out"]
    return Case(kernel, values, drawn.program.grid, chance)


def drawn_cases(device: vc.Device, chance: random.Random) -> list[Case]:
    from oracle import OutOfFuel
    from random_cases import draw_case

    cases = [_of_many_blocks(device, chance)]
    while len(cases) < PROGRAMS:
        try:
            drawn = draw_case(chance.choice(KINDS), chance.randrange(2**40), 0)
        except OutOfFuel:
            continue
        program = drawn.program
        if drawn.options.get("bounds") == "trap" or program.work is not None or program.is_shaped:
            continue
        if drawn.wanted is not None and drawn.wanted.failure is not None:
            continue
        try:
            case = _of_drawn(device, drawn, chance)
        except (vc.UnsupportedError, TypeError):
            continue
        if refused(case.kernel.lowered, case.kernel.bounds) is None and any(result.size for result in case.results[0]):
            cases.append(case)
    return cases


class Place:
    """A result of a ticket, in the memory for all results of its type: what is there before and after the call."""

    def __init__(self, before: np.ndarray[Any, Any] | None, after: np.ndarray[Any, Any]) -> None:
        self.before, self.after = before, after
        self.begin = 0  # bytes

    def in_memory(self, memory: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        part = memory[self.begin : self.begin + self.after.nbytes]
        return part.view(self.after.dtype).reshape(self.after.shape)


def _laid_out(places: list[Place]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The bytes of all places before and after the calls."""
    end = 0
    for place in places:
        place.begin = end
        end += -(-place.after.nbytes // ALIGN) * ALIGN
    before, after = (np.full(end, UNWRITTEN, np.uint8) for _ in range(2))
    for place in places:
        place.in_memory(after)[...] = place.after
        if place.before is not None:
            place.in_memory(before)[...] = place.before
    return before, after


class HostTickets:
    """Each case with each of its sets, so many times, as calls with host arrays."""

    def __init__(self, cases: list[Case], times: int) -> None:
        each = [(case, number) for case in cases for number in range(SETS) for _ in range(times)]
        places = [[Place(None, result) for result in case.results[number]] for case, number in each]
        self._found, self._wanted = _laid_out([place for results in places for place in results])
        self._calls = []
        for (case, number), results in zip(each, places, strict=True):
            outs = tuple(place.in_memory(self._found) for place in results)
            self._calls.append((case, number, outs if len(outs) > 1 else outs[0]))

    def starts(self, worker: Worker) -> list[Start]:
        return [
            partial(worker.submit, case.kernel, *case.sets[number], out=out, grid=case.grid)
            for case, number, out in self._calls
        ]

    def begin(self) -> None:
        self._found.fill(UNWRITTEN)

    def wrong(self) -> int:
        return int(np.count_nonzero(self._found != self._wanted))


class DeviceTickets:
    """The same as calls on device arrays, of which each set has those that are only read once."""

    def __init__(self, device: vc.Device, cases: list[Case], times: int) -> None:
        self._calls: list[tuple[Case, list[Any]]] = []
        self._slabs: list[tuple[vc.DeviceArray, np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        by_type: dict[vc.Type, list[tuple[Place, list[Any], int]]] = {}
        for case in cases:
            for number in range(SETS):
                read = [device.array(v) if isinstance(v, np.ndarray) else v for v in case.sets[number]]
                for _ in range(times):
                    self._calls.append((case, self._row(case, number, read, by_type)))
        for members in by_type.values():
            self._slabs.append(self._slab(device, members))

    @staticmethod
    def _row(case: Case, number: int, read: list[Any], by_type: dict[vc.Type, list[Any]]) -> list[Any]:
        """Its arguments, in which those that are written are missing; these are added to the places."""
        given = iter(zip(case.sets[number], read, strict=True))
        results = iter(case.results[number])
        row: list[Any] = []
        for p in case.kernel.program.parameters:
            value, on_device = (None, None) if p.kind == "out" else next(given)
            if p.is_writable:
                by_type.setdefault(p.type, []).append((Place(value, next(results)), row, len(row)))
            row.append(None if p.is_writable else on_device)
        return row

    @staticmethod
    def _slab(device: vc.Device, members: list[tuple[Place, list[Any], int]]) -> Any:
        before, after = _laid_out([place for place, _, _ in members])
        dtype = members[0][0].after.dtype
        slab = device.array(before.view(dtype))
        for place, row, parameter in members:
            first = place.begin // dtype.itemsize
            row[parameter] = slab[first : first + place.after.size].reshape(place.after.shape)
        return slab, before.view(dtype), after

    def starts(self, worker: Worker) -> list[Start]:
        """One of eight by `call`, the others bound."""
        return [
            partial(worker.call, case.kernel, *row, grid=case.grid)
            if number % 8 == 0
            else worker.bind(case.kernel, *row, grid=case.grid)
            for number, (case, row) in enumerate(self._calls)
        ]

    def begin(self) -> None:
        for slab, before, _ in self._slabs:
            slab.copy_from(before)

    def wrong(self) -> int:
        found = ((slab.numpy().view(np.uint8), wanted) for slab, _, wanted in self._slabs)
        return sum(int(np.count_nonzero(bytes_ != wanted)) for bytes_, wanted in found)


class Row:
    """Tickets that one thread has, all with results of their own."""

    def __init__(self, device: vc.Device, cases: list[Case]) -> None:
        self._tickets = HostTickets(cases, 2), DeviceTickets(device, cases, 6)

    def starts(self, worker: Worker) -> list[Start]:
        return [start for tickets in self._tickets for start in tickets.starts(worker)]

    def run(self, starts: list[Start]) -> int:
        """How many bytes are wrong when all have run, in this order."""
        for tickets in self._tickets:
            tickets.begin()
        pending = [start() for start in starts]
        for one in pending:
            if one is not None:
                one.result()
        return sum(tickets.wrong() for tickets in self._tickets)
