"""Graphs when something fails: every driver call of making and replaying one, closed devices, order of release."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import STREAM_MODES, Emulator, StreamMode

from .. import programs

pytestmark = pytest.mark.emulator

N = 300
UNKNOWN = 999

CALLS = [
    "cuGraphCreate",
    "cuGraphAddKernelNode",
    "cuGraphAddMemcpyNode",
    "cuGraphAddMemsetNode",
    "cuGraphAddNode",
    "cuGraphConditionalHandleCreate",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphExecKernelNodeSetParams",
    "cuGraphExecMemcpyNodeSetParams",
    "cuGraphExecMemsetNodeSetParams",
    "cuModuleLoadDataEx",
    "cuModuleGetFunction",
]


class Scene:
    """Steps of every kind, on arrays that tell what ran."""

    def __init__(self, device: vc.Device) -> None:
        self.device = device
        self.add = device.compile(programs.add_to())
        self.h, self.one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))
        self.twos = device.array(np.full(N, 2, np.int32))
        self.cleared, self.never = device.zeros(N, vc.i32), device.zeros(1, vc.u32)
        self.pinned = device.pinned_empty(N, vc.i32)
        self.pinned[:] = 5
        self.other = device.pinned_empty(N, vc.i32)
        self.other[:] = 6

    def record(self) -> vc.Graph:
        with self.device.record() as graph:
            self.h.copy_from(vc.symbol("start", self.pinned))
            self.cleared.fill(vc.symbol("value", 1))
            with graph.repeat(3, until=self.never):
                self.add.launch(self.h, vc.symbol("x", self.one))
        return graph

    def check(self, start: int, value: int, x: int) -> None:
        np.testing.assert_array_equal(np.full(N, start + 3 * x), self.h.numpy())
        np.testing.assert_array_equal(np.full(N, value), self.cleared.numpy())


def until_it_works(action) -> tuple[object, int]:
    for failures in range(20):
        try:
            return action(), failures
        except (vc.DriverError, vc.ResourceError, vc.CompileError):
            gc.collect()
    raise AssertionError("it never worked")


@pytest.mark.thin(5)
@pytest.mark.parametrize("call", CALLS)
def test_every_failing_call_is_told_and_the_next_try_works(emulator: Emulator, leak_check: object, call: str) -> None:
    with vc.Device("emulator") as device:
        scene = Scene(device)
        told = 0
        for nth in range(1, 12):
            emulator.fail(call, nth=nth, result=UNKNOWN)
            graph, failures = until_it_works(scene.record)
            told += failures
            for symbols, wanted in (
                ({"start": scene.other, "value": 2, "x": scene.twos}, (6, 2, 2)),
                ({}, (5, 1, 1)),
            ):
                _, failures = until_it_works(lambda g=graph, s=symbols: g.replay(**s))
                told += failures
                emulator.reset()
                scene.check(*wanted)
            del graph
        assert told > 0


OUT_OF_MEMORY = 2


def test_where_the_driver_has_no_room_for_a_graph_idle_blocks_are_freed(emulator: Emulator) -> None:
    with vc.Device("emulator") as device:
        scene = Scene(device)
        device.empty(1 << 20, vc.u8)  # idle from here on
        assert device.memory_stats().idle_bytes >= 1 << 20
        emulator.fail("cuGraphInstantiateWithFlags", result=OUT_OF_MEMORY)
        scene.record().replay()
        scene.check(5, 1, 1)
        assert device.memory_stats().idle_bytes < 1 << 20


def test_a_graph_for_which_there_is_no_room_is_refused_in_words(emulator: Emulator) -> None:
    with vc.Device("emulator") as device:
        scene = Scene(device)
        emulator.fail("cuGraphInstantiateWithFlags", result=OUT_OF_MEMORY, repeat=True)
        with pytest.raises(vc.ResourceError, match=r"no room for a graph of .* bytes are free on device \d"):
            scene.record()
        emulator.reset()
        scene.record().replay()
        scene.check(5, 1, 1)


@pytest.mark.thin(3)
@pytest.mark.parametrize("mode", STREAM_MODES)
def test_whatever_is_dropped_first_nothing_is_leaked(emulator: Emulator, leak_check: object, mode: StreamMode) -> None:
    emulator.stream_mode(mode)
    for order in range(3):
        device = vc.Device("emulator")
        scene = Scene(device)
        graph = scene.record()
        recorded = scene.add.record(np.zeros(3, np.int32), np.ones(3, np.int32))
        stream = device.stream()
        graph.replay(stream=stream)
        graph.replay(x=device.array(np.ones(N, np.int32)))  # gone at once
        recorded.replay()
        if order == 0:
            device.close()
            del graph, scene
        elif order == 1:
            del scene
            gc.collect()
            graph.replay(stream=stream)
            del stream, graph
        else:
            del graph
            scene.check(5, 1, 1)
        device.close()
        del recorded


def test_a_closed_device_refuses_its_graphs(emulator: Emulator, leak_check: object) -> None:
    device = vc.Device("emulator")
    graph = Scene(device).record()
    device.close()

    for use in (graph.replay, lambda: graph.replay(value=3), lambda: graph.update(value=3)):
        with pytest.raises(vc.DeviceUnavailableError):
            use()


def test_a_lost_device_is_told_and_nothing_is_leaked(emulator: Emulator, leak_check: object) -> None:
    device = vc.Device("emulator")
    graph = Scene(device).record()
    emulator.set("lost", 1)
    with pytest.raises(vc.DeviceLostError):
        graph.replay()
    with pytest.raises(vc.DeviceLostError):
        graph.replay(value=3)
    del graph
    device.close()


def test_an_old_driver_has_no_loops_that_end_on_the_device(emulator: Emulator, leak_check: object) -> None:
    emulator.set("driver_version", 12030)
    with vc.Device("emulator") as device:
        stop, h = device.zeros(1, vc.u32), device.zeros(1, vc.i32)
        with pytest.raises(vc.UnsupportedError) as caught, device.record() as graph, graph.repeat(until=stop):
            h.fill(1)
        assert caught.value.capability == "conditional_nodes"
        with device.record() as graph, graph.repeat(5000):
            h.fill(1)
        assert graph.node_count == 5000


def test_work_in_flight_keeps_the_memory_of_a_dropped_graph(emulator: Emulator, leak_check: object) -> None:
    emulator.stream_mode("lazy")
    with vc.Device("emulator") as device:
        add = device.compile(programs.add_to())
        h, stream, one = device.zeros(N, vc.i32), device.stream(), device.array(np.ones(N, np.int32))
        with device.record() as graph:
            add.launch(h, vc.symbol("x", one))
        graph.replay(stream=stream, x=device.array(np.full(N, 7, np.int32)))
        del graph
        gc.collect()
        device.array(np.full(N, 99, np.int32))
        np.testing.assert_array_equal(np.full(N, 7), h.numpy())


def test_a_graph_that_is_made_anew_comes_behind_its_earlier_replays(emulator: Emulator, leak_check: object) -> None:
    emulator.stream_mode("lazy")
    with vc.Device("emulator") as device:
        saxpy, x, out = device.compile(programs.saxpy()), device.zeros(N, vc.f32), device.zeros(N, vc.f32)
        h, one, two = (device.array(np.full(N, value, np.int32)) for value in (0, 1, 2))
        with device.record() as graph:
            h.copy_from(vc.symbol("source", one))
            saxpy.launch(vc.symbol("x", x), vc.symbol("y", x), vc.symbol("out", out), 1.0)
        streams = [device.stream() for _ in range(3)]
        device.synchronize()

        before = emulator.count("cuGraphInstantiateWithFlags")
        graph.replay(stream=streams[0])
        graph.replay(stream=streams[1], source=two, x=x[:0], y=x[:0], out=out[:0])
        graph.replay(stream=streams[2])
        graph.replay(source=two, x=x[:0], y=x[:0], out=out[:0])
        assert emulator.count("cuGraphInstantiateWithFlags") == before + 3
        np.testing.assert_array_equal(np.full(N, 2), h.numpy())
        for stream in streams:
            stream.synchronize()
        np.testing.assert_array_equal(np.full(N, 2), h.numpy())


@pytest.mark.parametrize("call", ["cuGraphLaunch", "cuStreamWaitEvent"])
def test_a_replay_that_fails_leaves_the_order_to_the_next_one(
    emulator: Emulator, leak_check: object, call: str
) -> None:
    """The stream that failed is behind the replays of the graph before; that of the next replay is so by itself."""
    emulator.stream_mode("lazy")
    with vc.Device("emulator") as device:
        saxpy, x, out = device.compile(programs.saxpy()), device.zeros(N, vc.f32), device.zeros(N, vc.f32)
        h, one, two = (device.array(np.full(N, value, np.int32)) for value in (0, 1, 2))
        with device.record() as graph:
            h.copy_from(vc.symbol("source", one))
            saxpy.launch(vc.symbol("x", x), vc.symbol("y", x), vc.symbol("out", out), 1.0)
        streams = [device.stream() for _ in range(3)]
        other = {"source": two, "x": x[:0], "y": x[:0], "out": out[:0]}
        device.synchronize()

        graph.replay(stream=streams[0])
        emulator.fail(call, result=UNKNOWN)
        with pytest.raises(vc.DriverError):
            graph.replay(stream=streams[1], **other)
        before = emulator.count("cuGraphInstantiateWithFlags")
        graph.replay(stream=streams[2], **other)
        assert emulator.count("cuGraphInstantiateWithFlags") == before
        for stream in reversed(streams):
            stream.synchronize()
        np.testing.assert_array_equal(np.full(N, 2), h.numpy())
