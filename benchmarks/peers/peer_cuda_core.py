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

from peers.common import KERNEL, Run, Way, allocation, read_options, report


class Saxpy:
    """The kernel with every set in device Buffers, and three page-locked Buffers with NumPy views of them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.device = Device()
        self.device.set_current()
        self.stream = self.device.create_stream()
        options = ProgramOptions(std="c++17", arch=f"sm_{self.device.arch}")
        self.module = Program(KERNEL, code_type="c++", options=options).compile("cubin")
        self.kernel = self.module.get_kernel("saxpy")
        self.config = LaunchConfig(grid=-(-run.elements // BLOCK), block=BLOCK)
        self.n = np.uint32(run.elements)
        self.bytes = run.elements * 4
        self.memory = LegacyPinnedMemoryResource()
        self.pinned = [self.memory.allocate(self.bytes, stream=self.stream) for _ in range(3)]
        self.views = [self.view(buffer) for buffer in self.pinned]
        self.arguments = [self.upload(s.x, s.y, s.a) for s in run.sets]

    def view(self, buffer: Any) -> Floats:
        memory = (ctypes.c_float * (buffer.size // 4)).from_address(int(buffer.handle))
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

    def chain(self, id: str) -> Line:
        sets = self.run.chain()
        arguments = [self.upload(s.x, s.y, s.a) for s in sets]
        work = [[a[2], self.device.allocate(self.bytes, stream=self.stream)] for a in arguments]
        graphs = [self.record(a, w) for a, w in zip(arguments, work, strict=True)]
        stream, last = self.stream, (self.run.counts.nodes - 1) % 2

        def trip(number: int) -> int:
            graph = graphs[number]
            begin = perf_counter_ns()
            graph.launch(stream)
            stream.sync()
            return perf_counter_ns() - begin

        def read(number: int) -> Floats:
            self.pinned[2].copy_from(work[number][last], stream=stream)
            stream.sync()
            return self.views[2].copy()

        def poison(number: int) -> None:
            self.views[2].fill(np.nan)
            work[number][last].copy_from(self.pinned[2], stream=stream)
            stream.sync()

        return measure_trips(Task(id, sets, read, poison, exact=False), trip, self.run.counts.long())

    def record(self, arguments: tuple[Any, ...], work: list[Any]) -> Any:
        x, source, _, a, n = arguments
        builder = self.device.create_graph_builder()
        builder.begin_building()
        for node in range(self.run.counts.nodes):
            launch(builder, self.config, self.kernel, x, source, work[node % 2], a, n)
            source = work[node % 2]
        return builder.end_building().complete()

    def large(self, id: str) -> Line:
        """Page-locked Buffers of the caller, copied to the device and back."""
        sets, stream, kernel = self.run.large(), self.stream, self.module.get_kernel("scale")
        size = sets[0].x.nbytes
        config, n = LaunchConfig(grid=-(-sets[0].x.size // BLOCK), block=BLOCK), np.uint32(sets[0].x.size)
        hosts = [[self.memory.allocate(size, stream=stream) for _ in range(2)] for _ in sets]
        views = [[self.view(buffer) for buffer in pair] for pair in hosts]
        x, out = (self.device.allocate(size, stream=stream) for _ in range(2))
        scalars = [np.float32(s.a) for s in sets]
        for s, (view, _) in zip(sets, views, strict=True):
            view[:] = s.x

        def trip(number: int) -> int:
            (host_x, host_out), a = hosts[number], scalars[number]
            begin = perf_counter_ns()
            x.copy_from(host_x, stream=stream)
            launch(stream, config, kernel, x, out, a, n)
            host_out.copy_from(out, stream=stream)
            stream.sync()
            return perf_counter_ns() - begin

        task = Task(id, sets, lambda number: views[number][1], lambda number: views[number][1].fill(np.nan))
        return measure_trips(task, trip, self.run.counts.long())

    def allocate(self, id: str) -> Line:
        device, stream = self.device, self.stream

        def round_trip(values: Floats) -> Floats:
            buffer, host = device.allocate(values.nbytes, stream=stream), self.memory.allocate(values.nbytes)
            self.view(host)[:] = values
            buffer.copy_from(host, stream=stream)
            stream.sync()
            self.view(host).fill(np.nan)
            host.copy_from(buffer, stream=stream)
            stream.sync()
            return self.view(host).copy()

        def allocate(elements: int) -> None:
            device.allocate(elements * 4, stream=stream).close()

        return allocation(self.run.counts, id, round_trip, allocate, stream.sync)


if __name__ == "__main__":
    saxpy = Saxpy(read_options())
    report(
        cuda.core.__version__,
        [
            Way("launch_enqueue", "launch", saxpy.enqueue),
            Way("launch_sync", "launch", saxpy.launch_sync),
            Way("host_dispatch", "page-locked copies, launch", saxpy.host),
            Way("large_host", "page-locked, copies, launch", saxpy.large),
            Way("graph", "captured graph", saxpy.chain),
            Way("alloc_free", "allocate, close", saxpy.allocate),
        ],
    )
