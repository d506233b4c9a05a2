"""cuda.core: a kernel compiled by Program, `launch` on Buffers, page-locked Buffers for host arrays."""

from __future__ import annotations

import ctypes
from time import perf_counter_ns
from typing import Any

import cuda.core
import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch
from harness.inputs import BLOCK, Floats
from harness.timing import Line, Task, host_task, measure_blocks, measure_trips

from peers.common import KERNEL, Run, Way, read_options, report


class Saxpy:
    """The kernel with every set in device Buffers, and three page-locked Buffers with NumPy views of them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.device = Device()
        self.device.set_current()
        self.stream = self.device.create_stream()
        options = ProgramOptions(std="c++17", arch=f"sm_{self.device.arch}")
        self.kernel = Program(KERNEL, code_type="c++", options=options).compile("cubin").get_kernel("saxpy")
        self.config = LaunchConfig(grid=-(-run.elements // BLOCK), block=BLOCK)
        self.n = np.uint32(run.elements)
        self.bytes = run.elements * 4
        memory = LegacyPinnedMemoryResource()
        self.pinned = [memory.allocate(self.bytes, stream=self.stream) for _ in range(3)]
        self.views = [self.view(buffer) for buffer in self.pinned]
        self.arguments = [self.upload(s.x, s.y, s.a) for s in run.sets]

    def view(self, buffer: Any) -> Floats:
        memory = (ctypes.c_float * self.run.elements).from_address(int(buffer.handle))
        values: Floats = np.ctypeslib.as_array(memory)
        return values

    def upload(self, x: Floats, y: Floats, a: float) -> tuple[Any, ...]:
        buffers = [self.device.allocate(self.bytes, stream=self.stream) for _ in range(3)]
        for buffer, pinned, view, values in zip(buffers, self.pinned, self.views, (x, y), strict=False):
            view[:] = values
            buffer.copy_from(pinned, stream=self.stream)
        self.stream.sync()
        return (*buffers, np.float32(a), self.n)

    def task(self, id: str) -> Task:
        def read(number: int) -> Floats:
            self.pinned[2].copy_from(self.arguments[number][2], stream=self.stream)
            self.stream.sync()
            return self.views[2].copy()

        def poison(number: int) -> None:
            self.views[2].fill(np.nan)
            self.arguments[number][2].copy_from(self.pinned[2], stream=self.stream)
            self.stream.sync()

        return Task(id, self.run.sets, read, poison, exact=False)

    def enqueue(self, id: str) -> Line:
        stream, config, kernel = self.stream, self.config, self.kernel
        order = [self.arguments[i] for i in self.run.order]

        def block() -> None:
            for x, y, out, a, n in order:
                launch(stream, config, kernel, x, y, out, a, n)

        return measure_blocks(self.task(id), block, stream.sync, self.run.counts)

    def launch_sync(self, id: str) -> Line:
        stream, config, kernel = self.stream, self.config, self.kernel

        def trip(number: int) -> int:
            x, y, out, a, n = self.arguments[number]
            begin = perf_counter_ns()
            launch(stream, config, kernel, x, y, out, a, n)
            stream.sync()
            return perf_counter_ns() - begin

        return measure_trips(self.task(id), trip, self.run.counts)

    def host(self, id: str) -> Line:
        stream, config, kernel = self.stream, self.config, self.kernel
        x, y, out, _, n = self.arguments[0]
        pinned_x, pinned_y, pinned_out = self.pinned
        view_x, view_y, view_out = self.views

        def trip(number: int) -> int:
            s, a = self.run.sets[number], self.arguments[number][3]
            begin = perf_counter_ns()
            view_x[:] = s.x
            view_y[:] = s.y
            x.copy_from(pinned_x, stream=stream)
            y.copy_from(pinned_y, stream=stream)
            launch(stream, config, kernel, x, y, out, a, n)
            pinned_out.copy_from(out, stream=stream)
            stream.sync()
            s.result[:] = view_out
            return perf_counter_ns() - begin

        return measure_trips(host_task(id, self.run.sets, exact=False), trip, self.run.counts)


if __name__ == "__main__":
    saxpy = Saxpy(read_options())
    report(
        cuda.core.__version__,
        [
            Way("launch_enqueue", "launch", saxpy.enqueue),
            Way("launch_sync", "launch", saxpy.launch_sync),
            Way("host_dispatch", "page-locked copies, launch", saxpy.host),
        ],
    )
