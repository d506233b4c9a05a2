"""A captured replay has cells and temporary arrays of its own, which no other replay of the graph touches."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from ..foreign_library import RELAXED, CapturedGraph, ForeignStream, Library
from .cell_kernels import WIDE, turned
from .fused_kernels import scaled
from .graph_checks import first, floats

# Waits until the word at `flag` is not 0. `t` is only there to be ordered with.
WAIT = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry wait_for(.param .u64 flag, .param .u64 t)
{
  .reg .pred %p; .reg .b64 %rd; .reg .b32 %r;
  ld.param.u64 %rd, [flag];
again:
  ld.volatile.global.u32 %r, [%rd];
  setp.eq.u32 %p, %r, 0;
  @%p bra again;
  ret;
}
"""


class Gate:
    """A word on the device that another library sets, past every order."""

    def __init__(self, device: vc.Device, library: Library) -> None:
        self.library = library
        self.word = device.zeros(1, vc.u32)
        self.address = self.word._alive().address + self.word.offset
        self.stream = library.stream()

    def open(self) -> None:
        one = np.ones(1, np.uint32)
        self.library.call(
            "cuMemcpyHtoDAsync",
            ctypes.c_uint64(self.address),
            ctypes.c_void_p(one.ctypes.data),
            ctypes.c_size_t(4),
            ctypes.c_void_p(self.stream.handle),
        )
        self.stream.synchronize()


class Launched:
    """A captured graph that runs."""

    def __init__(self, captured: CapturedGraph, stream: ForeignStream) -> None:
        self.library, self.stream = captured.library, stream
        self.executable = ctypes.c_void_p()
        self.library.call(
            "cuGraphInstantiateWithFlags", ctypes.byref(self.executable), captured.graph, ctypes.c_uint64(0)
        )
        self.library.call("cuGraphLaunch", self.executable, ctypes.c_void_p(stream.handle))

    def end(self) -> None:
        self.stream.synchronize()
        self.library.call("cuGraphExecDestroy", self.executable)


@pytest.fixture
def parallel(device: vc.Device) -> Iterator[None]:
    """Streams run beside each other, as on a GPU."""
    if device.properties.is_emulator:
        Emulator().stream_mode("threaded")
    yield
    if device.properties.is_emulator:
        Emulator().reset()


class Recording:
    """y = x * a * a by way of a temporary array, turned round twice; in between it waits at a gate."""

    def __init__(self, device: vc.Device, *, tables: int = 0) -> None:
        kernel, wait = device.compile(turned()), device.load(WAIT, "wait_for", signature="ptr ptr")
        self.x, self.opened = floats(device, 1, WIDE), device.array(np.ones(1, np.uint32))
        self.y = floats(device, 0, WIDE)
        self.others = [floats(device, 0, WIDE) for _ in range(20 if tables else 0)]
        many = [device.compile(scaled(f"scaled{k}")) for k in range(tables)]
        with device.record(fuse=True) as graph:
            t = graph.temporary(WIDE, vc.f32)
            kernel.launch(self.x, t, vc.symbol("a", 1.0))
            wait.launch(vc.symbol("gate", self.opened), t, grid=1, block=1)
            for k, other in enumerate(self.others):
                many[k % tables].launch(t, other, vc.symbol("a"), 0.0)
            kernel.launch(t, vc.symbol("y", self.y), vc.symbol("a"))
        graph.compile()
        self.graph = graph
        device.synchronize()

    def capture(self, stream: ForeignStream, **values: Any) -> CapturedGraph:
        stream.begin_capture(RELAXED)
        self.graph.replay(stream=stream, **values)
        return stream.end_capture()


@pytest.mark.parametrize("tables", [0, 1, 2])  # the kernels of a launch with a table
@pytest.mark.usefixtures("parallel")
def test_no_replay_sees_what_another_has_in_its_own_memory(
    device: vc.Device, library: Library, stream: ForeignStream, tables: int
) -> None:
    recording = Recording(device, tables=tables)
    assert "symbol a is a cell" in recording.graph.explain()
    assert "with a table of 20 rows" in recording.graph.explain() or not tables
    other_stream, third = library.stream(), device.stream()
    gates = [Gate(device, library) for _ in range(2)]
    results = [floats(device, 0, WIDE) for _ in range(4)]
    device.synchronize()
    one = recording.capture(stream, a=2.0, gate=gates[0].word, y=results[0])
    two = recording.capture(other_stream, a=3.0, gate=gates[1].word, y=results[1])

    # Both have written their cell and temporary array, in this order or the other, when the gates open.
    running = [Launched(one, stream), Launched(two, other_stream)]
    recording.graph.replay(stream=third, a=5.0, y=results[2])
    third.synchronize()
    gates[1].open()
    running[1].end()
    recording.graph.replay(stream=third, a=7.0, y=results[3])
    third.synchronize()
    gates[0].open()
    running[0].end()

    assert [first(each) for each in results] == [4, 9, 25, 49]
    for captured in (one, two):
        captured.destroy()
    for each in (*gates, other_stream):
        (each.stream if isinstance(each, Gate) else each).destroy()


@pytest.mark.emulator
def test_what_a_captured_replay_reads_unwritten_is_named() -> None:
    """Of its own temporary arrays, too."""
    with vc.Device("emulator", check="initialized") as device, Library().current() as library:
        kernel = device.compile(turned())
        x, y = floats(device, 1, WIDE), floats(device, 0, WIDE)
        with device.record() as graph:
            t = graph.temporary(WIDE, vc.f32)
            kernel.launch(x[1:], t[1:], 1.0)
            kernel.launch(t, y, 1.0)
        device.synchronize()
        stream = library.stream()
        for _ in range(2):
            stream.begin_capture(RELAXED)
            graph.replay(stream=stream)
            captured = stream.end_capture()
            captured.replay(stream)
            with pytest.raises(vc.UninitializedError) as caught:
                device.synchronize()
            assert caught.value.buffer == "x"
            assert caught.value.index == 0
            captured.destroy()
        stream.destroy()


@pytest.mark.emulator
@pytest.mark.parametrize("call", ["cuMemAlloc", "cuMemsetD8Async", "cuMemcpyHtoDAsync", "cuGraphAddKernelNode"])
def test_a_failure_on_the_way_leaves_no_half_replay(emulator: Emulator, leak_check: object, call: str) -> None:
    with vc.Device("emulator") as device, Library().current() as library:
        stream, recording = library.stream(), Recording(device, tables=True)
        y = floats(device, 0, WIDE)
        failures = 0
        for nth in range(1, 9):
            device.synchronize()
            device.trim()
            stream.begin_capture(RELAXED)
            emulator.fail(call, nth=nth, result=2 if call == "cuMemAlloc" else 999, repeat=call == "cuMemAlloc")
            try:
                recording.graph.replay(stream=stream, a=2.0, y=y)
                failed = False
            except (vc.Error, MemoryError):
                failed = True
            emulator.reset()
            failures += failed
            captured = None
            try:
                captured = stream.end_capture()
            except RuntimeError:
                assert failed
            if captured is not None:
                captured.replay(stream)
                assert first(y) == (0 if failed else 4)
                captured.destroy()
            if not failed:
                break
        assert failures > 0
        assert not failed
        stream.destroy()


def gate_keeper() -> vc.Program:
    """Waits until flag[0] is not 0, and leaves t as it is."""
    b = vc.Builder("gate_keeper", block=1)
    flag, t = b.inout("flag", vc.u32), b.inout("t", vc.f32)
    b.work(1)
    with b.while_(lambda: b.atomic_load(flag, 0) == 0):
        pass
    t[0] = t[0]
    return b.build()


@pytest.mark.usefixtures("parallel")
def test_replays_of_a_bundle_have_memory_of_their_own(
    device: vc.Device, library: Library, stream: ForeignStream, tmp_path: Path
) -> None:
    kernel, wait = device.compile(turned()), device.compile(gate_keeper())
    opened, x, y = device.array(np.ones(1, np.uint32)), floats(device, 1, WIDE), floats(device, 0, WIDE)
    with device.record(fuse=True) as graph:
        t = graph.temporary(WIDE, vc.f32)
        kernel.launch(x, t, vc.symbol("a", 1.0))
        wait.launch(vc.symbol("gate", opened), t)
        kernel.launch(t, vc.symbol("y", y), vc.symbol("a"))
    graph.compile()
    graph.export(tmp_path / "gate.vyre", "gate")
    loaded = vc.load_bundle(tmp_path / "gate.vyre").on(device).graph("gate")
    assert len(loaded) == 4  # with the node that writes the cell
    other_stream, third = library.stream(), device.stream()
    gates = [Gate(device, library) for _ in range(2)]
    results = [floats(device, 0, WIDE) for _ in range(3)]
    device.synchronize()
    captured = []
    for on, a, gate, result in zip((stream, other_stream), (2.0, 3.0), gates, results, strict=False):
        on.begin_capture(RELAXED)
        loaded.replay(stream=on, a=a, gate=gate.word, y=result)
        captured.append(on.end_capture())

    running = [Launched(captured[0], stream), Launched(captured[1], other_stream)]
    loaded.replay(stream=third, a=5.0, y=results[2])
    third.synchronize()
    for gate, one in zip(gates[::-1], running[::-1], strict=True):
        gate.open()
        one.end()

    assert [first(each) for each in results] == [4, 9, 25]
    for one in captured:
        one.destroy()
    for each in (*gates, other_stream):
        (each.stream if isinstance(each, Gate) else each).destroy()
