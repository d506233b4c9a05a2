"""Calls, launches, replays and compilations are ranges for profilers, while somebody wants that.

A module of the same name stands for the package nvtx here; test_nvtx.py has the real one.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs

pytestmark = [pytest.mark.device, pytest.mark.emulator]

HERE = Path(__file__).name
N = 256

NVTX = """
events = []
depth = 0
def push_range(message=None, domain=None, **_):
    events.append((message, domain))
def pop_range(domain=None):
    events.append("pop")
"""


@pytest.fixture
def ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What a module with the two functions of the package nvtx was told."""
    (tmp_path / "nvtx.py").write_text(NVTX)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nvtx", raising=False)
    events: list[object] = importlib.import_module("nvtx").events
    return events


def test_calls_and_launches_are_ranges(
    ranges: list[object], device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...]
) -> None:
    x = np.ones(N, np.float32)
    call = saxpy.bind(*arrays, 2.0)
    with device.record() as graph:
        saxpy.launch(*arrays, 2.0)
    device.nvtx_ranges = True
    steps: list[tuple[str, Callable[[], object]]] = [
        ("vyre.cuda.host_dispatch: saxpy", lambda: saxpy(x, x, 2.0)),
        ("vyre.cuda.host_dispatch: saxpy", lambda: saxpy.submit(x, x, 2.0).result()),
        ("vyre.cuda.host_dispatch: saxpy", lambda: saxpy.timed(x, x, 2.0)),
        ("vyre.cuda.resident_dispatch: saxpy", lambda: saxpy.launch(*arrays, 2.0)),
        ("vyre.cuda.resident_dispatch: saxpy", call),
        ("vyre.cuda.resident_dispatch: saxpy", lambda: call(*arrays, 3.0)),
        ("vyre.cuda.graph_replay: 1 step", graph.replay),
        ("vyre.cuda.pipeline.compile: add_to", lambda: device.compile(programs.add_to())),
    ]
    for message, step in steps:
        ranges.clear()
        step()
        assert ranges == [(message, "vyre_cuda"), "pop"]
    device.nvtx_ranges = False
    ranges.clear()
    call()
    assert ranges == []


def test_range_ends_when_the_call_fails(ranges: list[object], device: vc.Device, saxpy: vc.Kernel) -> None:
    device.nvtx_ranges = True
    for _ in range(2):
        ranges.clear()
        with pytest.raises(TypeError):
            saxpy(1)
        assert ranges == [("vyre.cuda.host_dispatch: saxpy", "vyre_cuda"), "pop"]


def test_both_options_go_together(
    ranges: list[object], device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...], emulator: Emulator
) -> None:
    device.nvtx_ranges = True
    device.trace_launches = True
    emulator.stream_mode("lazy")
    saxpy.launch(*arrays, 2.0)

    assert len(ranges) == 2
    assert f"{HERE}:" in device.context.in_flight()[0]
    assert device.context.recordings == 1


def test_missing_package_is_said(device: vc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(vc.UnsupportedError, match="pip install nvtx") as caught:
        device.nvtx_ranges = True

    assert caught.value.capability == "nvtx"
    assert device.nvtx_ranges is False
