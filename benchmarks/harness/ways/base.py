"""What every group of ways has: a device, the counts, and a word for what is not there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

import vyre_cuda as vc
from harness.counts import Counts
from harness.inputs import Floats, InputSet
from harness.timing import Line, Task, measure_blocks

# x, y, out and a of one set.
Arguments: TypeAlias = tuple[vc.DeviceArray, vc.DeviceArray, vc.DeviceArray, float]


class NotThere(Exception):
    """The package does not have what a row is about."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What a worker gives its groups. `core` is the one that short calls run on, None for any."""

    device: vc.Device
    seed: int
    counts: Counts
    core: int | None


class Group:
    """Ways with one set-up. Each name in ROWS is a method that measures the row of that name, given its id."""

    ROWS: ClassVar[tuple[str, ...]]
    ONE_CORE: ClassVar[bool] = False

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.device = bench.device
        self.counts = bench.counts

    def measure(self, id: str) -> Line:
        line: Line = getattr(self, id)(id)
        return line


class SaxpyGroup(Group):
    """The kernel with every input set in device memory; launches go to a stream of their own, as the twins' do."""

    ONE_CORE = True

    def __init__(self, bench: Bench, program: vc.Program, sets: list[InputSet]) -> None:
        super().__init__(bench)
        self.kernel = self.device.compile(program)
        self.sets = sets
        self.stream = self.device.stream()
        self.nothing = np.full(sets[0].x.size, np.nan, np.float32)
        self.arrays: list[Arguments] = [
            (self.device.array(s.x), self.device.array(s.y), self.device.array(self.nothing), s.a) for s in sets
        ]

    @property
    def order(self) -> list[Arguments]:
        """The arguments of each call of a block."""
        return [self.arrays[i % len(self.arrays)] for i in range(self.counts.block_calls)]

    def call_same(self, id: str) -> Line:
        """Blocks of a bound call with nothing changed."""
        call = self.kernel.bind(*self.arrays[0], stream=self.stream)
        calls = range(self.counts.block_calls)

        def block() -> None:
            for _ in calls:
                call()

        return self.blocks(id, block, rotates=False)

    def call_changed(self, id: str) -> Line:
        """Blocks of a bound call with all arguments changed."""
        call = self.kernel.bind(*self.arrays[0], stream=self.stream)
        order = self.order

        def block() -> None:
            for x, y, out, a in order:
                call(x, y, out, a)

        return self.blocks(id, block, rotates=True)

    def blocks(self, id: str, block: Callable[[], None], *, rotates: bool) -> Line:
        return measure_blocks(self.task(id, rotates=rotates), block, self.stream.synchronize, self.counts)

    def task(self, id: str, *, rotates: bool) -> Task:
        def read(number: int) -> Floats:
            values: Floats = self.arrays[number][2].numpy()
            return values

        def poison(number: int) -> None:
            self.arrays[number][2].copy_from(self.nothing)
            self.device.synchronize()

        return Task(id, self.sets if rotates else self.sets[:1], read, poison)


def need(owner: Any, name: str) -> Any:
    """An attribute that an older or unfinished package may lack."""
    try:
        return getattr(owner, name)
    except AttributeError:
        kind = owner.__name__ if isinstance(owner, type) or hasattr(owner, "__path__") else type(owner).__name__
        raise NotThere(f"{kind}.{name}") from None


def pinned_copy(device: vc.Device, values: Floats) -> Floats:
    """The values in page-locked memory."""
    array: Floats = need(device, "pinned_empty")(values.size, vc.f32)
    array[:] = values
    return array


def use_cores(cores: Sequence[int]) -> None:
    """Run the calling thread on these only; no cores: it stays where it is."""
    if cores:
        os.sched_setaffinity(0, cores)
