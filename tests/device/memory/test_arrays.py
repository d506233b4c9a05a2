"""Device arrays: contents, views, indices, refusals, memory accounting."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.types import TYPES, by_dtype


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_a_round_trip_keeps_every_byte(device: vc.Device, type_: vc.Type, n: int) -> None:
    data = np.random.default_rng(1).integers(0, 2 if type_ is vc.bool_ else 256, n * type_.itemsize, np.uint8)
    host = data.view(type_.dtype)

    array = device.array(host)

    assert array.numpy().tobytes() == host.tobytes()
    assert (len(array), array.size, array.shape, array.nbytes) == (n, n, (n,), n * type_.itemsize)
    assert array.dtype == type_.dtype
    assert array.type is by_dtype(type_.dtype)


def test_zeros_are_zero_also_in_reused_memory(device: vc.Device) -> None:
    for _ in range(3):
        device.array(np.full(100, 7, np.int32)).free()
        assert not device.zeros(100, vc.i32).numpy().any()


def test_slices_are_views(device: vc.Device) -> None:
    array = device.array(np.arange(100, dtype=np.int32))

    part = array[10:20]
    part.copy_from(np.full(5, -1, np.int32), offset=5)

    np.testing.assert_array_equal([10, 11, 12, 13, 14, -1, -1, -1, -1, -1], part.numpy())
    np.testing.assert_array_equal(part.numpy(), array.numpy()[10:20])
    assert array[-3:].size == 3
    assert array[50:40].size == 0
    assert part[2:4].numpy().tolist() == [12, 13]


def test_an_index_gives_a_numpy_scalar(device: vc.Device) -> None:
    array = device.array(np.arange(5, dtype=np.float32))

    assert array[3] == np.float32(3)
    assert isinstance(array[-1], np.float32)
    with pytest.raises(IndexError):
        array[5]
    with pytest.raises(TypeError):
        array["a"]
    with pytest.raises(ValueError, match="step"):
        array[::2]


def test_copy_between_device_arrays(device: vc.Device) -> None:
    source, target = device.array(np.arange(10, dtype=np.int32)), device.zeros(12, vc.i32)

    target.copy_from(source[3:6], offset=2)

    np.testing.assert_array_equal([0, 0, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0], target.numpy())


@pytest.mark.parametrize(
    ("error", "data", "offset"),
    [
        (TypeError, [1, 2], 0),
        (TypeError, np.zeros(2, np.float32), 0),
        (ValueError, np.zeros(11, np.int32), 0),
        (ValueError, np.zeros(2, np.int32), 9),
        (ValueError, np.zeros(2, np.int32), -1),
    ],
    ids=["list", "dtype", "too-long", "beyond", "negative"],
)
def test_copy_from_refuses_what_does_not_fit(device: vc.Device, error, data, offset: int) -> None:
    array = device.zeros(10, vc.i32)

    with pytest.raises(error):
        array.copy_from(data, offset=offset)

    assert not array.numpy().any()


def test_device_arrays_do_not_pose_as_host_arrays(device: vc.Device) -> None:
    array = device.zeros(3, vc.f32)

    with pytest.raises(TypeError, match=r"\.numpy\(\)"):
        np.asarray(array)
    with pytest.raises(TypeError):
        np.float32(1) + array
    with pytest.raises(TypeError):
        iter(array)


@pytest.mark.emulator
def test_memory_of_the_emulator_is_not_passed_off_as_cuda_memory(device: vc.Device) -> None:
    assert not hasattr(device.zeros(3, vc.f32), "__cuda_array_interface__")


def test_a_freed_array_is_refused_everywhere(device: vc.Device) -> None:
    array = device.zeros(10, vc.i32)
    view = array[2:5]
    array.free()
    array.free()

    for use in (array.numpy, lambda: array[0], lambda: array[1:2], lambda: array.copy_from(np.zeros(1, np.int32))):
        with pytest.raises(ValueError, match="freed"):
            use()
    assert not view.numpy().any()
    assert array.is_freed


@pytest.mark.parametrize("n", [-1, 1.5, "3", True])
def test_sizes_must_be_counts(device: vc.Device, n: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        device.empty(n, vc.f32)


@pytest.mark.parametrize("shape", [2**62, (2**40, 2**40)])
def test_more_bytes_than_can_be_counted_are_memory_that_is_not_there(device: vc.Device, shape: object) -> None:
    with pytest.raises(vc.ResourceError, match=r"an array of float32 of shape .* bytes; no device has as much memory"):
        device.zeros(shape, vc.f32)


def test_types_must_be_of_this_package(device: vc.Device) -> None:
    with pytest.raises(TypeError):
        device.empty(3, np.float32)
    with pytest.raises(TypeError):
        device.array(np.zeros(3, np.complex64))
    with pytest.raises(TypeError):
        device.array([1.0])


@pytest.mark.parametrize(
    ("given", "type_"), [(np.uint64, "u64"), (np.dtype("f8"), "f64"), ("int16", "i16"), (bool, "bool_"), (None, "f32")]
)
def test_a_dtype_in_place_of_a_type_is_told_its_type(device: vc.Device, given: object, type_: str) -> None:
    with pytest.raises(TypeError, match=rf"\(write vc\.{type_}\)"):
        device.zeros(3, given)  # type: ignore[arg-type]


def test_memory_statistics_follow_allocation_and_release(own_device: vc.Device) -> None:
    before = own_device.memory_stats()
    array = own_device.zeros(1 << 20, vc.f32)
    during = own_device.memory_stats()
    array.free()
    after = own_device.memory_stats()
    again = own_device.zeros(1 << 20, vc.f32)
    reused = own_device.memory_stats()

    assert during.live_bytes - before.live_bytes == 4 << 20
    assert during.live_count == before.live_count + 1
    assert after.live_bytes == before.live_bytes
    assert after.idle_bytes == before.idle_bytes + (4 << 20)
    assert reused.hits == after.hits + 1
    assert reused.peak_bytes == during.peak_bytes
    assert again.size == 1 << 20


def test_a_budget_bounds_idle_memory_and_trim_ends_it(own_device: vc.Device) -> None:
    own_device.set_memory_budget(device_bytes=3 << 20)
    for _ in range(2):
        arrays = [own_device.empty(1 << 20, vc.u8) for _ in range(8)]
        del arrays
        own_device.synchronize()
        kept = own_device.memory_stats()
        assert 0 < kept.idle_bytes <= kept.budget_bytes == 3 << 20
    own_device.trim()
    trimmed = own_device.memory_stats()

    assert kept.pinned_budget_bytes == trimmed.pinned_budget_bytes > 0
    assert trimmed.idle_bytes == 0
    assert trimmed.frees == trimmed.misses


@pytest.mark.parametrize(
    ("error", "value"), [(TypeError, "1"), (TypeError, True), (ValueError, -1), (ValueError, 1 << 63)]
)
def test_a_budget_must_be_a_number_of_bytes(device: vc.Device, error: type[Exception], value: object) -> None:
    with pytest.raises(error):
        device.set_memory_budget(device_bytes=value)


def test_a_request_beyond_the_device_says_the_numbers(own_device: vc.Device) -> None:
    with pytest.raises(vc.ResourceError, match=r"asked for \d+ bytes"):
        own_device.empty(1 << 42, vc.f32)

    np.testing.assert_array_equal(np.zeros(5), own_device.zeros(5, vc.f32).numpy())
