"""Scattered ranges that one kernel copies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.runtime.memory.interop import adopt
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from ..foreign_library import Library
from .transfer_calls import CUDA_ERROR_UNKNOWN, calls

LOADED = 64  # downloads of scattered ranges before the kernel that reads them is loaded
TYPES = (vc.u8, vc.i16, vc.f32, vc.i64)


def has_gathered(device: vc.Device) -> None:
    """Load the kernel by which the device reads scattered ranges."""
    words = device.zeros(16, vc.i32)
    for _ in range(LOADED + 1):
        device.download([(words, 4 * i, 2) for i in range(4)])


def looked(ranges: int, random: np.random.Generator) -> list[tuple[int, int, int]]:
    """Of arrays of 4,096 and more elements: which, from where, how many. Many are small, some overlap or touch."""
    items = []
    for _ in range(ranges):
        count = int(random.choice([0, 1, 2, 3, random.integers(64), random.integers(4097)]))
        items.append((int(random.integers(len(TYPES))), int(random.integers(5000 - count)), count))
    return items


@pytest.fixture(scope="module")
def gathering_device() -> Iterator[vc.Device]:
    with vc.Device("emulator") as device:
        has_gathered(device)
        yield device


@pytest.mark.emulator
@pytest.mark.parametrize("seed", range(20))
def test_scattered_ranges_are_those_of_the_copies(gathering_device: vc.Device, seed: int) -> None:
    random = np.random.default_rng(seed)
    hosts = [random.integers(0, 256, 5000 * t.itemsize, np.uint8).view(t.dtype) for t in TYPES]
    items = looked(int(random.choice([1, 4, 31, 32, 33, 70])), random)
    arrays = [gathering_device.array(host) for host in hosts]
    with vc.Device("emulator") as other:  # which has not read enough for the kernel
        copied = other.download([(other.array(hosts[which]), *place) for which, *place in items])

    gathered = gathering_device.download([(arrays[which], *place) for which, *place in items])

    for (which, offset, count), one, two in zip(items, gathered, copied, strict=True):
        assert one.tobytes() == two.tobytes() == hosts[which][offset : offset + count].tobytes()


@pytest.mark.emulator
@pytest.mark.parametrize("begin", range(17))
def test_a_scattered_range_begins_and_ends_anywhere(gathering_device: vc.Device, begin: int) -> None:
    host = np.random.default_rng(begin).integers(0, 256, 1 << 13, np.uint8)
    array = gathering_device.array(host)
    places = [(128 * n + begin, n) for n in range(1, 50)] + [(6500 + begin, 1500)]

    for (offset, count), result in zip(
        places, gathering_device.download([(array, *place) for place in places]), strict=True
    ):
        np.testing.assert_array_equal(host[offset : offset + count], result)


@pytest.mark.emulator
def test_scattered_ranges_are_one_launch_for_32_of_them(gathering_device: vc.Device, emulator: Emulator) -> None:
    array = gathering_device.array(np.arange(1 << 16, dtype=np.int32))

    for ranges, launches in ((3, 0), (4, 1), (32, 1), (33, 2)):
        copies = ranges if launches == 0 else 0
        with calls(emulator, cuLaunchKernel=launches, cuMemcpyDtoHAsync=copies, cuStreamSynchronize=1):
            results = gathering_device.download([(array, 100 * i, 9) for i in range(ranges)])
        assert [int(result[0]) for result in results] == [100 * i for i in range(ranges)]

    before = gathering_device.stats()
    with calls(emulator, cuLaunchKernel=1, cuMemcpyDtoHAsync=1, cuStreamSynchronize=1):
        gathering_device.download([(array, 100 * i, 9) for i in range(4)] + [(array, 1000, 1025)])
    after = gathering_device.stats()
    assert after.mapped_write_bytes - before.mapped_write_bytes == 4 * 36
    assert after.device_to_host_bytes - before.device_to_host_bytes == 4100
    assert after.staged_out_bytes - before.staged_out_bytes == 4 * 36 + 4100


@pytest.mark.emulator
def test_the_kernel_for_scattered_ranges_is_loaded_once_it_pays(emulator: Emulator) -> None:
    with vc.Device("emulator") as device:
        array = device.zeros(64, vc.i32)
        with calls(emulator, cuModuleLoadDataEx=0, cuMemcpyDtoHAsync=4 * LOADED):
            for _ in range(LOADED):
                device.download([(array, 8 * i, 2) for i in range(4)])
        with calls(emulator, cuModuleLoadDataEx=1, cuLaunchKernel=2, cuMemcpyDtoHAsync=0):
            device.download([(array, 8 * i, 2) for i in range(4)])
            device.download([(array, 8 * i, 2) for i in range(4)])


@pytest.mark.emulator
@pytest.mark.parametrize("call", ["cuModuleLoadDataEx", "cuModuleGetFunction"])
def test_a_driver_that_refuses_the_kernel_copies(emulator: Emulator, leak_check, call: str) -> None:
    with vc.Device("emulator") as device:
        emulator.fail(call, nth=1, result=CUDA_ERROR_UNKNOWN)
        has_gathered(device)
        array = device.array(np.arange(64, dtype=np.int32))
        with calls(emulator, cuMemcpyDtoHAsync=5, cuLaunchKernel=0):
            results = device.download([(array, 8 * i, 2) for i in range(5)])
        assert [result.tolist() for result in results] == [[8 * i, 8 * i + 1] for i in range(5)]


@pytest.mark.emulator
@pytest.mark.parametrize("call", ["cuLaunchKernel", "cuStreamSynchronize"])
def test_a_failure_while_ranges_are_gathered_is_an_error(emulator: Emulator, leak_check, call: str) -> None:
    with vc.Device("emulator") as device:
        has_gathered(device)
        array = device.array(np.arange(256, dtype=np.int32))
        items = [(array, 5 * i, 2) for i in range(40)]
        emulator.fail(call, nth=2 if call == "cuLaunchKernel" else 1, result=CUDA_ERROR_UNKNOWN)
        with pytest.raises(vc.DriverError, match=call):
            device.download(items)
        emulator.reset()

        assert [result.tolist() for result in device.download(items)] == [[5 * i, 5 * i + 1] for i in range(40)]


@pytest.mark.emulator
def test_scattered_ranges_of_work_in_flight(emulator: Emulator) -> None:
    with vc.Device("emulator") as device:
        has_gathered(device)
        kernel = device.compile(programs.add_to())
        x, h = device.array(np.arange(1000, dtype=np.int32)), device.zeros(1000, vc.i32)
        emulator.stream_mode("lazy")
        for turn in range(5):
            kernel.launch(h, x)
            results = device.download([(h, 100 * i, 1) for i in range(10)])
            assert [int(result[0]) for result in results] == [100 * i * (turn + 1) for i in range(10)]
        emulator.reset()


@pytest.mark.emulator
def test_memory_of_others_is_copied(gathering_device: vc.Device, emulator: Emulator) -> None:
    with Library().current() as library:
        stream = library.stream()
        adopted = adopt(gathering_device, library.array(np.arange(256, dtype=np.float32), stream))

        with calls(emulator, cuLaunchKernel=0, cuMemcpyDtoHAsync=5):
            results = gathering_device.download([(adopted, 8 * i, 2) for i in range(5)])
        del adopted
        stream.destroy()

    assert [result.tolist() for result in results] == [[8 * i, 8 * i + 1] for i in range(5)]


@pytest.mark.emulator
def test_beside_a_worker_scattered_ranges_are_copied(gathering_device: vc.Device, emulator: Emulator) -> None:
    array = gathering_device.array(np.arange(256, dtype=np.int32))
    kernel = gathering_device.compile(programs.add_to())
    with gathering_device.worker([kernel]), calls(emulator, cuLaunchKernel=0, cuMemcpyDtoHAsync=5):
        results = gathering_device.download([(array, 8 * i, 2) for i in range(5)])

    assert [result.tolist() for result in results] == [[8 * i, 8 * i + 1] for i in range(5)]
