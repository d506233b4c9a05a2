"""Uploads and downloads: merged neighbors, one wait, nothing touched when a range is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from .transfer_calls import CUDA_ERROR_UNKNOWN, calls

CHUNK = 1 << 20  # bytes that are gathered in one page-locked block
WAITS = ("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize")


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_uploads_and_downloads_of_the_interface(device: vc.Device) -> None:
    dx, dy = device.zeros(4, vc.i32), device.zeros(256, vc.f32)
    part = np.arange(5, dtype=np.float32)

    device.upload([(dx, ints(1, 2, 3, 4)), (dy, 128, part)])
    first, second = device.download([(dx, 0, 4), (dy, 127, 8)])

    np.testing.assert_array_equal([1, 2, 3, 4], first)
    np.testing.assert_array_equal([0, 0, 1, 2, 3, 4, 0, 0], second)


# ---- merging ---------------------------------------------------------------------------------------------------------


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("copies", "ranges"),
    [
        (1, [(0, 2), (2, 2)]),
        (1, [(2, 2), (0, 2)]),
        (1, [(0, 4), (1, 2)]),
        (1, [(1, 2), (0, 4)]),
        (1, [(0, 2), (5, 0), (2, 2)]),
        (2, [(0, 2), (3, 2)]),
        (2, [(0, 2), (4, 2), (2, 2)]),
        (3, [(0, 2), (4, 2), (0, 2)]),
        (1, [(0, 8)]),
    ],
)
def test_an_upload_joins_the_one_before_it(
    own_device: vc.Device, emulator: Emulator, copies: int, ranges: list[tuple[int, int]]
) -> None:
    array, expected = own_device.zeros(8, vc.i32), np.zeros(8, np.int32)
    items = []
    for number, (offset, count) in enumerate(ranges):
        items.append((array, offset, np.full(count, number + 1, np.int32)))
        expected[offset : offset + count] = number + 1

    with calls(emulator, cuMemcpyHtoDAsync=copies, **dict.fromkeys(WAITS, 0)):
        own_device.upload(items)

    np.testing.assert_array_equal(expected, array.numpy())


@pytest.mark.emulator
def test_uploads_to_several_arrays_keep_their_order(own_device: vc.Device, emulator: Emulator) -> None:
    one, other = own_device.zeros(4, vc.i32), own_device.zeros(4, vc.i32)

    with calls(emulator, cuMemcpyHtoDAsync=3):
        own_device.upload([(one, 0, ints(1, 1)), (other, 0, ints(2, 2)), (one, 1, ints(3, 3))])

    np.testing.assert_array_equal([1, 3, 3, 0], one.numpy())
    np.testing.assert_array_equal([2, 2, 0, 0], other.numpy())


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("copies", "ranges"),
    [
        (1, [(0, 8), (4, 8), (12, 4)]),
        (1, [(2, 3), (2, 3)]),
        (1, [(8, 8), (0, 8)]),
        (2, [(0, 3), (4, 3)]),
        (2, [(10, 2), (0, 2), (1, 3), (12, 0)]),
    ],
)
def test_downloads_of_neighbors_are_one_copy_and_one_wait(
    own_device: vc.Device, emulator: Emulator, copies: int, ranges: list[tuple[int, int]]
) -> None:
    host = np.arange(16, dtype=np.int32)
    array = own_device.array(host)

    with calls(emulator, cuMemcpyDtoHAsync=copies, cuStreamSynchronize=1, cuCtxSynchronize=0):
        results = own_device.download([(array, offset, count) for offset, count in ranges])

    for (offset, count), result in zip(ranges, results, strict=True):
        np.testing.assert_array_equal(host[offset : offset + count], result)


@pytest.mark.emulator
def test_downloads_of_several_arrays_wait_once(own_device: vc.Device, emulator: Emulator) -> None:
    arrays = [own_device.array(np.full(100, i, np.int32)) for i in range(40)]

    with calls(emulator, cuMemcpyDtoHAsync=40, cuStreamSynchronize=1):
        results = own_device.download([(array, 10, 5) for array in arrays])

    assert [result.tolist() for result in results] == [[i] * 5 for i in range(40)]


@pytest.mark.emulator
def test_nothing_but_empty_ranges_asks_the_driver_nothing(own_device: vc.Device, emulator: Emulator) -> None:
    array = own_device.zeros(4, vc.i32)

    with calls(emulator, calls=0):
        own_device.upload([])
        own_device.upload([(array, ints()), (array, 4, ints())])
        assert own_device.download([]) == []
        assert [r.size for r in own_device.download([(array, 0, 0), (array, 4, 0)])] == [0, 0]


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "wrong"),
    [
        (ValueError, lambda a: (a, 3, ints(1, 2))),
        (ValueError, lambda a: (a, -1, ints(1))),
        (ValueError, lambda a: (a, ints(1, 2, 3, 4, 5))),
        (TypeError, lambda a: (a, np.zeros(2, np.float32))),
        (TypeError, lambda a: (a, [1, 2])),
        (TypeError, lambda a: (a, 1.0, ints(1))),
        (TypeError, lambda a: (a, True, ints(1))),
        (TypeError, lambda a: (ints(1), ints(1))),
        (TypeError, lambda a: a),
        (TypeError, lambda a: (a,)),
    ],
)
def test_an_upload_with_a_wrong_item_writes_nothing(device: vc.Device, error: type[Exception], wrong) -> None:
    array = device.zeros(4, vc.i32)

    with pytest.raises(error):
        device.upload([(array, ints(7, 7)), wrong(array)])

    assert not array.numpy().any()


@pytest.mark.parametrize(
    ("error", "wrong"),
    [
        (ValueError, lambda a: (a, 3, 2)),
        (ValueError, lambda a: (a, -1, 1)),
        (ValueError, lambda a: (a, 0, -1)),
        (TypeError, lambda a: (a, 0, 1.0)),
        (TypeError, lambda a: (a, 0)),
        (TypeError, lambda a: (ints(1), 0, 1)),
    ],
)
def test_a_download_with_a_wrong_item_is_refused(device: vc.Device, error: type[Exception], wrong) -> None:
    array = device.zeros(4, vc.i32)

    with pytest.raises(error):
        device.download([(array, 0, 4), wrong(array)])


def test_transfers_take_lists(device: vc.Device) -> None:
    array = device.zeros(4, vc.i32)

    with pytest.raises(TypeError):
        device.upload((array, ints(1)))
    with pytest.raises(TypeError):
        device.download((array, 0, 1))


def test_arrays_of_another_device_or_none_are_refused(device: vc.Device, own_device: vc.Device) -> None:
    foreign, freed = own_device.zeros(4, vc.i32), device.zeros(4, vc.i32)
    freed.free()

    for array in (foreign, freed):
        with pytest.raises(ValueError):
            device.upload([(array, ints(1))])
        with pytest.raises(ValueError):
            device.download([(array, 0, 1)])


# ---- sizes and places ------------------------------------------------------------------------------------------------


@pytest.mark.thin(4)
@pytest.mark.parametrize("pinned", [False, True], ids=["pageable", "pinned"])
@pytest.mark.parametrize("nbytes", [CHUNK - 1, CHUNK, CHUNK + 1, 4 * CHUNK, 9 * CHUNK + 12345])
def test_large_copies_keep_every_byte(device: vc.Device, nbytes: int, pinned: bool) -> None:
    data = device.pinned_empty(nbytes, vc.u8) if pinned else np.empty(nbytes, np.uint8)
    back = device.pinned_empty(nbytes, vc.u8) if pinned else np.empty(nbytes, np.uint8)
    data[:] = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    array = device.empty(nbytes + 7, vc.u8)

    array.copy_from(data, offset=7)
    assert array[7:].numpy(out=back) is back

    np.testing.assert_array_equal(data, back)
    np.testing.assert_array_equal(data, array[7:].numpy())


@pytest.mark.emulator
def test_page_locked_arrays_are_copied_in_place(own_device: vc.Device, emulator: Emulator) -> None:
    data = own_device.pinned_empty(5 * CHUNK, vc.u8)
    data[:] = 3
    array = own_device.empty(5 * CHUNK, vc.u8)

    with calls(emulator, cuMemcpyHtoDAsync=1, cuMemcpyDtoHAsync=1, cuStreamSynchronize=2):
        array.copy_from(data)
        array.numpy(out=data)

    assert (data == 3).all()


@pytest.mark.emulator
def test_pageable_memory_is_free_again_when_a_copy_returns(own_device: vc.Device, emulator: Emulator) -> None:
    emulator.stream_mode("lazy")
    for count in (100, 3 * CHUNK):
        data = np.full(count, 5, np.uint8)
        array = own_device.zeros(count, vc.u8)
        array.copy_from(data)
        data[:] = 9
        assert (array.numpy() == 5).all()


@pytest.mark.emulator
def test_a_copy_has_arrived_where_another_library_sees_the_memory(own_device: vc.Device, emulator: Emulator) -> None:
    array = own_device.zeros(100, vc.i32)
    seen = np.from_dlpack(array)
    emulator.stream_mode("lazy")

    array.copy_from(np.arange(100, dtype=np.int32))

    np.testing.assert_array_equal(np.arange(100), seen)


def test_transfers_follow_work_on_other_streams(device: vc.Device) -> None:
    kernel, stream = device.compile(programs.add_to()), device.stream()
    h, one = device.zeros(1000, vc.i32), device.array(np.ones(1000, np.int32))
    for _ in range(10):
        kernel.launch(h, one, stream=stream)

    (before,) = device.download([(h, 0, 1000)])
    device.upload([(h, np.zeros(500, np.int32))])

    assert (before == 10).all()
    np.testing.assert_array_equal([0] * 500 + [10] * 500, h.numpy())


def test_numpy_into_an_array_of_the_callers(device: vc.Device) -> None:
    array = device.array(np.arange(6, dtype=np.int32))
    out = np.zeros((2, 3), np.int32)

    assert array.numpy(out=out) is out
    np.testing.assert_array_equal([[0, 1, 2], [3, 4, 5]], out)
    read_only = np.zeros(6, np.int32)
    read_only.flags.writeable = False
    for error, wrong in (
        (TypeError, [0] * 6),
        (TypeError, np.zeros(6, np.float32)),
        (ValueError, np.zeros(5, np.int32)),
        (ValueError, np.zeros(12, np.int32)[::2]),
        (ValueError, read_only),
    ):
        with pytest.raises(error):
            array.numpy(out=wrong)


# ---- against a model -------------------------------------------------------------------------------------------------


RANGES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 63), st.integers(0, 40)).map(lambda r: (*r[:2], min(r[2], 64 - r[1]))),
    max_size=25,
)


@given(written=RANGES, read=RANGES, seed=st.integers(0, 1 << 32))
def test_any_ranges_do_what_numpy_does(shared_device: vc.Device, written, read, seed: int) -> None:
    random = np.random.default_rng(seed)
    hosts = [np.zeros(64, np.int32) for _ in range(3)]
    arrays = [shared_device.zeros(64, vc.i32) for _ in range(3)]
    items = []
    for which, offset, count in written:
        data = random.integers(0, 1 << 30, count, np.int32)
        items.append((arrays[which], offset, data))
        hosts[which][offset : offset + count] = data

    shared_device.upload(items)
    results = shared_device.download([(arrays[which], offset, count) for which, offset, count in read])

    for (which, offset, count), result in zip(read, results, strict=True):
        np.testing.assert_array_equal(hosts[which][offset : offset + count], result)
    for host, array in zip(hosts, arrays, strict=True):
        np.testing.assert_array_equal(host, array.numpy())


# ---- failing calls ---------------------------------------------------------------------------------------------------


@pytest.mark.thin(20)
@pytest.mark.emulator
@pytest.mark.parametrize("nth", [1, 2, 6])
@pytest.mark.parametrize(
    "call",
    [
        "cuMemHostAlloc",
        "cuMemcpyHtoDAsync",
        "cuMemcpyDtoHAsync",
        "cuEventCreate",
        "cuEventRecord",
        "cuEventQuery",
        "cuStreamSynchronize",
    ],
)
def test_a_failing_call_is_an_error_and_the_next_transfer_is_right(
    emulator: Emulator, leak_check, call: str, nth: int
) -> None:
    data = np.random.default_rng(1).integers(0, 256, 7 * CHUNK, np.uint8)
    with vc.Device("emulator") as device:
        array, pinned = device.empty(7 * CHUNK, vc.u8), device.pinned_empty(7 * CHUNK, vc.u8)
        emulator.stream_mode("lazy")
        emulator.fail(call, nth=nth, result=CUDA_ERROR_UNKNOWN)

        first = outcome(device, array, pinned, data)
        emulator.reset()

        assert first in (None, call)
        assert outcome(device, array, pinned, data) is None
        del pinned


def outcome(device: vc.Device, array: vc.DeviceArray, pinned: np.ndarray, data: np.ndarray) -> str | None:
    """The driver call that some transfers failed with; None, and their results are right."""
    try:
        device.upload([(array, data), (array, 3, data[:5]), (array, 3, data[3:8])])
        array.numpy(out=pinned)
        back, part = device.download([(array, 0, 7 * CHUNK), (array, 9, 9)])
    except vc.DriverError as error:
        return error.op
    np.testing.assert_array_equal(data, pinned)
    np.testing.assert_array_equal(data, back)
    np.testing.assert_array_equal(data[9:18], part)
    return None
