"""The saxpy kernel of this package, its input sets on the device, and every way of calling it that is measured.

Each way gives the figures of one series. The timed part holds the call and nothing else: arguments are laid out
before. Launches go to a stream of their own, as the twins' do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import TypeAlias

import numpy as np

import vyre_cuda as vc
from harness.inputs import BLOCK, Floats, InputSet
from harness.timing import Counts, Line, Task, host_task, measure_blocks, measure_trips
from vyre_cuda.ptx import Lowered, lower, target_for

# x, y, out and a of one set.
Arguments: TypeAlias = tuple[vc.DeviceArray, vc.DeviceArray, vc.DeviceArray, float]


def program() -> vc.Program:
    """out = a * x + y."""
    b = vc.Builder("saxpy", block=BLOCK)
    x = b.input("x", vc.f32)
    y = b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + y[i]
    return b.build()


def lowered_for(device: vc.Device) -> Lowered:
    """What `device.compile` loads, with the parameter layout."""
    properties = device.properties
    target = target_for(properties.compute_capability, properties.driver_version)
    return lower(program(), target, precision="ieee", bounds="check")


class Saxpy:
    """The compiled kernel with all input sets on the host and on the device."""

    def __init__(self, device: vc.Device, sets: list[InputSet], counts: Counts) -> None:
        self.device = device
        self.kernel = device.compile(program())
        self.sets = sets
        self.counts = counts
        self.stream = device.stream()
        self.nothing = np.full(sets[0].x.size, np.nan, np.float32)
        self.arrays: list[Arguments] = [
            (device.array(s.x), device.array(s.y), device.array(self.nothing), s.a) for s in sets
        ]

    # ---- enqueues: blocks of calls, drained outside of the timing ---------------------------------------------------

    def call_enqueue_same(self, id: str) -> Line:
        call = self.kernel.bind(*self.arrays[0], stream=self.stream)
        calls = range(self.counts.block_calls)

        def block() -> None:
            for _ in calls:
                call()

        return self._blocks(id, block, rotates=False)

    def call_enqueue_changed(self, id: str) -> Line:
        call = self.kernel.bind(*self.arrays[0], stream=self.stream)
        order = self._order()

        def block() -> None:
            for x, y, out, a in order:
                call(x, y, out, a)

        return self._blocks(id, block, rotates=True)

    def launch_enqueue_same(self, id: str) -> Line:
        launch, stream = self.kernel.launch, self.stream
        x, y, out, a = self.arrays[0]
        calls = range(self.counts.block_calls)

        def block() -> None:
            for _ in calls:
                launch(x, y, out, a, stream=stream)

        return self._blocks(id, block, rotates=False)

    def launch_enqueue_changed(self, id: str) -> Line:
        launch, stream, order = self.kernel.launch, self.stream, self._order()

        def block() -> None:
            for x, y, out, a in order:
                launch(x, y, out, a, stream=stream)

        return self._blocks(id, block, rotates=True)

    # ---- round trips on device arrays -------------------------------------------------------------------------------

    def call_sync(self, id: str) -> Line:
        call = self.kernel.bind(*self.arrays[0], stream=self.stream)
        synchronize = self.stream.synchronize

        def trip(_: int) -> int:
            begin = perf_counter_ns()
            call()
            synchronize()
            return perf_counter_ns() - begin

        return measure_trips(self._task(id, rotates=False), trip, self.counts)

    def launch_sync(self, id: str) -> Line:
        launch, stream, arrays = self.kernel.launch, self.stream, self.arrays
        synchronize = stream.synchronize

        def trip(number: int) -> int:
            x, y, out, a = arrays[number]
            begin = perf_counter_ns()
            launch(x, y, out, a, stream=stream)
            synchronize()
            return perf_counter_ns() - begin

        return measure_trips(self._task(id, rotates=True), trip, self.counts)

    # ---- host to host -----------------------------------------------------------------------------------------------

    def host_dispatch_out(self, id: str) -> Line:
        kernel, sets = self.kernel, self.sets

        def trip(number: int) -> int:
            s = sets[number]
            x, y, a, result = s.x, s.y, s.a, s.result
            begin = perf_counter_ns()
            kernel(x, y, a, out=result)
            return perf_counter_ns() - begin

        return measure_trips(host_task(id, sets), trip, self.counts)

    def host_dispatch_new(self, id: str) -> Line:
        kernel, sets = self.kernel, self.sets
        results: list[Floats] = [s.result for s in sets]

        def trip(number: int) -> int:
            s = sets[number]
            x, y, a = s.x, s.y, s.a
            begin = perf_counter_ns()
            result = kernel(x, y, a)
            elapsed = perf_counter_ns() - begin
            results[number] = result
            return elapsed

        task = Task(id, sets, lambda number: results[number], lambda number: results[number].fill(np.nan))
        return measure_trips(task, trip, self.counts)

    # ---- parts ------------------------------------------------------------------------------------------------------

    def _blocks(self, id: str, block: Callable[[], None], *, rotates: bool) -> Line:
        return measure_blocks(self._task(id, rotates=rotates), block, self.stream.synchronize, self.counts)

    def _order(self) -> list[Arguments]:
        return [self.arrays[i % len(self.arrays)] for i in range(self.counts.block_calls)]

    def _task(self, id: str, *, rotates: bool) -> Task:
        def read(number: int) -> Floats:
            values: Floats = self.arrays[number][2].numpy()
            return values

        def poison(number: int) -> None:
            self.arrays[number][2].copy_from(self.nothing)
            self.device.synchronize()

        return Task(id, self.sets if rotates else self.sets[:1], read, poison)


WAYS: Mapping[str, Callable[[Saxpy, str], Line]] = {
    way.__name__: way
    for way in (
        Saxpy.call_enqueue_same,
        Saxpy.call_enqueue_changed,
        Saxpy.launch_enqueue_same,
        Saxpy.launch_enqueue_changed,
        Saxpy.call_sync,
        Saxpy.launch_sync,
        Saxpy.host_dispatch_out,
        Saxpy.host_dispatch_new,
    )
}
