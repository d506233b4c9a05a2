"""Large pageable arrays of calls: to the device in chunks, and back when the result is collected. What smaller ones
are promised holds for them, too.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from ..foreign_library import Library
from .test_transports import Moved, permute

pytestmark = pytest.mark.device

LARGE = 1 << 17  # of 8 bytes: from this size on
CHUNK = LARGE // 2
OUT_OF_MEMORY, UNKNOWN = 2, 999


def numbers(n: int = LARGE, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**63, n, np.uint64)


def expected_of(x: np.ndarray, times: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """What `programs.first_eight` makes of x."""
    changed, first = x.copy(), np.zeros_like(x)
    changed[:8] += np.uint64(times)
    first[:8] = changed[:8]
    return changed, first


def pageable(n: int = LARGE) -> tuple[np.ndarray, np.ndarray]:
    """Room for both results."""
    return np.full(n, 7, np.uint64), np.full(n, 7, np.uint64)


def check(wanted: tuple[np.ndarray, ...], found: tuple[np.ndarray, ...]) -> None:
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a, b)


def doubled() -> vc.Program:
    """out = 2 x: each element is touched once."""
    b = vc.Builder("doubled", block=256)
    x = b.input("x", vc.u64)
    out = b.output("out", vc.u64, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = x[i] + x[i]
    return b.build()


# ---- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "n", [LARGE - 1, LARGE, LARGE + 1, LARGE + CHUNK - 1, LARGE + CHUNK, LARGE + CHUNK + 1, 9 * CHUNK + 5]
)
def test_every_byte_goes_there_and_back(device: vc.Device, n: int) -> None:
    x, out = numbers(n), pageable(n)

    found = device.compile(programs.first_eight())(x, out=out)

    assert found[0] is out[0]
    check(expected_of(x), out)


@pytest.mark.parametrize("offset", [1, 3, 7])
def test_addresses_need_not_be_those_of_whole_lines(device: vc.Device, offset: int) -> None:
    x, (changed, first) = numbers(LARGE + 8)[offset : offset + LARGE], pageable(LARGE + 8)
    kernel = device.compile(programs.first_eight())

    kernel(x, out=(changed[offset : offset + LARGE], first[8 - offset : 8 - offset + LARGE]))

    wanted = expected_of(x)
    check(wanted, (changed[offset : offset + LARGE], first[8 - offset : 8 - offset + LARGE]))
    assert (changed[:offset] == 7).all()
    assert (changed[offset + LARGE :] == 7).all()
    assert (first[8 - offset + LARGE :] == 7).all()


def test_a_result_may_be_the_array_that_was_read(device: vc.Device) -> None:
    x, first = numbers(), np.empty(LARGE, np.uint64)
    wanted = expected_of(x)

    device.compile(programs.first_eight())(x, out=(x, first))

    check(wanted, (x, first))


@pytest.mark.parametrize("iterations", [2, 5])
def test_iterations_run_on_what_the_one_before_left(device: vc.Device, iterations: int) -> None:
    x, out = numbers(), pageable()

    device.compile(programs.first_eight())(x, out=out, iterations=iterations)

    check(expected_of(x, iterations), out)


def test_a_timed_call_has_its_results_and_times(device: vc.Device) -> None:
    x, out = numbers(), pageable()

    timed = device.compile(programs.first_eight()).timed(x, out=out)

    check(expected_of(x), out)
    assert timed.wall_ns >= timed.enqueue_ns + timed.wait_ns > timed.device_ns >= 0


def test_large_and_small_arrays_go_together(device: vc.Device) -> None:
    rng = np.random.default_rng(2)
    x, at = rng.standard_normal(LARGE + 5), rng.integers(0, LARGE + 5, 300).astype(np.uint32)
    to = rng.permutation(LARGE + 5)[:300].astype(np.uint32)
    wanted = np.zeros_like(x)
    wanted[to] = x[at]

    found = device.compile(permute(vc.f64))(x, at, to, out=np.empty_like(x))

    np.testing.assert_array_equal(wanted, found)


# ---- the way that they take ------------------------------------------------------------------------------------------


def test_large_arrays_that_are_streamed_cross_in_chunks(own_device: vc.Device) -> None:
    kernel, x, out = own_device.compile(doubled()), numbers(LARGE + 1), np.empty(LARGE + 1, np.uint64)
    moved, before = Moved(own_device), own_device.stats()

    kernel(x, out=out)

    np.testing.assert_array_equal(x + x, out)
    assert moved.bytes() == {"host_to_device_bytes": x.nbytes, "device_to_host_bytes": x.nbytes}
    after = own_device.stats()
    names = ("host_upload_operations", "device_readback_operations", "staged_in_bytes", "staged_out_bytes")
    assert [getattr(after, name) - getattr(before, name) for name in names] == [3, 1, x.nbytes, 0]
    assert after.readback_bytes - before.readback_bytes == x.nbytes


def test_arrays_below_the_threshold_are_used_in_place(own_device: vc.Device) -> None:
    kernel, x, out = own_device.compile(doubled()), numbers(LARGE - 1), np.empty(LARGE - 1, np.uint64)
    moved = Moved(own_device)

    kernel(x, out=out)

    np.testing.assert_array_equal(x + x, out)
    assert moved.bytes() == {"mapped_read_bytes": x.nbytes, "mapped_write_bytes": x.nbytes}


def test_a_page_locked_result_is_written_in_place(own_device: vc.Device) -> None:
    kernel, x = own_device.compile(doubled()), numbers()
    moved = Moved(own_device)

    result = kernel(x)

    np.testing.assert_array_equal(x + x, result)
    assert moved.bytes() == {"host_to_device_bytes": x.nbytes, "mapped_write_bytes": x.nbytes}


def test_a_large_input_of_which_little_is_read_stays_in_host_memory(own_device: vc.Device) -> None:
    b = vc.Builder("few", block=32)
    x = b.input("x", vc.u64)
    out = b.output("out", vc.u64, size=8)
    with b.if_(vc.global_id.x < 8):
        out[vc.global_id.x] = x[vc.global_id.x * 1000]
    b.work(8)
    kernel, x_ = own_device.compile(b.build()), numbers()
    moved = Moved(own_device)

    np.testing.assert_array_equal(x_[:8000:1000], kernel(x_))

    assert moved.bytes()["mapped_read_bytes"] == x_.nbytes
    assert "host_to_device_bytes" not in moved.bytes()


def test_unwritten_parts_of_a_large_result_are_cleared_on_the_device(own_device: vc.Device) -> None:
    kernel, x, out = own_device.compile(programs.first_eight()), numbers(), pageable()
    moved = Moved(own_device)

    kernel(x, out=out)

    assert moved.bytes() == {
        "host_to_device_bytes": x.nbytes,
        "device_to_host_bytes": 2 * x.nbytes,
        "fill_bytes": x.nbytes,
    }


# ---- submitted runs --------------------------------------------------------------------------------------------------


def test_inputs_may_change_once_submit_returned(device: vc.Device) -> None:
    x, out = numbers(), pageable()
    wanted = expected_of(x)

    pending = device.compile(programs.first_eight()).submit(x, out=out)
    x[:] = 0
    pending.result()

    check(wanted, out)


def test_several_runs_in_flight_are_collected_in_any_order(device: vc.Device) -> None:
    kernel = device.compile(programs.first_eight())
    outs = [pageable() for _ in range(6)]
    pending = [kernel.submit(numbers(seed=seed), out=out) for seed, out in enumerate(outs)]

    for seed in (3, 5, 0, 1, 4, 2):
        pending[seed].result()
        check(expected_of(numbers(seed=seed)), outs[seed])


@pytest.mark.emulator
def test_submit_waits_for_nothing_that_is_before_it(own_device: vc.Device, emulator: Emulator) -> None:
    """Chunks are queued, however long the stream is held up."""
    b = vc.Builder("add_first", block=32)
    x, base = b.inout("x", vc.u64), b.input("base", vc.u64)
    with b.if_(vc.global_id.x < 8):
        x[vc.global_id.x] = x[vc.global_id.x] + base[vc.global_id.x]
    b.work(8)
    kernel = own_device.compile(b.build())
    base_, x_, out = own_device.zeros(8, vc.u64), numbers(), pageable()[0]
    own_device.synchronize()
    emulator.stream_mode("lazy")
    base_.fill(5)
    before = emulator.count("launches")

    pending = kernel.submit(x_, base_, out=out)

    assert emulator.count("launches") == before
    own_device.synchronize()
    pending.result()
    x_[:8] += np.uint64(5)
    np.testing.assert_array_equal(x_, out)


@pytest.mark.emulator
def test_an_abandoned_result_is_never_written(own_device: vc.Device, emulator: Emulator) -> None:
    kernel, x, out = own_device.compile(programs.first_eight()), numbers(), pageable()
    emulator.set("held", 1)
    pending = kernel.submit(x, out=out)

    del pending
    emulator.set("held", 0)
    for _ in range(3):
        kernel(x, out=pageable())
    own_device.synchronize()

    assert (out[0] == 7).all()
    assert (out[1] == 7).all()


@pytest.mark.emulator
def test_a_result_can_come_after_a_timeout(own_device: vc.Device, emulator: Emulator) -> None:
    kernel, x, out = own_device.compile(programs.first_eight()), numbers(), pageable()
    kernel(x, out=pageable())
    emulator.set("held", 1)
    pending = kernel.submit(x, out=out)

    with pytest.raises(vc.KernelTimeoutError):
        pending.result(timeout=0.01)
    assert (out[0] == 7).all()
    emulator.set("held", 0)
    pending.result(timeout=60)

    check(expected_of(x), out)


# ---- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_failed_assertion_writes_no_result(device: vc.Device) -> None:
    b = vc.Builder("judged", block=32)
    x = b.inout("x", vc.u64)
    with b.if_(vc.global_id.x < 8):
        b.assert_(x[vc.global_id.x] < 5, "too much")
        x[vc.global_id.x] = vc.u64(0)
    b.work(8)
    x_, out = numbers() | np.uint64(8), pageable()[0]

    with pytest.raises(vc.KernelAssertionError, match="too much"):
        device.compile(b.build())(x_, out=out)

    assert (out == 7).all()


@pytest.mark.emulator
@pytest.mark.parametrize("nth", [1, 2], ids=["first", "second"])
def test_a_failed_copy_back_fails_its_own_run_alone(own_device: vc.Device, emulator: Emulator, nth: int) -> None:
    kernel, x, out = own_device.compile(programs.first_eight()), numbers(), pageable()
    kernel(x, out=out)
    emulator.fail("cuMemcpyDtoHAsync", nth=nth, result=UNKNOWN)

    with pytest.raises(vc.DriverError) as caught:
        kernel(x, out=out)
    kernel(x + np.uint64(1), out=out)

    assert caught.value.op == "cuMemcpyDtoHAsync"
    check(expected_of(x + np.uint64(1)), out)


@pytest.mark.emulator
def test_streamed_arrays_need_no_room_on_the_device(own_device: vc.Device, emulator: Emulator) -> None:
    kernel, x, out = own_device.compile(doubled()), numbers(), np.empty(LARGE, np.uint64)
    kernel(x[:10])
    emulator.fail("cuMemAlloc", result=OUT_OF_MEMORY, repeat=True)
    moved = Moved(own_device)

    kernel(x, out=out)
    emulator.reset()

    np.testing.assert_array_equal(x + x, out)
    assert moved.bytes() == {"mapped_read_bytes": x.nbytes, "mapped_write_bytes": x.nbytes}
    again = Moved(own_device)
    np.testing.assert_array_equal(x + x, kernel(x, out=out))
    assert again.bytes() == {"host_to_device_bytes": x.nbytes, "device_to_host_bytes": x.nbytes}


@pytest.mark.emulator
def test_what_must_be_on_the_device_says_that_there_is_no_room(own_device: vc.Device, emulator: Emulator) -> None:
    kernel, x, out = own_device.compile(programs.first_eight()), numbers(), pageable()
    emulator.fail("cuMemAlloc", result=OUT_OF_MEMORY, repeat=True)

    with pytest.raises(vc.ResourceError, match="device memory"):
        kernel(x, out=out, iterations=2)
    emulator.reset()
    kernel(x, out=out, iterations=2)

    check(expected_of(x, 2), out)


# ---- memory that others have page-locked -----------------------------------------------------------------------------


def locked(library: Library, array: np.ndarray) -> Any:
    """The array, page-locked without a word to the device."""
    library.call("cuMemHostRegister", ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), 1)
    return array


@pytest.mark.parametrize("late", [pytest.param(True, marks=pytest.mark.emulator), False], ids=["late", "as it comes"])
def test_results_in_memory_that_others_page_locked_are_waited_for(
    device: vc.Device, library: Library, request: pytest.FixtureRequest, late: bool
) -> None:
    kernel, x = device.compile(programs.first_eight()), numbers()
    out = tuple(locked(library, array) for array in pageable())
    if late:
        request.getfixturevalue("emulator").stream_mode("lazy")

    kernel(x, out=out)
    found = [array.copy() for array in out]
    for array in out:
        library.call("cuMemHostUnregister", ctypes.c_void_p(array.ctypes.data))

    check(expected_of(x), tuple(found))


@pytest.mark.emulator
def test_a_run_that_failed_half_way_writes_nothing_any_more(
    own_device: vc.Device, emulator: Emulator, library: Library
) -> None:
    """The first copy is on its way when the second one fails."""
    kernel, x = own_device.compile(programs.first_eight()), numbers()
    kernel(x, out=pageable())
    changed, first = locked(library, pageable()[0]), pageable()[0]
    emulator.stream_mode("lazy")
    emulator.fail("cuMemcpyDtoHAsync", nth=2, result=UNKNOWN)

    with pytest.raises(vc.DriverError):
        kernel(x, out=(changed, first))
    changed[:] = 9
    own_device.synchronize()
    again = pageable()
    kernel(x, out=again)
    library.call("cuMemHostUnregister", ctypes.c_void_p(changed.ctypes.data))

    assert (changed == 9).all()
    check(expected_of(x), again)
