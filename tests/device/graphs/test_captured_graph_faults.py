"""Captures that take replays of recorded graphs when something is wrong: refused, failed half-way, dropped."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from ..foreign_library import ForeignStream, Library
from ..launches.test_grid_barrier import rotate
from .test_captured_graphs import first, ones

pytestmark = pytest.mark.emulator


def test_wrong_symbols_are_refused_and_the_capture_goes_on(device: vc.Device, stream: ForeignStream) -> None:
    add = device.compile(programs.add_to())
    h, one = ones(device, value=0), ones(device)
    with device.record() as graph:
        add.launch(h, vc.symbol("x", one))

    stream.begin_capture()
    for kind, symbols in ((TypeError, {"b": 1}), (TypeError, {"x": 1.0}), (ValueError, {"x": h})):
        with pytest.raises(kind):
            graph.replay(stream=stream, **symbols)
    assert stream.frontier() == 0
    graph.replay(stream=stream)
    captured = stream.end_capture()

    captured.replay(stream)
    assert first(h) == 1
    captured.destroy()


CALLS = [  # what fails, and whether it comes before the first node
    ("cuStreamGetCaptureInfo", True),
    ("cuGraphAddMemcpyNode", True),
    ("cuGraphAddMemsetNode", False),
    ("cuGraphAddKernelNode", False),
    ("cuGraphKernelNodeSetAttribute", False),
    ("cuGraphConditionalHandleCreate", False),
    ("cuGraphAddNode", False),
    ("cuStreamUpdateCaptureDependencies", False),
]


def _driver_error(graph: vc.Graph, stream: ForeignStream) -> vc.DriverError | None:
    try:
        graph.replay(stream=stream)
    except vc.DriverError as error:
        return error
    return None


@pytest.mark.thin(3)
@pytest.mark.parametrize(("call", "early"), CALLS)
def test_half_a_replay_is_never_left_in_a_capture(
    emulator: Emulator, leak_check: object, call: str, early: bool
) -> None:
    with vc.Device("emulator") as device, Library().current() as library:
        stream, kernel = library.stream(), device.compile(rotate())
        h, start, never = device.zeros(64, vc.u32), device.array(np.ones(64, np.uint32)), device.zeros(1, vc.u8)
        with device.record() as graph:
            h.copy_from(start)
            start.fill(1)
            with graph.repeat(4, until=never):
                kernel.launch(h)
        failures = 0
        for nth in range(1, 9):
            stream.begin_capture()
            emulator.fail(call, nth=nth, result=999)
            error = _driver_error(graph, stream)
            emulator.reset()
            if error is None:
                break
            failures += 1
            assert (error.op, error.status) == (call, 999)
            if early and nth == 1:
                assert stream.frontier() == 0
                stream.end_capture().destroy()
            else:
                with pytest.raises(RuntimeError):
                    stream.end_capture()
        captured = stream.end_capture()
        captured.replay(stream)
        np.testing.assert_array_equal(np.full(64, 13), h.numpy())
        captured.destroy()
        assert failures > 0
        stream.destroy()


def test_a_capture_that_has_ended_is_told(device: vc.Device, stream: ForeignStream) -> None:
    h = ones(device)
    with device.record() as graph:
        h.fill(2)
    stream.begin_capture()
    with pytest.raises(RuntimeError):
        stream.synchronize()

    with pytest.raises(vc.DriverError, match="INVALIDATED"):
        graph.replay(stream=stream)

    with pytest.raises(RuntimeError):
        stream.end_capture()
    graph.replay(stream=stream)
    assert first(h) == 2


def test_captures_leave_nothing_behind(emulator: Emulator, leak_check: object) -> None:
    """Not when the graph goes, and not when the device is closed first."""
    for close_first in (False, True):
        device = vc.Device("emulator")
        with Library().current() as library:
            stream, kernel = library.stream(), device.compile(rotate())
            h, never = device.zeros(64, vc.u32), device.zeros(1, vc.u8)
            with device.record() as graph, graph.repeat(4, until=never):
                kernel.launch(h)
            for _ in range(50):
                stream.begin_capture()
                graph.replay(stream=stream)
                stream.end_capture().destroy()
            if not close_first:
                del graph
            stream.destroy()
            device.close()
