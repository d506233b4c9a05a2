"""Buffers beyond 4 GiB: programs with u64 indices reach every element, those with u32 every byte of theirs.

On the emulator such a buffer takes memory only where it is written.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

BEYOND = 2**32 + 1000
# Across the end of 32 bits, and what those indices would be without their upper half.
PLACES = (0, 1, 704, 999, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**32 + 704, 2**32 + 999)
OUTSIDE = (BEYOND, BEYOND + 2**32, 2**63, 2**64 - 1)


@pytest.fixture
def roomy_device(own_device: vc.Device, emulator: Emulator) -> vc.Device:
    """A device with room for more than 4 GiB, which the emulator gives when asked."""
    emulator.set("memory_limit", 16 << 30)
    return own_device


@pytest.fixture
def large(roomy_device: vc.Device) -> Iterator[tuple[vc.Device, vc.DeviceArray]]:
    """A device with an array of more than 2^32 elements."""
    array = roomy_device.empty(BEYOND, vc.u8)
    yield roomy_device, array
    array.free()


def scatter(index: vc.Type, element: vc.Type, *, atomic: bool = False) -> vc.Program:
    """big[at[i]] = x[i], and what was there before as a result."""
    b = vc.Builder("scatter", block=32, index=index)
    big = b.inout("big", element)
    at = b.input("at", vc.u64)
    x = b.input("x", element)
    old = b.output("old", element, size=at.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < at.size):
        if atomic:
            old[i] = b.atomic_exchange(big, at[i], x[i])
        else:
            old[i] = big[at[i]]
            big[at[i]] = x[i]
    b.work(at.size)
    return b.build()


def test_a_u64_program_reads_and_writes_beyond_4_gib(large: tuple[vc.Device, vc.DeviceArray]) -> None:
    device, array = large
    places = np.array([*PLACES, *OUTSIDE], np.uint64)
    values = np.arange(1, places.size + 1, dtype=np.uint8)
    for place in PLACES:
        array[place : place + 1].copy_from(np.array([100 + place % 97], np.uint8))
    old = device.empty(places.size, vc.u8)

    device.compile(scatter(vc.u64, vc.u8)).launch(array, device.array(places), device.array(values), old)

    assert [100 + place % 97 for place in PLACES] + [0] * len(OUTSIDE) == old.numpy().tolist()
    assert [int(v) for v in values[: len(PLACES)]] == [int(array[place]) for place in PLACES]


def test_sizes_and_loops_of_a_u64_program_go_beyond_32_bits(large: tuple[vc.Device, vc.DeviceArray]) -> None:
    device, array = large
    b = vc.Builder("ends", block=1, index=vc.u64)
    big = b.inout("big", vc.u8)
    out = b.output("out", vc.u64, size=2)
    out[0] = big.size
    trips = b.var("trips", vc.u64(0))
    with b.for_(vc.i64(big.size) - 1, vc.i64(2**32 - 3), step=-500) as j:
        big[j] = vc.u8(7)
        trips.set(trips + 1)
    out[1] = trips
    b.work(1)
    visited = range(BEYOND - 1, 2**32 - 3, -500)
    out_ = device.empty(2, vc.u64)

    device.compile(b.build()).launch(array, out_)

    assert [BEYOND, len(visited)] == out_.numpy().tolist()
    assert [7] * len(visited) == [int(array[j]) for j in visited]


@pytest.mark.parametrize("atomic", [False, True], ids=["plain", "atomic"])
def test_a_u32_program_reaches_every_byte_of_a_buffer_beyond_4_gib(roomy_device: vc.Device, *, atomic: bool) -> None:
    count = 2**29 + 100  # of 8 bytes
    places = [0, 50, 99, 2**29 - 1, 2**29, 2**29 + 50, count - 1]
    array = roomy_device.empty(count, vc.u64)
    values = np.arange(1, len(places) + 2, dtype=np.uint64) << np.uint64(33)
    at = roomy_device.array(np.array([*places, count], np.uint64))
    old = roomy_device.empty(len(places) + 1, vc.u64)

    roomy_device.compile(scatter(vc.u32, vc.u64, atomic=atomic)).launch(array, at, roomy_device.array(values), old)

    assert values[:-1].tolist() == [int(array[place]) for place in places]
    assert int(old[len(places)]) == 0
    array.free()


def test_a_u32_program_refuses_a_buffer_of_more_elements(large: tuple[vc.Device, vc.DeviceArray]) -> None:
    device, array = large
    kernel = device.compile(scatter(vc.u32, vc.u8))
    at, x, old = device.zeros(3, vc.u64), device.zeros(3, vc.u8), device.zeros(3, vc.u8)

    with pytest.raises(ValueError, match="4294967295"):
        kernel.launch(array, at, x, old)
    with pytest.raises(ValueError, match="4294967295"):
        kernel.bind(array, at, x, old)
    kernel.launch(array[: 2**32 - 1], at, x, old)
    device.synchronize()


@pytest.mark.cuda
def test_global_ids_of_a_u64_program_go_beyond_32_bits(device: vc.Device) -> None:
    """More threads than an emulator can run."""
    work = 2**32 + 300
    b = vc.Builder("ids", block=256, index=vc.u64)
    out = b.output("out", vc.u64, size=300)
    i = b.let("i", vc.global_id.x)
    with b.if_((i >= 2**32) & (i < work)):
        out[i - 2**32] = i
    b.work(work)

    found = device.run(b.build())

    np.testing.assert_array_equal(np.arange(2**32, work, dtype=np.uint64), found)
