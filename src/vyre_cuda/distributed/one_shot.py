"""Small all-reduces without NCCL: their kernels, and up to which size.

What the kernels do is in one_shot_program.py; how ranks in processes get the memory, in shared_memory.py.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING

from vyre_cuda._native.collective import collective as native
from vyre_cuda.distributed.elements import OPS, numbers_of_types
from vyre_cuda.distributed.one_shot_program import one_shot_program
from vyre_cuda.errors import UnsupportedError
from vyre_cuda.ir.core.types import f32

if TYPE_CHECKING:
    from vyre_cuda._native.collective.collective import Member
    from vyre_cuda.ir.core.types import Type
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.memory.array import DeviceArray

_LEAST = 4096  # bytes: the first size that is measured
_ROUNDS = 15


def most_bytes_of(ranks: int) -> int:
    """The largest array for which there is room: each rank writes it to all others."""
    return (1 << 21) >> ranks.bit_length()


class OneShot:
    """Of those ranks of a group that are in this process; they have the memory. `limit`: up to so many bytes an array
    goes this way."""

    def __init__(
        self, devices: Sequence[Device], members: Sequence[Member], leave: Callable[[], None] = lambda: None
    ) -> None:
        self._devices, self._members = tuple(devices), tuple(members)
        self._ranks = members[0].size
        self.most_bytes = most_bytes_of(self._ranks)
        self.limit = 0
        self.leave = leave  # before the members are closed
        self.together = native.Together(self._members, numbers_of_types())
        self._ready: set[tuple[int, int]] = set()
        self._lock = threading.Lock()

    def set_limit(self, limit: int) -> None:
        """Between two calls of all ranks."""
        for member in self._members:
            member.limit_one_shot(limit)
        self.limit = self.together.limit = limit

    def prepare(self, type_: Type, type_number: int, op: str, op_number: int) -> None:
        """Compile the kernels of all these ranks, before any of them waits for another on its device."""
        if (type_number, op_number) in self._ready:
            return
        with self._lock:
            program = one_shot_program(type_, op, self._ranks, self.most_bytes)
            for device, member in zip(self._devices, self._members, strict=True):
                member.add_one_shot(type_number, op_number, device.compile(program).prepared)
            self._ready.add((type_number, op_number))
            self.together.ready |= 1 << (type_number * len(OPS) + op_number)

    def measured(self, waited_all_reduce: Callable[[int], None]) -> list[tuple[float, float]]:
        """Nanoseconds in one shot and by NCCL for each size of `sizes`; the argument does one all-reduce of so many
        bytes and waits for it."""
        found = []
        for size in self.sizes:
            self.set_limit(self.most_bytes)
            ours = _time(waited_all_reduce, size)
            self.set_limit(0)
            found.append((ours, _time(waited_all_reduce, size)))
        return found

    @property
    def sizes(self) -> list[int]:
        """Those that are measured: powers of two."""
        return [1 << bit for bit in range(_LEAST.bit_length() - 1, self.most_bytes.bit_length())]

    def chosen(self, times: Sequence[tuple[float, float]]) -> int:
        """The largest size up to which NCCL was slower."""
        best = 0
        for size, (ours, other) in zip(self.sizes, times, strict=True):
            if ours > other:
                break
            best = size
        return best

    def limit_for(self, small: int | None, all_reduce: Callable[[list[DeviceArray]], object]) -> int:
        """What the caller asked for, or what is measured. An emulator's times say nothing, so there all that fits goes
        in one shot."""
        if small is not None or self._devices[0].properties.is_emulator:
            return self.most_bytes if small is None else min(small, self.most_bytes)
        arrays = [device.zeros(self.most_bytes // 4, f32) for device in self._devices]

        def work(size: int) -> None:
            all_reduce([array[: size // 4] for array in arrays])
            for device in self._devices:
                device.synchronize()

        return self.chosen(self.measured(work))


def open_one_shot(devices: Sequence[Device], members: Sequence[Member]) -> tuple[OneShot | None, str]:
    """Of ranks that are all in this process; None where these devices cannot access each other's memory, and why."""
    try:
        native.one_shot_open(list(members), most_bytes_of(len(members)))
    except UnsupportedError as error:
        return None, str(error)
    return OneShot(devices, members), ""


def _time(work: Callable[[int], None], size: int) -> float:
    times = []
    for _ in range(_ROUNDS):
        begin = perf_counter_ns()
        work(size)
        times.append(perf_counter_ns() - begin)
    return statistics.median(times)
