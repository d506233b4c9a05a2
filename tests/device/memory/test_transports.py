"""Where host arguments are while a kernel runs: the same results wherever they are, and the place that costs least."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vyre_cuda as vc

pytestmark = pytest.mark.device


def permute(element: vc.Type, *, block: int = 32) -> vc.Program:
    """out[to[i]] = x[at[i]]: reads of x and writes of out go anywhere."""
    b = vc.Builder("permute", block=block)
    x = b.input("x", element)
    at, to = b.input("at", vc.u32), b.input("to", vc.u32)
    out = b.output("out", element, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < at.size):
        out[to[i]] = x[at[i]]
    b.work(at.size)
    return b.build()


class Moved:
    """Bytes and clears of calls, by the device's own counters."""

    NAMES = ("mapped_read_bytes", "mapped_write_bytes", "host_to_device_bytes", "device_to_host_bytes", "fill_bytes")

    def __init__(self, device: vc.Device) -> None:
        self._device = device
        self._before = self._now()

    def _now(self) -> dict[str, int]:
        stats = self._device.stats()
        return {name: getattr(stats, name) for name in self.NAMES}

    def bytes(self) -> dict[str, int]:
        return {name: now - self._before[name] for name, now in self._now().items() if now != self._before[name]}


@pytest.mark.parametrize("element", [vc.u8, vc.f16, vc.f64], ids=str)
@given(data=st.data(), n=st.sampled_from([1, 31, 200, 511, 513, 4097]), size=st.sampled_from([1, 7, 300, 70_000]))
def test_scattered_arguments_mean_the_same_wherever_they_are(
    shared_device: vc.Device, element: vc.Type, data: Any, n: int, size: int
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = rng.integers(0, 100, size).astype(element.dtype)
    at = rng.integers(0, size + size // 4 + 1, n).astype(np.uint32)
    to = rng.permutation(max(n, size) + 3)[:n].astype(np.uint32)
    kernel = shared_device.compile(permute(element))
    place = data.draw(st.sampled_from(["pageable", "pinned", "own"]))
    out = None
    if place != "pageable":
        pinned = shared_device.pinned_empty(size, element)
        pinned[:] = x
        x = pinned
    if place == "own":
        out = shared_device.pinned_empty(size, element)
        out[:] = 77

    result = kernel(x, at, to, out=out)

    expected = np.zeros(size, element.dtype)
    inside = to < size
    expected[to[inside]] = np.where(at < size, x[np.minimum(at, size - 1)], 0)[inside]
    np.testing.assert_array_equal(expected, result)


def test_little_that_is_accessed_stays_in_host_memory(own_device: vc.Device) -> None:
    kernel = own_device.compile(permute(vc.f32))
    x, at = np.arange(5000, dtype=np.float32), np.arange(300, dtype=np.uint32)
    kernel(x, at, at)
    moved = Moved(own_device)
    kernel(x, at, at)

    assert moved.bytes() == {"mapped_read_bytes": x.nbytes + 2 * at.nbytes, "mapped_write_bytes": x.nbytes}


def test_much_that_is_accessed_is_copied(own_device: vc.Device) -> None:
    kernel = own_device.compile(permute(vc.f32))
    x, at = np.arange(5000, dtype=np.float32), np.arange(5000, dtype=np.uint32)
    kernel(x, at, at)
    moved = Moved(own_device)
    kernel(x, at, at)

    assert moved.bytes() == {
        "mapped_read_bytes": 2 * at.nbytes,
        "host_to_device_bytes": x.nbytes,
        "device_to_host_bytes": x.nbytes,
        "fill_bytes": x.nbytes,
    }


def test_arguments_of_several_iterations_are_copied(own_device: vc.Device) -> None:
    kernel = own_device.compile(permute(vc.f32))
    x, at = np.arange(50, dtype=np.float32), np.arange(50, dtype=np.uint32)
    moved = Moved(own_device)
    kernel(x, at, at, iterations=2)

    assert "mapped_read_bytes" not in moved.bytes()
    assert moved.bytes()["device_to_host_bytes"] == x.nbytes


def test_threads_of_every_axis_count(own_device: vc.Device) -> None:
    b = vc.Builder("first", block=(32, 4, 2))
    x = b.input("x", vc.f16)
    out = b.output("out", vc.f16, size=64)
    with b.if_((vc.block_id.x == 0) & (vc.block_id.y == 0) & (vc.block_id.z == 0)):
        out[vc.thread_id.x] = x[vc.thread_id.x + vc.thread_id.y]
    b.work(32, 4, 2)
    kernel = own_device.compile(b.build())
    x_ = np.arange(64, dtype=np.float16)
    moved = Moved(own_device)
    kernel(x_, grid=(64, 16, 8))

    assert moved.bytes()["device_to_host_bytes"] == 128
