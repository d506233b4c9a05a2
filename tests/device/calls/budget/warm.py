"""The warm calls that are counted, and a process that makes them while something counts.

    warm.py interposed COUNTER.so N     counts of each way as JSON; COUNTER.so is preloaded
    warm.py instrumented CONTROL.so N   callgrind collects each way by itself
    warm.py by_rows CONTROL.so N        callgrind collects a few launches of so many rows, for each of ROWS

The emulator works inside the enqueuing call, so that a call does the same each time.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import json
import sys
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

import vyre_cuda as vc
from vyre_cuda.runtime.device import default_device
from vyre_cuda.testing.emulator import Emulator

T = TypeVar("T")
CAPTURED = 2.0
Way = Callable[[], object]

ELEMENTS = 64
WIDE = 1100  # more than a block has threads
COPIED = 1024  # elements of f32: 4 KiB
BLOCK = 32
WARM_UP = 100
COLD_STEPS = 3

# Arguments of the kernels whose ways end in a number: so many buffers, or so many scalars beside two buffers.
COUNTS = (16, 17, 64, 254)

# Launches in the graph that is replayed.
REPLAYED = 100

# Ways whose calls are so many launches, for which the emulator needs milliseconds: a few calls show what one costs.
LARGE = ("replay", "replay_stream", "replay_cell")
FEW = 5

# Rows of launches that are one launch.
ROWS = (100, 300)
ROWS_KINDS = ("own", "views")
ROWS_STEPS = 4

# Ways that launch nothing.
WITHOUT_LAUNCH = ("empty", "record", "synchronize", "synchronize_all", "copy_in", "copy_out", "copy_new")

# Ways that go through the streams of the device, under the lock of their list.
LOCKING = ("synchronize_all",)

# Calls of a way in one step.
STEPS = {
    "call_same": 1,
    "call_changed": 2,
    "launch": 2,
    "launch_stream": 2,
    "host_out": 1,
    "host_pinned": 1,
    "host_new": 1,
    "function_new": 1,
    "function_open": 1,
    "function_resident": 1,
    "empty": 1,
    "record": 1,
    "synchronize": 1,
    "synchronize_all": 1,
    "copy_in": 1,
    "copy_out": 1,
    "copy_new": 1,
    "replay": 1,
    "replay_stream": 1,
    "replay_cell": 2,
    "replay_array": 2,
    **{f"launch_buffers_{n}": 2 for n in COUNTS},
    **{f"launch_scalars_{n}": 2 for n in COUNTS},
    **{f"call_buffers_{n}": 2 for n in COUNTS},
    **{f"host_new_{n}": 1 for n in COUNTS},
    **{f"host_outs_{n}": 1 for n in COUNTS},
}


def saxpy() -> vc.Program:
    b = vc.Builder("saxpy", block=BLOCK)
    x = b.input("x", vc.f32)
    y = b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + y[i]
    return b.build()


@vc.kernel(block=BLOCK)
def saxpy_function(x: vc.In[vc.f32], y: vc.In[vc.f32], a: vc.f32):
    out = vc.output(vc.f32, x.size)
    i = vc.global_id.x
    if i < out.size:
        out[i] = a * x[i] + y[i]


@vc.kernel(block=BLOCK)
def open_function(x: vc.In[T], y: vc.In[T], a: vc.const, b: vc.const = 1):
    out = vc.output(T, x.size)
    i = vc.global_id.x
    if i < out.size:
        out[i] = T(a) * x[i] + y[i] * T(b) * CAPTURED


def functions(device: vc.Device) -> Mapping[str, Way]:
    """Calls of kernel functions: one without open parameters, one with a type, a const and a captured number, and one
    with device arrays."""
    default_device._opened[:] = [device]
    host = np.arange(ELEMENTS, dtype=np.float32)
    x = device.array(host)

    def function_new() -> None:
        saxpy_function(host, host, 2.0)

    def function_open() -> None:
        open_function(host, host, a=3)

    def function_resident() -> None:
        saxpy_function(x, x, 2.0)

    return {"function_new": function_new, "function_open": function_open, "function_resident": function_resident}


def turned() -> vc.Program:
    b = vc.Builder("turned", block=BLOCK)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = x[x.size - 1 - i] * a
    return b.build()


def wide(buffers: int, scalars: int) -> vc.Program:
    """So many inputs and one result, of which the last input and the last scalar are used."""
    b = vc.Builder(f"wide_{buffers}_{scalars}", block=BLOCK)
    inputs = [b.input(f"x{i}", vc.f32) for i in range(buffers)]
    out = b.output("out", vc.f32, size=inputs[0].size)
    factors = [b.scalar(f"a{i}", vc.f32) for i in range(scalars)]
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = inputs[-1][i] * factors[-1] if scalars else inputs[-1][i]
    return b.build()


def many_results(count: int) -> vc.Program:
    """One input and so many results, of which the last is all of it."""
    b = vc.Builder(f"many_results_{count}", block=BLOCK)
    x = b.input("x", vc.f32)
    outs = [b.output(f"y{i}", vc.f32, size=x.size) for i in range(count)]
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        for out in outs:
            out[i] = x[i]
    return b.build()


def wide_ways(device: vc.Device, count: int) -> Mapping[str, Way]:
    """Those of kernels with so many arguments."""
    host = np.arange(ELEMENTS, dtype=np.float32)
    buffers, scalars = device.compile(wide(count - 1, 0)), device.compile(wide(1, count))
    x, x2, out = device.array(host), device.array(host + 1), device.empty(ELEMENTS, vc.f32)
    launch, launch_other = buffers.launch, scalars.launch  # a method of its own, which an argument tuple would make
    changed = buffers.bind(*[x] * (count - 1), out)
    numbers = tuple(float(i) for i in range(count))
    first, second = (x, out, *numbers), (x2, out, *numbers)
    once, twice = (*[x] * (count - 1), out), (*[x] * (count - 2), x2, out)
    inputs = (host,) * (count - 1)
    to_many, results = device.compile(many_results(count - 1)), tuple(np.empty((count - 1, ELEMENTS), np.float32))

    def launch_buffers() -> None:
        launch(*once)
        launch(*twice)

    def call_buffers() -> None:
        changed(*once)
        changed(*twice)

    def launch_scalars() -> None:
        launch_other(*first)
        launch_other(*second)

    def host_new() -> None:
        buffers(*inputs)

    def host_outs() -> None:
        to_many(host, out=results)

    found = {"launch_buffers": launch_buffers, "launch_scalars": launch_scalars, "call_buffers": call_buffers}
    found.update({"host_new": host_new, "host_outs": host_outs})
    return {f"{name}_{count}": way for name, way in found.items()}


def doors(device: vc.Device) -> Mapping[str, Way]:
    """What stands around launches: a point in a stream, waits with nothing to wait for, small copies, a replay."""
    kernel = device.compile(saxpy())
    stream = device.stream()
    x, y, out = (device.array(np.arange(ELEMENTS, dtype=np.float32) + i) for i in range(3))
    array, host = device.empty(COPIED, vc.f32), device.pinned_empty(COPIED, vc.f32)
    with device.record() as graph:
        for _ in range(REPLAYED):
            kernel.launch(x, y, out, 2.0)

    with device.record() as given:
        kernel.launch(x, vc.symbol("y"), out, vc.symbol("a", 2.0))
    given.replay(y=y)
    # Blocks of this one read what others wrote, so that its launches stay nodes, and the symbol is a cell.
    turning = device.compile(turned())
    sides = (device.zeros(WIDE, vc.f32), device.zeros(WIDE, vc.f32))
    with device.record(fuse=True) as fused:
        for place in range(REPLAYED):
            turning.launch(*(sides if place % 2 == 0 else sides[::-1]), vc.symbol("a"))
    fused.replay(a=1.0)
    assert fused.node_count == REPLAYED + 1

    def record() -> None:
        stream.record()

    def synchronize() -> None:
        stream.synchronize()

    def synchronize_all() -> None:
        device.synchronize()

    def copy_in() -> None:
        array.copy_from(host)

    def copy_out() -> None:
        array.numpy(out=host)

    def copy_new() -> None:
        array.numpy()

    def replay() -> None:
        graph.replay()

    def replay_stream() -> None:
        graph.replay(stream=stream)

    def replay_cell() -> None:
        fused.replay(a=1.0)
        fused.replay(a=-1.0)

    def replay_array() -> None:
        given.replay(y=x, a=3.0)
        given.replay(y=y)

    return {
        "record": record,
        "synchronize": synchronize,
        "synchronize_all": synchronize_all,
        "copy_in": copy_in,
        "copy_out": copy_out,
        "copy_new": copy_new,
        "replay": replay,
        "replay_stream": replay_stream,
        "replay_cell": replay_cell,
        "replay_array": replay_array,
    }


def ways(device: vc.Device) -> Mapping[str, Way]:
    """Each a function without arguments that makes STEPS calls; arguments change from call to call where it says so."""
    kernel = device.compile(saxpy())
    stream = device.stream()
    values = [np.arange(ELEMENTS, dtype=np.float32) + i for i in range(4)]
    x, y, x2, y2 = (device.array(v) for v in values)
    out, out2 = device.empty(ELEMENTS, vc.f32), device.empty(ELEMENTS, vc.f32)
    host_x, host_y, result = values[0], values[1], np.empty(ELEMENTS, np.float32)
    pinned, pinned_out = device.pinned_empty(ELEMENTS, vc.f32), device.pinned_empty((ELEMENTS,), vc.f32)
    pinned[:] = values[0]
    same = kernel.bind(x, y, out, 2.0, stream=stream)
    changed = kernel.bind(x, y, out, 2.0, stream=stream)

    def call_changed() -> None:
        changed(x, y, out, 2.0)
        changed(x2, y2, out2, 3.0)

    def launch() -> None:
        kernel.launch(x, y, out, 2.0)
        kernel.launch(x2, y2, out2, 3.0)

    def launch_stream() -> None:
        kernel.launch(x, y, out, 2.0, stream=stream)
        kernel.launch(x2, y2, out2, 3.0, stream=stream)

    def host_out() -> None:
        kernel(host_x, host_y, 2.0, out=result)

    def host_pinned() -> None:
        kernel(pinned, pinned, 2.0, out=pinned_out)

    def host_new() -> None:
        kernel(host_x, host_y, 2.0)

    def empty() -> None:
        device.empty(ELEMENTS, vc.f32)

    found = {
        "call_same": same,
        "call_changed": call_changed,
        "launch": launch,
        "launch_stream": launch_stream,
        "host_out": host_out,
        "host_pinned": host_pinned,
        "host_new": host_new,
        **functions(device),
        "empty": empty,
        **doors(device),
    }
    for count in COUNTS:
        found.update(wide_ways(device, count))
    return {name: found[name] for name in STEPS}


def cold(device: vc.Device) -> Way:
    """What is not warm: it allocates, takes locks, reads the clock and makes driver objects, so counters that see
    nothing are found."""

    host = np.arange(ELEMENTS, dtype=np.float32)

    def make() -> None:
        device.stream()
        kernel = device.compile(saxpy())
        kernel.bind(*(device.empty(ELEMENTS, vc.f32) for _ in range(3)), 2.0)
        kernel.submit(host, host, 2.0).result(timeout=60.0)

    return make


def result() -> None:
    """The result of one call, alone."""
    np.empty(ELEMENTS, np.float32)


class Allocator(ctypes.Structure):
    """PyMemAllocatorEx."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")]


def count_blocks(counter: ctypes.CDLL) -> None:
    """Let the counter see what Python allocates, in the domains of memory and of objects."""
    for number, domain in enumerate((1, 2)):
        allocator = Allocator()
        ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(allocator))
        counter.count_blocks(number, ctypes.byref(allocator))
        ctypes.pythonapi.PyMem_SetAllocator(domain, ctypes.byref(allocator))


def steps_of(name: str, steps: int) -> int:
    """How often this way is called where others are called `steps` times."""
    return min(steps, FEW) if name in LARGE else steps


def repeat(way: Way, steps: int) -> None:
    """Call it so often, without making objects."""
    for _ in itertools.repeat(None, steps):
        way()


def interposed(counter: ctypes.CDLL, steps: int) -> None:
    """Print what each way did in so many steps, by the kind of call that was counted."""
    counter.counted_kind.restype = ctypes.c_char_p
    counter.counted_calls.restype = ctypes.c_ulong
    count_blocks(counter)
    found = {}
    with vc.Device("emulator") as device:
        for name, way in {**ways(device), "result": result, "cold": cold(device)}.items():
            if name != "cold":
                repeat(way, steps_of(name, WARM_UP))
            counter.counting_begin()
            repeat(way, steps_of(name, steps))
            counter.counting_end()
            kinds = itertools.takewhile(bool, map(counter.counted_kind, itertools.count()))
            found[name] = {kind.decode(): counter.counted_calls(i) for i, kind in enumerate(kinds)}
    print(json.dumps(found))


def instrumented(control: ctypes.CDLL, steps: int) -> None:
    """Callgrind writes a file for each way, in their order, and a last one for what is not warm."""
    with vc.Device("emulator") as device:
        for name, way in {**ways(device), "cold": cold(device)}.items():
            if name != "cold":
                repeat(way, steps_of(name, WARM_UP))
            control.instrument_begin()
            repeat(way, COLD_STEPS if name == "cold" else steps_of(name, steps))
            control.instrument_end(name.encode())


def arrays_of_rows(device: vc.Device, kind: str, count: int) -> list[tuple[vc.DeviceArray, ...]]:
    """Three for each row: of their own, or views of three large ones."""
    if kind == "own":
        return [tuple(device.zeros(ELEMENTS, vc.f32) for _ in range(3)) for _ in range(count)]
    large = [device.zeros(ELEMENTS * count, vc.f32) for _ in range(3)]
    return [tuple(x[ELEMENTS * i : ELEMENTS * (i + 1)] for x in large) for i in range(count)]


def by_rows(control: ctypes.CDLL, _: int) -> None:
    """Callgrind writes a file for each kind of arrays and number of rows, about ROWS_STEPS launches."""
    with vc.Device("emulator") as device:
        kernel = device.compile(saxpy())
        for kind, count in itertools.product(ROWS_KINDS, ROWS):
            rows = [(*arrays, 2.0) for arrays in arrays_of_rows(device, kind, count)]
            launch = functools.partial(kernel.launch_many, rows)
            repeat(launch, COLD_STEPS)
            control.instrument_begin()
            repeat(launch, ROWS_STEPS)
            control.instrument_end(str(count).encode())


def main(mode: str, library: str, steps: str) -> None:
    gc.disable()
    with Emulator().steered() as emulator:
        emulator.stream_mode("eager")
        {"interposed": interposed, "instrumented": instrumented, "by_rows": by_rows}[mode](
            ctypes.CDLL(library), int(steps)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
