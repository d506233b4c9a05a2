"""Steps of a fused graph that stay apart, and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.runtime.memory.interop import adopt

from .. import programs
from ..foreign_library import Library
from .fused_kernels import ramp, scaled
from .graph_checks import F32, N
from .test_graph_recording import INCREMENT


@pytest.fixture
def kernel(device: vc.Device) -> vc.Kernel:
    return device.compile(scaled())


def refusal(device: vc.Device, record: Callable[[vc.Graph], None]) -> str:
    with device.record(fuse=True) as graph:
        record(graph)
    graph.replay()
    device.synchronize()
    assert "one kernel" not in graph.explain()
    return graph.explain()


def test_what_stays_apart_says_why(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y, z = ramp(device), device.zeros(N, vc.f32), device.zeros(N, vc.f32)
    long, other = ramp(device, 2000), device.zeros(2000, vc.f32)
    ftz = device.compile(scaled(), precision="ftz")
    trap = device.compile(scaled(), bounds="trap")

    def options(_: vc.Graph) -> None:
        kernel.launch(x, y, 1.0, 0.0)
        ftz.launch(y, z, 1.0, 0.0)

    def traps(_: vc.Graph) -> None:
        trap.launch(x, y, 1.0, 0.0)
        trap.launch(y, z, 1.0, 0.0)

    def grids(_: vc.Graph) -> None:
        kernel.launch(long, other, 1.0, 0.0)
        kernel.launch(other, long, 1.0, 0.0, grid=1)

    def empty(_: vc.Graph) -> None:
        kernel.launch(x[:0], y[:0], 1.0, 0.0)
        kernel.launch(x, z, 1.0, 0.0)

    def views(_: vc.Graph) -> None:
        kernel.launch(x[:100], y[:100], 1.0, 0.0)
        kernel.launch(y[1:101], z[:100], 1.0, 0.0)

    assert "other options" in refusal(device, options)
    assert "trap" in refusal(device, traps)
    assert "scaled has 1 block of 64 threads, scaled 32 of 64" in refusal(device, grids)
    assert "it has no threads" in refusal(device, empty)
    assert "share part of their memory" in refusal(device, views)


def test_assertions_barriers_and_known_values_stay_apart(device: vc.Device) -> None:
    guarded, rotate = device.compile(programs.guarded(1000)), device.compile(programs.rotate_in_place())
    known = device.compile(scaled(), specialize={"a": 2.0})
    numbers, to = device.array(np.arange(N, dtype=np.uint32)), device.zeros(N, vc.u32)
    x, y = ramp(device), device.zeros(N, vc.f32)

    def guards(_: vc.Graph) -> None:
        guarded.launch(numbers, to)
        guarded.launch(to, numbers)

    def rotates(_: vc.Graph) -> None:
        rotate.launch(x)
        rotate.launch(x)

    def symbols(_: vc.Graph) -> None:
        known.launch(x, y, vc.symbol("a", 2.0), 0.0)
        known.launch(y, x, 2.0, 0.0)

    assert "an assertion" in refusal(device, guards)
    assert "a barrier of the grid" in refusal(device, rotates)
    assert "known values" in refusal(device, symbols)
    with device.record(fuse=True) as graph:
        known.launch(x, y, 2.0, 0.0)
        known.launch(y, x, 2.0, 1.0)
    graph.replay()
    assert graph.node_count == 1


def test_kernels_without_a_program_stay_apart(device: vc.Device, tmp_path: Path) -> None:
    vc.bundle(scaled(), tmp_path / "scaled.vyre", targets=[str(device.target)], source=False, cubins=False)
    closed = vc.load_bundle(tmp_path / "scaled.vyre").on(device)["scaled"]
    loaded = device.load(INCREMENT, "increment", signature="ptr u32")
    x, y, words = ramp(device), device.zeros(N, vc.f32), device.zeros(4, vc.u32)

    def without_source(_: vc.Graph) -> None:
        closed.launch(x, y, 1.0, 0.0)
        closed.launch(y, x, 1.0, 0.0)

    def of_a_file(_: vc.Graph) -> None:
        for _ in range(2):
            loaded.launch(words, 1, grid=1, block=1)

    assert refusal(device, without_source).count("it comes from a bundle that was written with source=False") == 2
    assert refusal(device, of_a_file).count("it is a kernel from device.load, whose program is not known") == 2
    np.testing.assert_array_equal(x.numpy(), np.arange(N, dtype=F32))
    assert words[0] == 2


def test_arrays_of_other_libraries_stay_apart(device: vc.Device, kernel: vc.Kernel, library: Library) -> None:
    x, z = ramp(device), device.zeros(N, vc.f32)
    foreign = library.array(np.zeros(N, F32))

    def record(_: vc.Graph) -> None:
        kernel.launch(x, foreign, 1.0, 1.0)
        kernel.launch(x, z, 1.0, 0.0)

    assert "z is an array of another library" in refusal(device, record)


def test_memory_of_others_that_meets_is_seen(device: vc.Device, kernel: vc.Kernel, library: Library) -> None:
    x, z = ramp(device), device.zeros(N, vc.f32)
    foreign = library.array(np.zeros(N + 1, F32))
    one, other = (adopt(device, foreign) for _ in range(2))
    for first_of, nodes in ((0, 1), (1, 2)):
        with device.record(fuse=True) as graph:
            kernel.launch(x, one[:N], 1.0, 1.0)
            kernel.launch(other[first_of : first_of + N], z, 1.0, 0.0)
        graph.replay()
        wanted = np.append(np.arange(N, dtype=F32) + 1, 0)
        np.testing.assert_array_equal(z.numpy(), wanted[first_of : first_of + N])
        assert graph.node_count == nodes


def test_an_output_that_the_threads_cannot_clear_is_a_step_of_its_own(device: vc.Device) -> None:
    every = device.compile(programs.every_second())
    x, y = device.array(np.arange(N, dtype=np.uint32)), device.zeros(2 * N, vc.u32)

    def twice(_: vc.Graph) -> None:
        every.launch(x, y)
        every.launch(x, y)

    assert "is cleared in between" in refusal(device, twice)
