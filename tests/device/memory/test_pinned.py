"""Page-locked arrays: plain NumPy arrays whose memory is kept as long as anything may use it."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda._native.memory.memory import Pinned, find_pinned
from vyre_cuda.ir.core.types import TYPES
from vyre_cuda.testing.emulator import Emulator

from .. import programs

X = np.arange(300, dtype=np.float32)
CUDA_ERROR_INVALID_VALUE = 1
CUDA_ERROR_OUT_OF_MEMORY = 2


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_a_pinned_array_is_an_ordinary_array(device: vc.Device, type_: vc.Type, n: int) -> None:
    array = device.pinned_empty(n, type_)

    assert type(array) is np.ndarray
    assert (array.shape, array.dtype) == ((n,), type_.dtype)
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.flags.aligned
    array.view(np.uint8)[:] = 1
    assert (array.view(np.uint8) == 1).all()


@pytest.mark.parametrize("shape", [24, (24,), (4, 6), (2, 3, 4), ()])
def test_no_other_array_is_between_a_pinned_array_and_its_memory(device: vc.Device, shape: object) -> None:
    """A call looks for the memory of each array, from view to view."""
    array = device.pinned_empty(shape, vc.f32)

    assert array.shape == (shape if isinstance(shape, tuple) else (shape,))
    assert isinstance(array.base, Pinned)


@pytest.mark.parametrize("shape", [(1,) * 33, (2**40, 2**40), (2**62, 8)])
def test_a_shape_that_no_array_has_is_refused(device: vc.Device, shape: tuple[int, ...]) -> None:
    with pytest.raises((ValueError, OverflowError, vc.ResourceError)):
        device.pinned_empty(shape, vc.f32)


def test_slices_and_reshaped_views_are_known_to_be_pinned(device: vc.Device) -> None:
    array = device.pinned_empty(24, vc.f32)
    pinned = find_pinned(array)

    assert isinstance(pinned, Pinned)
    assert pinned.context is device.context
    for view in (array[3:9], array[3:9][1:], array.reshape(4, 6)[1], array.view(np.uint8), array.reshape(2, 12).T):
        assert find_pinned(view) is pinned


def test_other_arrays_are_not_taken_for_pinned(device: vc.Device) -> None:
    array = device.pinned_empty(24, vc.f32)

    for other in (X, X[3:], array.copy(), array + 1, np.frombuffer(memoryview(array), np.float32)):
        assert find_pinned(other) is None


def test_pinned_arrays_compute_like_others(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    x, out = device.pinned_empty(300, vc.f32), device.pinned_empty(300, vc.f32)
    x[:] = X

    result = kernel(x, X, 2.0, out=out)

    assert result is out
    np.testing.assert_array_equal(np.float32(2) * X + X, out)
    np.testing.assert_array_equal(X, device.array(x).numpy())


@pytest.mark.parametrize("n", [-1, 1.5, "3", True])
def test_sizes_must_be_counts(device: vc.Device, n: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        device.pinned_empty(n, vc.f32)


def test_types_must_be_of_this_package(device: vc.Device) -> None:
    with pytest.raises(TypeError):
        device.pinned_empty(3, np.float32)


def test_a_request_beyond_the_host_says_the_numbers(own_device: vc.Device) -> None:
    with pytest.raises(vc.ResourceError, match=r"page-locked memory: asked for \d+ bytes"):
        own_device.pinned_empty(1 << 50, vc.f32)


def test_pinned_memory_is_live_until_the_last_view_is_dropped(own_device: vc.Device) -> None:
    before = own_device.memory_stats()
    array = own_device.pinned_empty(1000, vc.f32)
    view = array[10:20]
    del array
    during = own_device.memory_stats()
    del view
    after = own_device.memory_stats()

    assert during.pinned_live_bytes - before.pinned_live_bytes == 4096
    assert during.pinned_live_count == before.pinned_live_count + 1
    assert after.pinned_live_bytes == before.pinned_live_bytes
    assert after.pinned_idle_bytes == before.pinned_idle_bytes + 4096


def test_pinned_arrays_outlive_their_device(device_name: int | str) -> None:
    device = vc.Device(device_name)
    array = device.pinned_empty(1000, vc.f32)
    array[:] = 7
    device.close()

    assert (array == 7).all()
    array[:] = 8
    assert array[3:].sum() == 8 * 997


@pytest.mark.thin(2)
@pytest.mark.emulator
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "dropped"])
def test_the_last_view_gives_everything_back_to_the_driver(leak_check, device_name: int | str, closed: bool) -> None:
    device = vc.Device(device_name)
    array = device.pinned_empty(1000, vc.f32)
    if closed:
        device.close()
        assert leak_check.new().items() - {("contexts", 1)} == {("pinned", 1)}
    del device
    gc.collect()

    assert array.size == 1000
    del array
    assert leak_check.new() == {}


# ---- memory of the caller's ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [300, (10, 30), (2, 3, 50)], ids=str)
def test_a_registered_array_is_a_view_of_the_callers_memory(device: vc.Device, shape: object) -> None:
    mine = X.reshape(shape).copy()

    view = device.register(mine)

    assert type(view) is np.ndarray
    assert np.shares_memory(view, mine)
    assert (view.shape, view.dtype, view.strides) == (mine.shape, mine.dtype, mine.strides)
    pinned = find_pinned(view[1:])
    assert isinstance(pinned, Pinned)
    assert pinned.owner is mine
    assert find_pinned(mine) is None
    np.testing.assert_array_equal(mine, view)
    view[:] = 5
    assert (mine == 5).all()


def test_the_view_keeps_the_callers_memory(device: vc.Device) -> None:
    view = device.register(X.copy())
    gc.collect()

    np.testing.assert_array_equal(X, view)


def test_a_read_only_array_gives_a_read_only_view(device: vc.Device) -> None:
    mine = X.copy()
    mine.flags.writeable = False

    view = device.register(mine)

    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_an_empty_array_can_be_registered(device: vc.Device) -> None:
    assert device.register(np.empty(0, np.float32)).size == 0


def test_memory_can_be_registered_again_once_it_is_unlocked(device: vc.Device) -> None:
    mine = X.copy()
    view = device.register(mine)
    del view

    np.testing.assert_array_equal(X, device.register(mine))


def test_overlapping_registrations_are_refused(device: vc.Device) -> None:
    mine = np.zeros(1 << 16, np.float32)
    view = device.register(mine[: 3 << 14])

    with pytest.raises(ValueError, match="page-locked already"):
        device.register(mine[1 << 14 :])

    assert view.size == 3 << 14


@pytest.mark.parametrize(
    ("error", "make"),
    [
        (TypeError, lambda: [1.0]),
        (TypeError, lambda: np.array([None])),
        (ValueError, lambda: X[::2]),
        (ValueError, lambda: np.zeros((3, 4)).T),
    ],
    ids=["list", "objects", "step", "transposed"],
)
def test_register_refuses_what_it_cannot_lock(device: vc.Device, error: type[Exception], make) -> None:
    with pytest.raises(error):
        device.register(make())


@pytest.mark.emulator
def test_closing_unlocks_registered_memory_and_leaves_it_to_its_owner(leak_check, device_name: int | str) -> None:
    device = vc.Device(device_name)
    mine = X.copy()
    view = device.register(mine)

    device.close()

    assert leak_check.new() == {}
    np.testing.assert_array_equal(X, view)


@pytest.mark.emulator
@pytest.mark.parametrize("call", ["cuMemHostAlloc", "cuMemHostRegister", "cuMemHostGetDevicePointer"])
def test_a_failing_call_is_an_error_and_leaves_nothing_locked(
    own_device: vc.Device, emulator: Emulator, call: str
) -> None:
    mine = X.copy()
    before = emulator.live()
    emulator.fail(call, result=CUDA_ERROR_INVALID_VALUE)

    with pytest.raises(vc.DriverError) as caught:
        own_device.pinned_empty(3 << 20, vc.f32) if call == "cuMemHostAlloc" else own_device.register(mine)

    assert caught.value.op == call
    assert emulator.live() == before
    assert own_device.register(mine).size == 300


@pytest.mark.emulator
def test_registering_out_of_memory_is_a_resource_error(own_device: vc.Device, emulator: Emulator) -> None:
    emulator.fail("cuMemHostRegister", result=CUDA_ERROR_OUT_OF_MEMORY)

    with pytest.raises(vc.ResourceError):
        own_device.register(X.copy())


@pytest.mark.parametrize("make", ["pinned_empty", "register"])
def test_a_closed_device_refuses(device_name: int | str, make: str) -> None:
    device = vc.Device(device_name)
    device.close()

    with pytest.raises(vc.DeviceUnavailableError, match="closed"):
        device.register(X) if make == "register" else device.pinned_empty(3, vc.f32)


@pytest.mark.emulator
def test_registered_memory_is_given_back_only_when_an_abandoned_call_has_ended(
    own_device: vc.Device, emulator: Emulator
) -> None:
    kernel = own_device.compile(programs.saxpy())
    x = np.arange(1000, dtype=np.float32)
    page = np.zeros(1000, np.float32)
    kernel(x, x, 1.0)
    emulator.set("held", 1)
    result = own_device.register(page)
    pending = kernel.submit(x, x, 2.0, out=result)
    assert not pending.done()
    release = threading.Timer(0.02, emulator.set, ("held", 0))
    release.start()

    del pending, result  # the last view: the memory is the caller's again

    np.testing.assert_array_equal(np.float32(2) * x + x, page)
    release.join()
    np.testing.assert_array_equal(np.float32(3) * x + x, kernel(x, x, 3.0))
    own_device.register(page)[:] = 0  # it is not locked any more


def misaligned(array: np.ndarray, n: int, dtype: np.typing.DTypeLike) -> np.ndarray:
    """`n` elements of page-locked bytes, two bytes behind a boundary."""
    return array[2 : 2 + n * np.dtype(dtype).itemsize].view(dtype)


@pytest.mark.thin(4)
@pytest.mark.parametrize("how", ["call", "keyword", "submit", "timed", "record"])
@pytest.mark.parametrize("registered", [False, True], ids=["pinned", "registered"])
@pytest.mark.parametrize("n", [7, 300_000])
def test_a_misaligned_page_locked_array_is_staged_and_the_device_is_not_lost(
    device: vc.Device, how: str, registered: bool, n: int
) -> None:
    def array() -> np.ndarray:
        room = np.zeros(4 * n + 8, np.uint8)
        return misaligned(device.register(room) if registered else device.pinned_empty(room.size, vc.u8), n, np.float32)

    kernel = device.compile(programs.saxpy())
    x, y, out = array(), array(), array()
    x[:], y[:], out[:] = np.arange(n), 1, -1

    match how:
        case "call":
            result = kernel(x, y, 2.0, out=out)
        case "keyword":
            result = kernel(x=x, y=y, a=2.0, out={"out": out})
        case "submit":
            result = kernel.submit(x, y, 2.0, out=out).result()
        case "timed":
            result = kernel.timed(x, y, 2.0, out=out).outputs
        case _:
            result = kernel.record(x, y, 2.0).replay(out=out)

    assert result is out
    np.testing.assert_array_equal(2 * np.arange(n, dtype=np.float32) + 1, out)


def test_a_recorded_copy_takes_misaligned_page_locked_arrays(device: vc.Device) -> None:
    pinned, back = (misaligned(device.pinned_empty(48, vc.u8), 10, np.float32) for _ in range(2))
    pinned[:], back[:] = np.arange(10), 0
    x = device.zeros(10, vc.f32)
    with device.record() as graph:
        x.copy_from(pinned)
        graph.download(x, back)

    graph.replay()
    device.synchronize()

    np.testing.assert_array_equal(np.arange(10, dtype=np.float32), back)
