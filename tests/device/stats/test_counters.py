"""Every counter is moved by what it counts, and by nothing else that is done here."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.cache import files
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from ..cached_kernels import Open
from ..foreign_library import ForeignStream
from .delta import Delta, N

pytestmark = pytest.mark.device
BYTES = 4 * N
CUDA_ERROR_UNKNOWN = 999


@pytest.fixture
def arrays(device: vc.Device) -> tuple[vc.DeviceArray, vc.DeviceArray, vc.DeviceArray]:
    x = np.ones(N, np.float32)
    return device.array(x), device.array(x), device.empty(N, vc.f32)


# ---- launches --------------------------------------------------------------------------------------------------------


def test_host_call_counts_its_launch_bytes_and_wait(device: vc.Device, warm: vc.Kernel) -> None:
    x = np.ones(N, np.float32)
    delta = Delta(device)
    warm(x, x, 2.0)

    assert delta.all() == {
        "kernel_launches": 1,
        "host_dispatches": 1,
        "staged_in_bytes": 2 * BYTES,
        "mapped_read_bytes": 2 * BYTES,
        "mapped_write_bytes": BYTES,
        "staged_out_bytes": BYTES,
        "readback_bytes": BYTES,
        "sync_points": 1,
    }


@pytest.mark.emulator
def test_launch_that_is_refused_before_it_is_made_is_not_counted(
    device: vc.Device, warm: vc.Kernel, arrays: tuple[vc.DeviceArray, ...], emulator: Emulator
) -> None:
    call = warm.bind(*arrays, 2.0)
    for a in (1.0, 2.0, 3.0):
        warm.launch(*arrays, a)
        call(*arrays, a)
    device.synchronize()
    delta = Delta(device)
    for way in (warm.launch, call):
        emulator.fail("cuGraphExecKernelNodeSetParams", result=CUDA_ERROR_UNKNOWN)
        with pytest.raises(vc.Error):
            way(*arrays, 4.0)

    assert delta.of("kernel_launches", "plain_kernel_launches") == (0, 0)


def test_pinned_arguments_are_not_staged(device: vc.Device, warm: vc.Kernel) -> None:
    x, out = device.pinned_empty(N, vc.f32), device.pinned_empty(N, vc.f32)
    x[:] = 1
    delta = Delta(device)
    warm(x, x, 2.0, out=out)

    assert delta.of("staged_in_bytes", "staged_out_bytes", "mapped_write_bytes") == (0, 0, BYTES)


def test_scattered_argument_goes_by_the_copy_engine(device: vc.Device) -> None:
    kernel = device.compile(programs.histogram())
    counts, data = np.zeros(256, np.uint32), np.arange(N, dtype=np.uint32)
    kernel(counts, data)
    delta = Delta(device)
    kernel(counts, data)

    assert delta.of("device_readback_operations", "device_to_host_bytes") == (1, counts.nbytes)
    assert delta.of("host_upload_operations")[0] >= 1


def test_result_that_a_kernel_may_leave_unwritten_is_filled(device: vc.Device) -> None:
    kernel = device.compile(programs.every_second())
    x, out = device.zeros(N, vc.u32), device.empty(2 * N, vc.u32)
    kernel.launch(x, out)
    delta = Delta(device)
    kernel.launch(x, out)

    assert delta.of("fill_operations", "fill_bytes") == (1, 2 * BYTES)


@pytest.mark.parametrize("how", ["launch", "bound", "steady"])
def test_launch_counts_one_kernel_and_nothing_else(
    how: str, device: vc.Device, warm: vc.Kernel, arrays: tuple[vc.DeviceArray, ...]
) -> None:
    call = warm.bind(*arrays, 2.0)
    ways: dict[str, Callable[[], None]] = {
        "launch": lambda: warm.launch(*arrays, 2.0),
        "bound": lambda: call(*arrays, 2.0),
        "steady": call,
    }
    for _ in range(3):
        ways[how]()
    delta = Delta(device)
    for _ in range(10):
        ways[how]()

    assert delta.all() == {"kernel_launches": 10}


def test_first_launch_on_a_stream_is_a_plain_one(device: vc.Device, arrays: tuple[vc.DeviceArray, ...]) -> None:
    kernel = device.compile(programs.saxpy())
    delta = Delta(device)
    kernel.launch(*arrays, 2.0)

    assert delta.of("kernel_launches", "plain_kernel_launches", "cuda_graph_instantiations") == (1, 1, 0)
    kernel.launch(*arrays, 2.0)
    assert delta.of("kernel_launches", "plain_kernel_launches", "cuda_graph_instantiations") == (2, 1, 1)


def test_replay_of_a_graph_counts_as_such(
    device: vc.Device, warm: vc.Kernel, arrays: tuple[vc.DeviceArray, ...]
) -> None:
    delta = Delta(device)
    with device.record() as graph:
        warm.launch(*arrays, 2.0)
        warm.launch(*arrays, 3.0)
    graph.replay()
    graph.replay()

    assert delta.of("cuda_graph_launches", "cuda_graph_instantiations", "kernel_launches") == (2, 1, 0)


def test_empty_launch_counts_nothing(device: vc.Device, warm: vc.Kernel) -> None:
    empty = [device.empty(0, vc.f32) for _ in range(3)]
    delta = Delta(device)
    warm.launch(*empty, 2.0)

    assert delta.of("kernel_launches") == (0,)


# ---- copies ----------------------------------------------------------------------------------------------------------


def test_upload_and_download_count_operations_and_bytes(device: vc.Device) -> None:
    array, x = device.empty(N, vc.f32), np.ones(N, np.float32)
    delta = Delta(device)
    array.copy_from(x)

    up = delta.of("host_upload_operations", "host_to_device_bytes", "staged_in_bytes", "sync_points")
    assert up == (1, BYTES, BYTES, 0)
    array.numpy()
    copies, crossed = delta.of("device_readback_operations", "device_to_host_bytes")
    # One that has not ended within 50 us is left to itself, and made again by who may wait longer.
    assert copies in (1, 2)
    assert crossed == copies * BYTES
    assert delta.of("staged_out_bytes", "readback_bytes", "sync_points") == (BYTES, BYTES, 1)


def test_large_pageable_upload_counts_each_chunk(device: vc.Device) -> None:
    n = 3 << 20
    array, data = device.empty(n, vc.u8), np.zeros(n, np.uint8)
    delta = Delta(device)
    array.copy_from(data)

    assert delta.of("host_upload_operations", "host_to_device_bytes", "staged_in_bytes") == (3, n, n)


def test_neighbors_are_one_copy(device: vc.Device) -> None:
    array, x = device.empty(N, vc.f32), np.ones(N // 2, np.float32)
    delta = Delta(device)
    device.upload([(array, x), (array, N // 2, x)])

    assert delta.of("host_upload_operations", "host_to_device_bytes") == (1, BYTES)


def test_copy_within_the_device_and_fills_are_counted(device: vc.Device) -> None:
    array, other = device.zeros(N, vc.f32), device.empty(N, vc.f32)
    delta = Delta(device)
    other.copy_from(array)
    other.fill(1.0)
    device.zeros(N, vc.f32)

    assert delta.of("device_copy_operations", "device_to_device_bytes") == (1, BYTES)
    assert delta.of("fill_operations", "fill_bytes") == (2, 2 * BYTES)


# ---- waits -----------------------------------------------------------------------------------------------------------


def test_each_wait_is_one_sync_point(device: vc.Device, warm: vc.Kernel, arrays: tuple[vc.DeviceArray, ...]) -> None:
    stream = device.stream()
    x = np.ones(N, np.float32)
    pending = warm.submit(x, x, 2.0)
    waits: list[Callable[[], object]] = [
        device.synchronize,
        stream.synchronize,
        lambda: stream.record().synchronize(),
        pending.result,
        lambda: arrays[0].numpy(),
        lambda: warm(x, x, 2.0),
    ]
    for wait in waits:
        delta = Delta(device)
        wait()
        assert delta.of("sync_points") == (1,)


def test_look_at_a_pending_call_is_no_sync_point(device: vc.Device, warm: vc.Kernel) -> None:
    x = np.ones(N, np.float32)
    pending = warm.submit(x, x, 2.0)
    delta = Delta(device)
    pending.done()

    assert delta.of("sync_points") == (0,)
    pending.result()


def test_timed_call_adds_its_times(device: vc.Device, warm: vc.Kernel) -> None:
    x = np.ones(N, np.float32)
    device.reset_stats()
    times = [warm.timed(x, x, 2.0) for _ in range(3)]
    stats = device.stats()

    assert stats.timed_dispatches == 3
    assert stats.timed_wall_ns_total == sum(t.wall_ns for t in times)
    assert stats.timed_device_ns_total == sum(t.device_ns for t in times)
    assert stats.timed_device_ns_max == max(t.device_ns for t in times)
    assert stats.timed_enqueue_ns_total == sum(t.enqueue_ns for t in times)
    assert stats.timed_wait_ns_total == sum(t.wait_ns for t in times)


# ---- memory and compiling --------------------------------------------------------------------------------------------


def test_allocations_count_bytes_hits_and_misses(device: vc.Device) -> None:
    device.trim()
    delta = Delta(device)
    array = device.empty(N, vc.f32)

    names = ("resident_allocation_bytes_requested", "device_pool_hits", "device_pool_misses", "live_bytes")
    assert delta.of(*names) == (BYTES, 0, 1, 4096)
    del array
    device.empty(N, vc.f32)
    assert delta.of(*names, "idle_bytes") == (2 * BYTES, 1, 1, 0, 4096)


def test_pinned_allocations_count_hits_and_misses(device: vc.Device) -> None:
    device.trim()
    delta = Delta(device)
    array = device.pinned_empty(N, vc.f32)

    assert delta.of("pinned_pool_misses", "pinned_live_bytes") == (1, 4096)
    del array
    assert delta.of("pinned_live_bytes", "pinned_idle_bytes") == (0, 4096)
    device.pinned_empty(N, vc.f32)
    assert delta.of("pinned_pool_hits") == (1,)


def test_streams_are_counted_while_they_are_open(device: vc.Device) -> None:
    delta = Delta(device)
    streams = [device.stream() for _ in range(3)]

    assert delta.of("live_streams", "adopted_streams") == (3, 0)
    del streams[1:]
    assert delta.of("live_streams", "adopted_streams") == (1, 0)


def test_streams_of_others_are_kept_and_counted(device: vc.Device, stream: ForeignStream, warm: vc.Kernel) -> None:
    arrays = [device.zeros(N, vc.f32) for _ in range(3)]
    delta = Delta(device)

    for _ in range(2):
        warm.launch(*arrays, 2.0, stream=stream)
    device.synchronize()

    assert delta.of("live_streams", "adopted_streams") == (1, 1)


def test_events_are_counted_while_they_are_kept(opened: Open) -> None:
    device = opened()
    stream = device.stream()
    delta = Delta(device)
    events = [stream.record() for _ in range(3)]

    assert delta.of("idle_events", "event_creations") == (0, 3)
    del events[1:]
    assert delta.of("idle_events", "event_creations") == (2, 3)
    events += [stream.record() for _ in range(4)]
    assert delta.of("idle_events", "event_creations") == (0, 5)
    device.close()
    assert (device.stats().idle_events, device.stats().live_streams) == (0, 0)


def test_slabs_of_calls_are_transient_allocations(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    x = np.ones(N, np.float32)
    delta = Delta(device)
    kernel(x, x, 2.0)

    assert delta.of("transient_allocation_bytes_requested")[0] >= 3 * BYTES


@pytest.mark.thin
def test_compiling_counts_loads_misses_and_hits(device: vc.Device) -> None:
    program = programs.saxpy()
    files.clear(os.environ["VYRE_CUDA_CACHE_DIR"])
    delta = Delta(device)
    device.compile(program)

    assert delta.of("compiles", "kernel_cache_misses", "kernel_cache_hits", "module_loads") == (1, 1, 0, 1)
    assert delta.of("disk_cache_misses", "disk_cache_hits", "module_links") == (1, 0, 1)
    assert all(ns > 0 for ns in delta.of("compile_ns_total", "module_load_ns_total"))
    device.compile(program)
    assert delta.of("compiles", "kernel_cache_misses", "kernel_cache_hits", "module_loads") == (1, 1, 1, 1)
