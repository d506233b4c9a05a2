"""Device arrays with several axes: views, elements, copies, and what other libraries see of them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture
def array(device: vc.Device) -> vc.DeviceArray:
    return device.array(X)


def test_an_array_has_the_shape_that_it_was_made_with(device: vc.Device, array: vc.DeviceArray) -> None:
    assert (array.shape, array.ndim, array.size, len(array)) == ((2, 3, 4), 3, 24, 2)
    np.testing.assert_array_equal(X, array.numpy(), strict=True)
    assert device.empty((5, 6), vc.i32).shape == (5, 6)
    assert device.empty((7,), vc.i32).shape == (7,)
    assert device.empty((2, 0, 3), vc.i32).numpy().shape == (2, 0, 3)
    assert device.pinned_empty((5, 6), vc.u8).shape == (5, 6)
    for single in (device.array(np.array(3, np.float32)), device.full((), 3, vc.f32)):
        np.testing.assert_array_equal(np.array(3, np.float32), single.numpy(), strict=True)
    assert device.zeros((1,) * 32, vc.u8).ndim == 32
    np.testing.assert_array_equal(np.zeros((5, 6), np.int32), device.zeros((5, 6), vc.i32).numpy(), strict=True)
    np.testing.assert_array_equal(np.full((5, 6), 7, np.int64), device.full((5, 6), 7, vc.i64).numpy(), strict=True)
    for like in (array, X):
        made = device.empty_like(like)
        assert (made.shape, made.dtype) == (X.shape, X.dtype)


@pytest.mark.parametrize("shape", [(6, 5), (100, 100, 20)], ids=str)
def test_a_large_and_a_small_array_come_back_in_their_shape(device: vc.Device, shape: tuple[int, ...]) -> None:
    host = np.random.default_rng(1).random(shape)
    np.testing.assert_array_equal(host, device.array(host).numpy(), strict=True)
    out = np.empty(host.size)
    assert device.array(host).numpy(out) is out
    np.testing.assert_array_equal(host.ravel(), out)


INDICES: list[Any] = [
    1,
    -1,
    (1, 2),
    (0, -1, 3),
    slice(1, 2),
    slice(0, 0),
    slice(None),
    (1, slice(1, 3)),
    (1, slice(5, 1)),
    (0, 2, slice(1, None)),
    np.int64(1),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_an_index_selects_what_it_does_in_numpy(array: vc.DeviceArray, index: Any) -> None:
    chosen = array[index]
    if isinstance(chosen, vc.DeviceArray):
        np.testing.assert_array_equal(X[index], chosen.numpy(), strict=True)
    else:
        assert (chosen, type(chosen)) == (X[index], np.float32)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_what_is_selected_can_be_written(device: vc.Device, array: vc.DeviceArray, index: Any) -> None:
    expected = X.copy()
    expected[index] = 7
    array[index] = 7
    np.testing.assert_array_equal(expected, array.numpy())

    new = np.random.default_rng(1).random(X[index].shape).astype(np.float32)
    expected[index] = new
    array[index] = new if new.ndim == 0 else device.array(new) if new.size % 2 else new
    np.testing.assert_array_equal(expected, array.numpy())


WRONG = [
    (2, IndexError, r"index 2 is out of range for axis 0 of an array of shape \(2, 3, 4\)"),
    ((0, -4), IndexError, "index -4 is out of range for axis 1"),
    ((0, 0, 0, 0), IndexError, "4 indices for an array with 3 axes"),
    ((slice(0, 1), 0), ValueError, "a slice must be the last index"),
    (slice(0, 2, 2), ValueError, "a slice with step 2"),
    (1.0, TypeError, "an index of type float"),
    (True, TypeError, "an index of type bool"),
    (None, TypeError, "an index of type NoneType"),
    (..., TypeError, "an index of type ellipsis"),
]


@pytest.mark.parametrize("index, kind, message", WRONG, ids=[str(index) for index, *_ in WRONG])
def test_another_index_is_refused(array: vc.DeviceArray, index: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        array[index]
    with pytest.raises(kind, match=message):
        array[index] = 0


def test_an_assignment_that_does_not_fit_is_refused(array: vc.DeviceArray) -> None:
    with pytest.raises(ValueError, match=r"shape \(4,\) does not fit what is selected, which has shape \(3, 4\)"):
        array[0] = np.zeros(4, np.float32)
    with pytest.raises(TypeError, match="float64"):
        array[0, 0] = np.zeros(4)
    np.testing.assert_array_equal(X, array.numpy())


def test_views_share_the_memory(array: vc.DeviceArray) -> None:
    row = array[1]
    row[2, 3] = 100
    flat = array.reshape(-1)
    assert (row.shape, flat.shape, flat[-1]) == ((3, 4), (24,), 100)
    array.reshape(4, 6)[0].fill(5)
    assert array.numpy().ravel()[:7].tolist() == [5] * 6 + [6]


def test_reshape_takes_every_shape_of_the_same_size(device: vc.Device, array: vc.DeviceArray) -> None:
    assert array.reshape((6, 4)).shape == (6, 4)
    assert array.reshape(6, -1).shape == (6, 4)
    assert array.reshape([2, 12]).shape == (2, 12)
    assert device.zeros((0, 3), vc.f32).reshape(5, -1).shape == (5, 0)
    for shape in ((5, 5), (-1, 5), (-1, 0), (25,)):
        with pytest.raises(ValueError, match="24 elements cannot have the shape"):
            array.reshape(*shape)
    with pytest.raises(ValueError, match="more than one -1"):
        array.reshape(-1, -1)
    with pytest.raises(ValueError, match="has no elements, whatever -1 stands for"):
        device.zeros((0, 3), vc.f32).reshape(0, -1)
    with pytest.raises(ValueError, match="24 elements cannot have the shape"):
        array.reshape(())
    assert device.full(1, 7, vc.i32).reshape(()).numpy() == np.int32(7)
    with pytest.raises(ValueError, match="33 axes; arrays have at most 32"):
        device.zeros((1,) * 33, vc.u8)
    with pytest.raises(ValueError, match="a size of -2"):
        device.empty((3, -2), vc.u8)
    with pytest.raises(TypeError, match="not a float"):
        device.empty((3, 2.0), vc.u8)  # type: ignore[arg-type]


def test_offsets_of_copies_stay_flat(device: vc.Device, array: vc.DeviceArray) -> None:
    array.copy_from(np.full(2, -1, np.float32), 5)
    device.upload([(array, 22, np.full(2, -2, np.float32))])
    (part,) = device.download([(array, 4, 4)])
    assert part.tolist() == [4, -1, -1, 7]
    assert array[1, 2].numpy().tolist() == [20, 21, -2, -2]


def test_copies_are_new_arrays(array: vc.DeviceArray) -> None:
    for made in (array.copy(), copy.copy(array), copy.deepcopy(array)):
        made.fill(0)
        assert made.shape == array.shape
    np.testing.assert_array_equal(X, array.numpy())


@pytest.mark.parametrize("shape", [(0,), (1,), (2, 3)])
def test_whether_an_array_is_true_is_refused_as_ambiguous(device: vc.Device, shape: tuple[int, ...]) -> None:
    with pytest.raises(TypeError, match=r"ambiguous; write a.size > 0"):
        bool(device.zeros(shape, vc.f32))


def test_comparing_arrays_is_refused_as_ambiguous(device: vc.Device, array: vc.DeviceArray) -> None:
    with pytest.raises(TypeError, match=r"ambiguous; compare elements with a.numpy\(\)"):
        assert array == array.copy()
    with pytest.raises(TypeError, match="ambiguous"):
        assert array != X
    assert len({array, array[:], device.zeros(1, vc.f32)}) == 3


def test_other_libraries_see_the_shape(device: vc.Device, array: vc.DeviceArray) -> None:
    seen = np.from_dlpack(array) if device.properties.is_emulator else array.numpy()
    np.testing.assert_array_equal(X, seen, strict=True)
    np.testing.assert_array_equal(
        X[1, 1:], np.from_dlpack(array[1, 1:].copy()) if device.properties.is_emulator else X[1, 1:]
    )


def test_an_imported_array_keeps_its_shape(device: vc.Device) -> None:
    given = device.array(X)

    class Other:
        def __dlpack__(self, **options: Any) -> Any:
            return given.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return given.__dlpack_device__()

    imported = vc.from_dlpack(Other(), device=device)
    assert imported.shape == (2, 3, 4)
    np.testing.assert_array_equal(X, imported.numpy(), strict=True)


def test_a_recording_keeps_flat_offsets_and_views(device: vc.Device, array: vc.DeviceArray) -> None:
    new = device.array(np.full(4, 9, np.float32))
    with device.record() as graph:
        array[1, 2] = new
        array.copy_from(new, 2)
        array[0, 2, 3] = 5
        made = array.copy()
    graph.replay()
    device.synchronize()
    expected = X.copy()
    expected[1, 2] = 9
    expected.ravel()[2:6] = 9
    expected[0, 2, 3] = 5
    np.testing.assert_array_equal(expected, array.numpy())
    np.testing.assert_array_equal(expected, made.numpy(), strict=True)


@pytest.mark.parametrize(
    ("compute", "way"),
    [
        (np.sum, r"vc\.algorithms\.sum\(a\), or give it a\.numpy\(\)"),
        (np.amax, r"vc\.algorithms\.max\(a\)"),
        (np.add.reduce, r"np\.add\.reduce .*vc\.algorithms\.sum\(a\)"),
        (np.sin, r"vc\.sin in a kernel or in a function with @vc\.vectorize"),
        (lambda a: np.concatenate([a, a]), r"give it a\.numpy\(\)"),
        (np.zeros_like, r"a\.device\.zeros\(a\.shape, a\.type\)"),
        (lambda a: a @ a, r"vc\.algorithms\.matmul\(a, b\)"),
        (lambda a: a + 1, r"@vc\.vectorize, or compute with a\.numpy\(\)"),
        (lambda a: 1 - a, "@vc.vectorize"),
        (lambda a: -a, "@vc.vectorize"),
        (lambda a: a < 1, "@vc.vectorize"),
        (lambda a: np.arange(3) * a, "@vc.vectorize"),
        (lambda a: np.float32(3) * a, "@vc.vectorize"),
    ],
)
def test_what_only_arrays_of_numpy_can_says_what_to_write(device: vc.Device, compute: Any, way: str) -> None:
    with pytest.raises(TypeError, match=way):
        compute(device.zeros(3, vc.f32))


def test_the_shape_of_a_device_array_is_known_to_numpy(device: vc.Device) -> None:
    array = device.zeros((2, 3), vc.f32)

    assert (np.shape(array), np.ndim(array), np.size(array), np.size(array, 1)) == ((2, 3), 2, 6, 3)
