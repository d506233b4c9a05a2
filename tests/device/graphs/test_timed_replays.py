"""Graph.timed: a replay that is waited for and measured."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import STREAM_MODES, Emulator, StreamMode

from .. import programs
from ..foreign_library import ForeignStream
from ..stats.delta import Delta
from .graph_checks import N, first, floats

pytestmark = pytest.mark.device
CUDA_ERROR_UNKNOWN = 999
TRIES = 50  # of a short measurement: in each of them the machine may do something else in between


def counter(device: vc.Device, times: int = 1) -> tuple[vc.Graph, vc.DeviceArray]:
    """A graph that adds 1 so many times, and where."""
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))
    with device.record() as graph, graph.repeat(times):
        add.launch(h, one)
    return graph, h


def test_it_runs_the_graph_and_says_how_long_that_took(device: vc.Device) -> None:
    graph, h = counter(device)

    timed = graph.timed()

    assert (first(h), timed.outputs) == (1, None)
    assert timed.wall_ns == timed.enqueue_ns + timed.wait_ns
    assert timed.device_ns > 0
    assert isinstance(timed.device_ns, int)


def test_more_work_takes_longer_and_earlier_work_of_the_stream_does_not_count(device: vc.Device) -> None:
    (short, _), (long, _) = counter(device), counter(device, 3000)
    for graph in (short, long):
        graph.timed()
    stream = device.stream()

    of_long = long.timed().device_ns
    behind = []
    while not behind or (behind[-1] >= of_long / 2 and len(behind) < TRIES):
        long.replay(stream=stream)
        behind.append(short.timed(stream=stream).device_ns)

    assert behind[-1] < of_long / 2, behind


def test_symbols_hold_for_the_replay_that_is_timed(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, out, other = (floats(device, value) for value in (2, 1, 0, 0))
    with device.record() as graph:
        saxpy.launch(x, y, vc.symbol("out", out), vc.symbol("a"))

    with pytest.raises(TypeError, match="a, which has no default"):
        graph.timed()
    graph.timed(a=10.0)
    graph.timed(a=3.0, out=other)
    graph.update(a=1.0)
    graph.timed()

    assert (first(out), first(other)) == (3, 7)


def test_it_counts_as_a_timed_call(device: vc.Device) -> None:
    graph, _ = counter(device)
    device.reset_stats()
    delta = Delta(device)

    times = [graph.timed(), graph.timed(stream=device.stream())]

    assert delta.of("timed_dispatches", "cuda_graph_launches") == (2, 2)
    for name in ("wall", "enqueue", "wait", "device"):
        assert delta.of(f"timed_{name}_ns_total") == (sum(getattr(t, f"{name}_ns") for t in times),)
    assert device.stats().timed_device_ns_max == max(t.device_ns for t in times)


def test_it_is_refused_in_a_recording(device: vc.Device) -> None:
    graph, h = counter(device)

    with device.record() as other, pytest.raises(vc.RecordingError, match="timed"):
        graph.timed()

    other.replay()
    assert first(h) == 0


def test_it_is_refused_on_a_stream_that_is_captured_and_the_capture_goes_on(
    device: vc.Device, stream: ForeignStream
) -> None:
    graph, h = counter(device)

    stream.begin_capture()
    with pytest.raises(ValueError, match="captured"):
        graph.timed(stream=stream)
    graph.replay(stream=stream)
    captured = stream.end_capture()

    captured.replay(stream)
    assert first(h) == 1
    graph.timed(stream=stream)
    assert first(h) == 2
    captured.destroy()


def test_a_failed_assertion_is_raised_and_not_counted(device: vc.Device) -> None:
    kernel = device.compile(programs.guarded())
    x, out = device.array(np.full(8, 5000, np.uint32)), device.zeros(8, vc.u32)
    with device.record() as graph:
        kernel.launch(x, out)
    delta = Delta(device)

    with pytest.raises(vc.KernelAssertionError, match="below 100"):
        graph.timed()

    assert delta.of("timed_dispatches") == (0,)
    x.fill(7)
    graph.timed()
    assert first(out) == 7


@pytest.mark.emulator
@pytest.mark.parametrize("mode", STREAM_MODES)
def test_a_failed_call_leaves_graph_and_device_good(emulator: Emulator, leak_check, mode: StreamMode) -> None:
    emulator.stream_mode(mode)
    with vc.Device("emulator") as device:
        graph, h = counter(device)
        for call, nth in (("cuEventCreate", 1), ("cuEventRecord", 1), ("cuGraphLaunch", 1), ("cuEventRecord", 2)):
            emulator.fail(call, nth=nth, result=CUDA_ERROR_UNKNOWN)
            with pytest.raises(vc.DriverError) as caught:
                graph.timed()
            assert caught.value.op == call
        graph.timed()
        assert first(h) == 2  # where the second event failed the graph ran
    gc.collect()
    assert leak_check.new() == {}
