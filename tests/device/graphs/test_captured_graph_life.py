"""How long what a captured replay uses is kept, with drivers that tell of the end of a graph on a thread of theirs."""

from __future__ import annotations

import ctypes
import gc
import time

import numpy as np
import pytest

import vyre_cuda as vc

from .. import programs
from ..foreign_library import ForeignStream, Library
from .graph_checks import first

I32 = np.int32
N = 1 << 12


@pytest.fixture
def device(own_device: vc.Device) -> vc.Device:
    """What other tests had captured may go now; it is not counted here."""
    return own_device


def _full(device: vc.Device, value: int) -> vc.DeviceArray:
    return device.array(np.full(N, value, I32))


def _live_bytes(device: vc.Device) -> int:
    gc.collect()
    device.trim()
    return device.memory_stats().live_bytes


def _live_bytes_come_down_to(device: vc.Device, wanted: int) -> bool:
    end = time.monotonic() + 60
    while _live_bytes(device) > wanted and time.monotonic() < end:
        time.sleep(0.01)
    return _live_bytes(device) == wanted


def test_captures_that_are_dropped_keep_no_arrays(device: vc.Device, stream: ForeignStream) -> None:
    add, h, one = device.compile(programs.add_to()), _full(device, 0), _full(device, 1)
    with device.record() as graph:
        add.launch(vc.symbol("h", h), one)
    before = _live_bytes(device) + h.nbytes  # the graph keeps the values of its latest replay

    for turn in range(60):
        stream.begin_capture()
        graph.replay(stream=stream, h=_full(device, turn))
        captured = stream.end_capture()
        if turn % 2:
            captured.replay(stream)
        captured.destroy()
        if turn % 20 == 19:
            assert _live_bytes_come_down_to(device, before)


def test_a_captured_graph_runs_without_the_recorded_one(device: vc.Device, stream: ForeignStream) -> None:
    add, h = device.compile(programs.add_to()), _full(device, 0)
    one = _full(device, 1)
    with device.record() as graph, graph.repeat(3):
        add.launch(h, one)
    stream.begin_capture()
    graph.replay(stream=stream)
    captured = stream.end_capture()

    del graph, one, add
    gc.collect()
    device.trim()
    _full(device, 100)  # in the place of what was given back, if it was

    captured.replay(stream)
    assert first(h) == 3
    captured.destroy()


def test_what_a_launch_in_flight_uses_is_kept(device: vc.Device, library: Library, stream: ForeignStream) -> None:
    times = 200
    add, h, one = device.compile(programs.add_to()), _full(device, 0), _full(device, 1)
    with device.record() as graph:
        for _ in range(times):
            add.launch(h, vc.symbol("x", one))
    before = _live_bytes(device) + h.nbytes
    executable = ctypes.c_void_p()
    stream.begin_capture()
    graph.replay(stream=stream, x=_full(device, 2))
    captured = stream.end_capture()
    library.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), captured.graph, ctypes.c_uint64(0))

    library.call("cuGraphLaunch", executable, ctypes.c_void_p(stream.handle))
    library.call("cuGraphExecDestroy", executable)
    captured.destroy()
    others = [_full(device, 1000) for _ in range(4)]

    stream.synchronize()
    assert first(h) == 2 * times
    del others
    assert _live_bytes_come_down_to(device, before)
