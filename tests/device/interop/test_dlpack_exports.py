"""Device arrays in other libraries by DLPack: the same memory, behind the work on it, until the last one lets go."""

from __future__ import annotations

import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from ..foreign_library import Wrapped

pytestmark = pytest.mark.emulator
F32 = np.float32


def test_an_emulator_array_is_host_memory_in_dlpack(device: vc.Device) -> None:
    x = device.array(np.arange(10, dtype=F32))

    assert x.__dlpack_device__() == (1, 0)
    assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(ValueError, match="without a stream"):
        x.__dlpack__(stream=1)


def test_numpy_shares_the_memory_of_a_slice(device: vc.Device) -> None:
    x = device.array(np.arange(10, dtype=F32))

    view = np.from_dlpack(x[3:7])
    view[0] = 30
    x[4:5].copy_from(np.array([40], F32))

    np.testing.assert_array_equal(np.array([30, 40, 5, 6], F32), view)
    assert x[3] == 30


def test_an_export_waits_for_the_work_on_the_array(device: vc.Device, emulator: Emulator) -> None:
    emulator.stream_mode("lazy")
    kernel, stream = device.compile(programs.identity(vc.f32)), device.stream()
    for where in (None, stream, 1):
        x, out = device.array(np.arange(10, dtype=F32)), device.zeros(10, vc.f32)
        kernel.launch(x, out, stream=where)
        np.testing.assert_array_equal(np.arange(10, dtype=F32), np.from_dlpack(out))


def test_copies_and_devices_are_as_asked(device: vc.Device) -> None:
    x = device.array(np.arange(4, dtype=F32))

    copied = np.from_dlpack(x, copy=True)
    copied[:] = 9
    np.testing.assert_array_equal(np.arange(4, dtype=F32), x.numpy())
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(x.__dlpack__())


def test_a_capsule_is_consumed_once(device: vc.Device) -> None:
    class Once(Wrapped):
        def __dlpack__(self, **options: Any) -> Any:
            return capsule

    x = device.zeros(3, vc.f32)
    for options in ({}, {"max_version": (1, 2)}):
        capsule = x.__dlpack__(**options)
        assert vc.from_dlpack(Once(x), device=device).size == 3
        with pytest.raises(BufferError, match="consumed"):
            vc.from_dlpack(Once(x), device=device)


def test_memory_lives_until_the_last_consumer_lets_go(device_name: str, leak_check: Any, emulator: Emulator) -> None:
    device = vc.Device(device_name)
    x = device.array(np.arange(1000, dtype=F32))
    view, unused = np.from_dlpack(x), x.__dlpack__()
    x.free()
    np.testing.assert_array_equal(np.arange(1000, dtype=F32), view)
    before = emulator.live()["allocations"]
    device.close()
    del device, x

    np.testing.assert_array_equal(np.arange(1000, dtype=F32), view)
    assert emulator.live()["allocations"] == before
    del unused
    thread = threading.Thread(target=lambda arrays: arrays.clear(), args=([view],))
    del view
    thread.start()
    thread.join()


def test_from_dlpack_gives_a_device_array_of_the_same_memory(device: vc.Device) -> None:
    x = device.array(np.arange(10, dtype=F32))

    for other in (vc.from_dlpack(x), vc.from_dlpack(np.from_dlpack(x), device=device)):
        other.copy_from(np.full(10, 5, F32))
        assert isinstance(other, vc.DeviceArray)
        np.testing.assert_array_equal(np.full(10, 5, F32), x.numpy())


def test_bf16_of_other_libraries_keeps_its_dtype(device: vc.Device) -> None:
    values = np.array([1, 2.5, -3], ml_dtypes.bfloat16)

    assert vc.from_dlpack(Wrapped(device.array(values)), device=device).dtype == ml_dtypes.bfloat16
