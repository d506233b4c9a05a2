"""Captures of PyTorch and CuPy: bound calls and replays go into their graphs, in order with their own work."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc

from .. import programs
from ..launches.test_grid_barrier import expected, rotate

pytestmark = [pytest.mark.cuda, pytest.mark.filterwarnings("default")]  # of what the libraries import
I32 = np.int32
N = 1000


class Recording:
    """h += x three times in a loop that the device ends, beside a kernel with grid barriers on an array of its own."""

    def __init__(self, device: vc.Device) -> None:
        add, turn = device.compile(programs.add_to()), device.compile(rotate(1))
        self.start = np.arange(256, dtype=np.uint32)
        self.ring, never = device.array(self.start), device.zeros(1, vc.u8)
        with device.record() as self.graph:
            with self.graph.repeat(3, until=never):
                add.launch(vc.symbol("h"), vc.symbol("x"))
            turn.launch(self.ring)

    def check(self, replays: int) -> None:
        np.testing.assert_array_equal(expected(self.start, replays), self.ring.numpy())


@pytest.mark.torch
@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_a_graph_of_torch_takes_replays(device: vc.Device, mode: str) -> None:
    import torch

    recording, saxpy = Recording(device), device.compile(programs.saxpy())
    h = torch.zeros(N, dtype=torch.int32, device="cuda")
    x = torch.ones(N, dtype=torch.int32, device="cuda")
    y, out = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    torch.cuda.synchronize()

    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, capture_error_mode=mode):
        stream = torch.cuda.current_stream()
        x.mul_(2)
        recording.graph.replay(stream=stream, h=h, x=x)
        h.add_(1)
        call = saxpy.bind(y, y, out, 3.0, stream=stream)
        call()
        y.add_(h)

    wanted_h, wanted_x, wanted_y = 0, 1, 1.0
    for turn in range(1, 4):
        captured.replay()
        torch.cuda.synchronize()
        wanted_x *= 2
        wanted_h += 3 * wanted_x + 1
        assert torch.all(h == wanted_h)
        assert torch.all(out == 4 * wanted_y)
        wanted_y += wanted_h
        assert torch.all(y == wanted_y)
        recording.check(turn)
    recording.graph.replay(h=h, x=x)
    device.synchronize()
    assert torch.all(h == wanted_h + 3 * wanted_x)
    recording.check(4)


@pytest.mark.cupy
def test_a_graph_of_cupy_takes_replays(device: vc.Device) -> None:
    import cupy

    recording = Recording(device)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        h, x = cupy.zeros(N, cupy.int32), cupy.ones(N, cupy.int32)
        cupy.multiply(x, 1, out=x)  # its kernels are compiled before the capture
        cupy.add(h, 0, out=h)
        stream.synchronize()
        stream.begin_capture()
        cupy.multiply(x, 2, out=x)
        recording.graph.replay(stream=stream, h=h, x=x)
        cupy.add(h, 1, out=h)
        captured = stream.end_capture()

        wanted_h, wanted_x = 0, 1
        for turn in range(1, 4):
            captured.launch(stream)
            stream.synchronize()
            wanted_x *= 2
            wanted_h += 3 * wanted_x + 1
            np.testing.assert_array_equal(np.full(N, wanted_h, I32), h.get())
            recording.check(turn)
