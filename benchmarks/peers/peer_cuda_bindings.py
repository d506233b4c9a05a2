"""cuda.bindings: the driver's own functions from Python, with arguments as values and packed beforehand."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

import cuda.bindings
import numpy as np
import numpy.typing as npt
from cuda.bindings import driver, nvrtc
from harness.inputs import BLOCK, Floats, InputSet
from harness.timing import Line, Task, host_task, measure_blocks, measure_trips

from peers.common import KERNEL, Run, Way, allocation, read_options, report

_TYPES = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_uint)
_DTYPES = (np.uint64, np.uint64, np.uint64, np.float32, np.uint32)


def ok(answer: tuple[Any, ...]) -> Any:
    """The value of a call that must succeed; every function answers with its result code first."""
    if int(answer[0]) != 0:
        raise RuntimeError(f"{answer[0]!r}")
    return answer[1] if len(answer) == 2 else answer[1:]


def compile_kernel(device: Any) -> npt.NDArray[np.uint8]:
    """KERNEL as a cubin for this device."""
    attributes = driver.CUdevice_attribute
    major = ok(driver.cuDeviceGetAttribute(attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = ok(driver.cuDeviceGetAttribute(attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    program = ok(nvrtc.nvrtcCreateProgram(KERNEL.encode(), b"saxpy.cu", 0, [], []))
    options = [f"--gpu-architecture=sm_{major}{minor}".encode()]
    ok(nvrtc.nvrtcCompileProgram(program, len(options), options))
    image = b" " * ok(nvrtc.nvrtcGetCUBINSize(program))
    ok(nvrtc.nvrtcGetCUBIN(program, image))
    return np.frombuffer(image, np.uint8)


class Packed:
    """One set's arguments: as values with types, and as an array of pointers to them."""

    def __init__(self, buffers: list[Any], a: float, n: int) -> None:
        self.buffers = buffers
        self.values = ((*(int(buffer) for buffer in buffers), a, n), _TYPES)
        self.kept = [np.array([value], dtype) for value, dtype in zip(self.values[0], _DTYPES, strict=True)]
        self.table = np.array([value.ctypes.data for value in self.kept], np.uint64)
        self.pointers = self.table.ctypes.data


class Saxpy:
    """The kernel with every set in device memory, on a stream of its own."""

    def __init__(self, run: Run) -> None:
        self.run = run
        ok(driver.cuInit(0))
        device = ok(driver.cuDeviceGet(0))
        ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(device))))
        image = compile_kernel(device)
        self.module = ok(driver.cuModuleLoadData(image.ctypes.data))
        self.function = ok(driver.cuModuleGetFunction(self.module, b"saxpy"))
        self.stream = ok(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value))
        self.grid = -(-run.elements // BLOCK)
        self.bytes = run.elements * 4
        self.sets = [Packed(self.upload(s.x, s.y), s.a, run.elements) for s in run.sets]

    def upload(self, x: Floats, y: Floats) -> list[Any]:
        buffers = [ok(driver.cuMemAlloc(self.bytes)) for _ in range(3)]
        ok(driver.cuMemcpyHtoD(buffers[0], x.ctypes.data, self.bytes))
        ok(driver.cuMemcpyHtoD(buffers[1], y.ctypes.data, self.bytes))
        return buffers

    def synchronize(self) -> None:
        ok(driver.cuStreamSynchronize(self.stream))

    def task(self, id: str, sets: int) -> Task:
        def read(number: int) -> Floats:
            values = np.empty(self.run.elements, np.float32)
            ok(driver.cuMemcpyDtoH(values.ctypes.data, self.sets[number].buffers[2], self.bytes))
            return values

        def poison(number: int) -> None:
            ok(driver.cuMemsetD8(self.sets[number].buffers[2], 0xA5, self.bytes))

        return Task(id, self.run.sets[:sets], read, poison, exact=False)

    def enqueue(self, id: str, parameters: list[Any]) -> Line:
        launch, function, grid, stream = driver.cuLaunchKernel, self.function, self.grid, self.stream
        order = [parameters[i] for i in self.run.order]

        def block() -> None:
            for each in order:
                launch(function, grid, 1, 1, BLOCK, 1, 1, 0, stream, each, 0)

        return measure_blocks(self.task(id, len(self.sets)), block, self.synchronize, self.run.counts)

    def enqueue_values(self, id: str) -> Line:
        return self.enqueue(id, [each.values for each in self.sets])

    def enqueue_packed(self, id: str) -> Line:
        return self.enqueue(id, [each.pointers for each in self.sets])

    def replay(self, id: str) -> Line:
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        ok(driver.cuStreamBeginCapture(self.stream, mode))
        pointers = self.sets[0].pointers
        ok(driver.cuLaunchKernel(self.function, self.grid, 1, 1, BLOCK, 1, 1, 0, self.stream, pointers, 0))
        graph = ok(driver.cuGraphInstantiate(ok(driver.cuStreamEndCapture(self.stream)), 0))
        launch, stream, calls = driver.cuGraphLaunch, self.stream, range(self.run.counts.block_calls)

        def block() -> None:
            for _ in calls:
                launch(graph, stream)

        return measure_blocks(self.task(id, 1), block, self.synchronize, self.run.counts)

    def launch_sync(self, id: str) -> Line:
        launch, function, grid, stream = driver.cuLaunchKernel, self.function, self.grid, self.stream
        synchronize = driver.cuStreamSynchronize

        def trip(number: int) -> int:
            pointers = self.sets[number].pointers
            begin = perf_counter_ns()
            launch(function, grid, 1, 1, BLOCK, 1, 1, 0, stream, pointers, 0)
            synchronize(stream)
            return perf_counter_ns() - begin

        return measure_trips(self.task(id, len(self.sets)), trip, self.run.counts)

    def host(self, id: str) -> Line:
        copy_in, copy_out, launch = driver.cuMemcpyHtoDAsync, driver.cuMemcpyDtoHAsync, driver.cuLaunchKernel
        function, grid, stream, size = self.function, self.grid, self.stream, self.bytes
        x, y, out = self.sets[0].buffers
        packed = [Packed([x, y, out], s.a, self.run.elements) for s in self.run.sets]
        places = [(s.x.ctypes.data, s.y.ctypes.data, s.result.ctypes.data) for s in self.run.sets]

        def trip(number: int) -> int:
            from_x, from_y, to = places[number]
            pointers = packed[number].pointers
            begin = perf_counter_ns()
            copy_in(x, from_x, size, stream)
            copy_in(y, from_y, size, stream)
            launch(function, grid, 1, 1, BLOCK, 1, 1, 0, stream, pointers, 0)
            copy_out(to, out, size, stream)
            driver.cuStreamSynchronize(stream)
            return perf_counter_ns() - begin

        return measure_trips(host_task(id, self.run.sets, exact=False), trip, self.run.counts)

    def chain(self, id: str) -> Line:
        sets = self.run.chain()
        buffers = [[*self.upload(s.x, s.y), ok(driver.cuMemAlloc(self.bytes))] for s in sets]  # x, y, t0, t1
        graphs = [self.record(four, s.a) for four, s in zip(buffers, sets, strict=True)]
        launch, synchronize, stream = driver.cuGraphLaunch, driver.cuStreamSynchronize, self.stream
        last = 2 + (self.run.counts.nodes - 1) % 2

        def trip(number: int) -> int:
            graph = graphs[number]
            begin = perf_counter_ns()
            launch(graph, stream)
            synchronize(stream)
            return perf_counter_ns() - begin

        def read(number: int) -> Floats:
            return self.download(buffers[number][last])

        def poison(number: int) -> None:
            ok(driver.cuMemsetD8(buffers[number][last], 0xA5, self.bytes))

        return measure_trips(Task(id, sets, read, poison, exact=False), trip, self.run.counts.long())

    def record(self, buffers: list[Any], a: float) -> Any:
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        ok(driver.cuStreamBeginCapture(self.stream, mode))
        x, source, *work = buffers
        for node in range(self.run.counts.nodes):
            packed = Packed([x, source, work[node % 2]], a, self.run.elements)
            pointers = packed.pointers
            ok(driver.cuLaunchKernel(self.function, self.grid, 1, 1, BLOCK, 1, 1, 0, self.stream, pointers, 0))
            source = work[node % 2]
        return ok(driver.cuGraphInstantiate(ok(driver.cuStreamEndCapture(self.stream)), 0))

    def download(self, buffer: Any) -> Floats:
        values = np.empty(self.run.elements, np.float32)
        ok(driver.cuMemcpyDtoH(values.ctypes.data, buffer, self.bytes))
        return values

    def large(self, id: str) -> Line:
        return self.large_sets(id, self.run.large())

    def large_pinned(self, id: str) -> Line:
        return self.large_sets(id, [replace(s, x=pinned(s.x), result=pinned(s.result)) for s in self.run.large()])

    def large_sets(self, id: str, sets: list[InputSet]) -> Line:
        """Copies through the copy engine, and the kernel between."""
        copy_in, copy_out, launch = driver.cuMemcpyHtoDAsync, driver.cuMemcpyDtoHAsync, driver.cuLaunchKernel
        function = ok(driver.cuModuleGetFunction(self.module, b"scale"))
        elements, stream = sets[0].x.size, self.stream
        size, grid = elements * 4, -(-elements // BLOCK)
        x, out = (ok(driver.cuMemAlloc(size)) for _ in range(2))
        types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_uint)
        values = [((int(x), int(out), s.a, elements), types) for s in sets]
        places = [(s.x.ctypes.data, s.result.ctypes.data) for s in sets]

        def trip(number: int) -> int:
            (from_x, to), arguments = places[number], values[number]
            begin = perf_counter_ns()
            copy_in(x, from_x, size, stream)
            launch(function, grid, 1, 1, BLOCK, 1, 1, 0, stream, arguments, 0)
            copy_out(to, out, size, stream)
            driver.cuStreamSynchronize(stream)
            return perf_counter_ns() - begin

        return measure_trips(host_task(id, sets), trip, self.run.counts.long())

    def allocate(self, id: str) -> Line:
        stream, allocate, free = self.stream, driver.cuMemAllocAsync, driver.cuMemFreeAsync

        def round_trip(values: Floats) -> Floats:
            buffer, back = ok(allocate(values.nbytes, stream)), np.empty_like(values)
            ok(driver.cuMemcpyHtoDAsync(buffer, values.ctypes.data, values.nbytes, stream))
            ok(driver.cuMemcpyDtoHAsync(back.ctypes.data, buffer, values.nbytes, stream))
            ok(free(buffer, stream))
            self.synchronize()
            return back

        return allocation(
            self.run.counts, id, round_trip, lambda n: free(allocate(n * 4, stream)[1], stream), self.synchronize
        )


def pinned(values: Floats) -> Floats:
    """The values in page-locked memory, which lives as long as the process."""
    address = ok(driver.cuMemHostAlloc(values.nbytes, 0))
    array: Floats = np.ctypeslib.as_array((ctypes.c_float * values.size).from_address(int(address)))
    array[:] = values
    return array


if __name__ == "__main__":
    saxpy = Saxpy(read_options())
    report(
        cuda.bindings.__version__,
        [
            Way("launch_enqueue", "cuLaunchKernel, values", saxpy.enqueue_values),
            Way("launch_enqueue", "cuLaunchKernel, packed", saxpy.enqueue_packed),
            Way("replay_enqueue", "cuGraphLaunch", saxpy.replay),
            Way("launch_sync", "cuLaunchKernel, packed", saxpy.launch_sync),
            Way("host_dispatch", "copies, packed launch", saxpy.host),
            Way("large_host", "copies, launch", saxpy.large),
            Way("large_host", "page-locked, copies, launch", saxpy.large_pinned),
            Way("graph", "captured graph", saxpy.chain),
            Way("alloc_free", "cuMemAllocAsync", saxpy.allocate),
        ],
    )
