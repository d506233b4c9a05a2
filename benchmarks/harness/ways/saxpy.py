"""saxpy on 4 KiB arrays: enqueues and round trips on device arrays, host arrays in and out.

The timed part holds the call and nothing else: arguments are laid out before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

import numpy as np

from harness import programs
from harness.inputs import Floats, InputSet, saxpy_sets
from harness.timing import Line, Task, host_task, measure_trips
from harness.ways.base import Bench, SaxpyGroup, pinned_copy
from vyre_cuda.runtime.device import default_device


class Saxpy(SaxpyGroup):
    """Every way of launching, and host dispatch."""

    ROWS = (
        "call_enqueue_same",
        "call_enqueue_changed",
        "launch_enqueue_same",
        "launch_enqueue_changed",
        "call_sync",
        "launch_sync",
        "host_dispatch_out",
        "host_dispatch_new",
        "host_dispatch_function",
        "host_dispatch_pinned",
        "host_await",
    )

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench, programs.saxpy(), saxpy_sets(bench.seed, bench.counts))

    # ---- enqueues: blocks of calls, drained outside of the timing ---------------------------------------------------

    def call_enqueue_same(self, id: str) -> Line:
        return self.call_same(id)

    def call_enqueue_changed(self, id: str) -> Line:
        return self.call_changed(id)

    def launch_enqueue_same(self, id: str) -> Line:
        launch, stream = self.kernel.launch, self.stream
        x, y, out, a = self.arrays[0]
        calls = range(self.counts.block_calls)

        def block() -> None:
            for _ in calls:
                launch(x, y, out, a, stream=stream)

        return self.blocks(id, block, rotates=False)

    def launch_enqueue_changed(self, id: str) -> Line:
        launch, stream, order = self.kernel.launch, self.stream, self.order

        def block() -> None:
            for x, y, out, a in order:
                launch(x, y, out, a, stream=stream)

        return self.blocks(id, block, rotates=True)

    # ---- round trips on device arrays -------------------------------------------------------------------------------

    def call_sync(self, id: str) -> Line:
        call = self.kernel.bind(*self.arrays[0], stream=self.stream)
        synchronize = self.stream.synchronize

        def trip(_: int) -> int:
            begin = perf_counter_ns()
            call()
            synchronize()
            return perf_counter_ns() - begin

        return measure_trips(self.task(id, rotates=False), trip, self.counts)

    def launch_sync(self, id: str) -> Line:
        launch, stream, arrays = self.kernel.launch, self.stream, self.arrays
        synchronize = stream.synchronize

        def trip(number: int) -> int:
            x, y, out, a = arrays[number]
            begin = perf_counter_ns()
            launch(x, y, out, a, stream=stream)
            synchronize()
            return perf_counter_ns() - begin

        return measure_trips(self.task(id, rotates=True), trip, self.counts)

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
        return self.new_results(id, self.kernel)

    def host_dispatch_function(self, id: str) -> Line:
        """The function chooses the default device, which is the one that is measured: the rows after this one would
        have a second open device beside theirs."""
        default_device._opened[:] = [self.device]
        return self.new_results(id, programs.saxpy_function)

    def new_results(self, id: str, kernel: Callable[..., Any]) -> Line:
        sets = self.sets
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

    def host_dispatch_pinned(self, id: str) -> Line:
        device, kernel = self.device, self.kernel
        sets = [
            replace(s, x=pinned_copy(device, s.x), y=pinned_copy(device, s.y), result=pinned_copy(device, s.result))
            for s in self.sets
        ]

        def trip(number: int) -> int:
            s = sets[number]
            x, y, a, result = s.x, s.y, s.a, s.result
            begin = perf_counter_ns()
            kernel(x, y, a, out=result)
            return perf_counter_ns() - begin

        return measure_trips(host_task(id, sets), trip, self.counts)

    def host_await(self, id: str) -> Line:
        """The time from the call to its result inside of a coroutine; the loop has nothing else to do."""
        kernel, sets, loop = self.kernel, self.sets, asyncio.new_event_loop()

        async def call(s: InputSet) -> int:
            x, y, a, result = s.x, s.y, s.a, s.result
            begin = perf_counter_ns()
            await kernel.submit(x, y, a, out=result)
            return perf_counter_ns() - begin

        def trip(number: int) -> int:
            return loop.run_until_complete(call(sets[number]))

        try:
            return measure_trips(host_task(id, sets), trip, self.counts)
        finally:
            loop.close()
