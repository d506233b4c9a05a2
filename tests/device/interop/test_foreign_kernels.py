"""Kernels that somebody else compiled: `Device.load`."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uncollected import uncollected

import vyre_cuda as vc
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import BY_NAME
from vyre_cuda.runtime.kernel.loaded_kernel import parse_signature
from vyre_cuda.testing.emulator import Emulator

from ..foreign_ptx import SAXPY, SHARED, echo

F32 = np.float32
SIGNATURE = "const_ptr ptr f32 u32"
SCALARS = sorted(name for name in BY_NAME if name != "bool_")


def saxpy(device: vc.Device) -> vc.ForeignKernel:
    return device.load(SAXPY, "saxpy", signature=SIGNATURE)


def test_a_loaded_kernel_launches_as_ones_own(device: vc.Device) -> None:
    kernel = saxpy(device)
    x, out = device.array(np.arange(1000, dtype=F32)), device.array(np.ones(1000, F32))

    for _ in range(3):
        kernel.launch(x, out, 2.0, 1000, grid=4, block=256)

    np.testing.assert_array_equal(6 * np.arange(1000, dtype=F32) + 1, out.numpy())
    assert kernel.confirmed
    assert kernel.attributes.registers > 0
    assert "saxpy(const_ptr ptr f32 u32)" in repr(kernel)


def test_launches_are_in_call_order_with_other_work(device: vc.Device) -> None:
    kernel, stream = saxpy(device), device.stream()
    x, out = device.array(np.ones(100, F32)), device.zeros(100, vc.f32)

    for block in (32, 64, (128,), (32, 1, 1)):
        kernel.launch(x, out, 1.0, 100, grid=(4, 1), block=block)
    kernel.launch(x, out, 1.0, 100, grid=1, block=128, stream=stream)
    stream.synchronize()  # nothing else orders two streams with each other
    kernel.launch(x[50:], out[50:], 1.0, 50, grid=1, block=64, stream=1)

    np.testing.assert_array_equal(np.repeat(F32([5, 6]), 50), out.numpy())


def test_a_bound_call_repeats_and_rebinds(device: vc.Device) -> None:
    x, out, other = device.array(np.ones(64, F32)), device.zeros(64, vc.f32), device.zeros(64, vc.f32)
    call = saxpy(device).bind(x, out, 3.0, 64, grid=1, block=64)

    call()
    call()
    np.testing.assert_array_equal(np.full(64, 6, F32), out.numpy())
    call(x, other, 5.0, 32)
    call()
    np.testing.assert_array_equal(np.repeat(F32([10, 0]), 32), other.numpy())
    with pytest.raises(TypeError):
        call(x, other, 5.0, "32")
    call()
    np.testing.assert_array_equal(np.repeat(F32([15, 0]), 32), other.numpy())


def test_the_same_array_may_be_given_twice(device: vc.Device) -> None:
    x = device.array(np.arange(10, dtype=F32))

    device.load(SAXPY, "saxpy", signature="ptr ptr f32 u32").launch(x, x, 1.0, 10, grid=1, block=32)

    np.testing.assert_array_equal(2 * np.arange(10, dtype=F32), x.numpy())


def test_a_pointer_may_be_an_address(device: vc.Device) -> None:
    x, out = device.array(np.ones(10, F32)), device.zeros(10, vc.f32)
    address = x._alive().address

    for pointer in (address, x, address):
        saxpy(device).launch(pointer, out, 1.0, 10, grid=1, block=32)

    np.testing.assert_array_equal(np.full(10, 3, F32), out.numpy())


def test_dynamic_shared_memory_is_had_up_to_the_limit(device: vc.Device) -> None:
    kernel = device.load(SHARED, "gather", signature="ptr")
    out = device.zeros(3, vc.u32)
    most = device.properties.max_shared_memory_per_block_optin

    for shared_bytes in (4 * 64, most, 4 * 64):
        kernel.launch(out, grid=3, block=64, shared_bytes=shared_bytes)
        np.testing.assert_array_equal(np.full(3, 64 * 63 // 2, np.uint32), out.numpy())
        out.copy_from(np.zeros(3, np.uint32))
    with pytest.raises(ValueError, match=str(most)):
        kernel.launch(out, grid=3, block=64, shared_bytes=most + 1)


def test_a_cooperative_launch_is_held_to_what_is_resident(device: vc.Device) -> None:
    kernel = saxpy(device)
    x, out = device.array(np.ones(64, F32)), device.zeros(64, vc.f32)

    kernel.launch(x, out, 1.0, 64, grid=2, block=32, cooperative=True)
    with pytest.raises(vc.UnsupportedError):
        kernel.launch(x, out, 1.0, 64, grid=10**6, block=32, cooperative=True)

    np.testing.assert_array_equal(np.ones(64, F32), out.numpy())


@settings(deadline=None)
@given(words=st.lists(st.sampled_from(SCALARS), max_size=12), data=st.data())
def test_every_scalar_arrives_as_given(shared_device: vc.Device, words: list[str], data: st.DataObject) -> None:
    out = shared_device.zeros(max(len(words), 1), vc.u64)
    values: list[Any] = []
    for word in words:
        type_ = BY_NAME[word]
        if type_.is_integer:
            values.append(data.draw(st.integers(type_.minimum, type_.maximum)))
        else:
            values.append(data.draw(st.floats(width=16, allow_nan=False, allow_infinity=False)))
    expected = [bits_of(BY_NAME[word], value) for word, value in zip(words, values, strict=True)]
    kernel = shared_device.load(echo(words), "echo", signature=" ".join(["ptr", *words]))

    kernel.launch(out, *values, grid=1, block=1)

    assert expected == out.numpy()[: len(words)].tolist()


def test_numpy_scalars_are_taken_by_dtype(device: vc.Device) -> None:
    out = device.zeros(3, vc.u64)
    kernel = device.load(echo(["f32", "i64", "bf16"]), "echo", signature="ptr f32 i64 bf16")

    kernel.launch(out, F32(1.5), np.int64(-1), ml_dtypes.bfloat16(2), grid=1, block=1)

    assert out.numpy().tolist() == [0x3FC00000, 2**64 - 1, 0x4000]
    with pytest.raises(TypeError):
        kernel.launch(out, np.float64(0.1), 1, 1.0, grid=1, block=1)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"args": 3}, TypeError),
        ({"args": 5}, TypeError),
        ({"a": "2"}, TypeError),
        ({"n": 2**32}, OverflowError),
        ({"n": -1}, OverflowError),
        ({"n": 1.0}, TypeError),
        ({"n": True}, TypeError),
        ({"x": np.zeros(4, F32)}, TypeError),
        ({"x": None}, TypeError),
        ({"x": -1}, OverflowError),
        ({"grid": 0}, ValueError),
        ({"grid": (1, 65536)}, ValueError),
        ({"grid": (1, 1, 1, 1)}, ValueError),
        ({"grid": 1.5}, TypeError),
        ({"block": 0}, ValueError),
        ({"block": 1025}, ValueError),
        ({"block": (32, 64)}, ValueError),
        ({"block": (1, 1, 65)}, ValueError),
        ({"block": "32"}, TypeError),
        ({"shared_bytes": 2**31}, ValueError),
        ({"shared_bytes": -1}, OverflowError),
        ({"stream": "s"}, TypeError),
        ({"stream": -1}, ValueError),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_before_the_launch(
    device: vc.Device, change: dict[str, Any], error: type[Exception]
) -> None:
    kernel, out = saxpy(device), device.zeros(4, vc.f32)
    given = {"x": device.zeros(4, vc.f32), "out": out, "a": 2.0, "n": 4, **change}
    args = [given["x"], given["out"], given["a"], given["n"], 0][: change.get("args", 4)]
    options: dict[str, Any] = {"grid": 1, "block": 32}
    options.update({key: value for key, value in change.items() if key in ("grid", "block", "shared_bytes", "stream")})

    with pytest.raises(error):
        kernel.launch(*args, **options)
    with pytest.raises(error):
        kernel.bind(*args, **options)

    kernel.launch(out, out, 0.0, 4, grid=1, block=32)
    np.testing.assert_array_equal(np.zeros(4, F32), out.numpy())


def test_a_freed_array_is_refused(device: vc.Device) -> None:
    x, out = device.zeros(4, vc.f32), device.zeros(4, vc.f32)
    x.free()

    with pytest.raises(ValueError, match="freed"):
        saxpy(device).launch(x, out, 1.0, 4, grid=1, block=32)


# ---- loading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "signature",
    ["ptr ptr f32", "ptr ptr f32 u32 u32", "ptr ptr u32 u64", "ptr ptr f64 u32", "ptr u32 ptr f32", ""],
)
def test_another_signature_is_refused(device: vc.Device, signature: str) -> None:
    with pytest.raises(ValueError, match="saxpy takes 8 bytes at 0, 8 bytes at 8, 4 bytes at 16, 4 bytes at 20"):
        device.load(SAXPY, "saxpy", signature=signature)


def test_unknown_words_and_names_are_refused(device: vc.Device) -> None:
    with pytest.raises(ValueError, match="'float'"):
        device.load(SAXPY, "saxpy", signature="float")
    with pytest.raises(ValueError, match="the module has saxpy"):
        device.load(SAXPY, "daxpy", signature=SIGNATURE)
    with pytest.raises(TypeError):
        device.load(SAXPY, "saxpy", signature=["ptr"])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        device.load(17, "saxpy", signature="ptr")  # type: ignore[arg-type]
    with pytest.raises(vc.UnsupportedError):
        device.load(SAXPY, "saxpy", signature="u8 " * 32_765)


@pytest.mark.parametrize("word", sorted(set(SCALARS) - {"f16", "bf16"}))
def test_a_number_becomes_the_bits_of_a_scalar_without_a_call_of_python(device: vc.Device, word: str) -> None:
    type_ = BY_NAME[word]
    values = [0.1, -2.5, 3.0, 7] if type_.is_float else [type_.minimum, type_.maximum, 0, 17]
    kernel = device.load(echo([word] * 4), "echo", signature=" ".join(["ptr", *[word] * 4]))
    out = device.zeros(4, vc.u64)
    kernel.launch(out, *values, grid=1, block=1)
    frames: list[str] = []

    with uncollected():
        sys.setprofile(lambda frame, event, _: frames.append(frame.f_code.co_name) if event == "call" else None)
        try:
            kernel.launch(out, *reversed(values), grid=1, block=1)
        finally:
            sys.setprofile(None)

    assert frames == []
    assert [bits_of(type_, value) for value in reversed(values)] == out.numpy().tolist()


def test_a_refused_image_carries_the_drivers_log(device: vc.Device) -> None:
    broken = SAXPY.replace("fma.rn.f32", "fma.wrong.f32")

    with pytest.raises(vc.CompileError) as caught:
        device.load(broken.encode(), "saxpy", signature=SIGNATURE)

    assert caught.value.log
    assert caught.value.ptx == broken


@pytest.mark.emulator
@pytest.mark.parametrize("magic", [b"\x7fELF", b"\x50\xed\x55\xba"])
def test_the_emulator_refuses_binaries(device: vc.Device, magic: bytes) -> None:
    with pytest.raises(vc.UnsupportedError) as caught:
        device.load(magic + bytes(60), "kernel", signature="")

    assert caught.value.capability == "cubin"


@pytest.mark.emulator
def test_an_older_driver_does_not_confirm_and_that_is_said(emulator: Emulator, device_name: str) -> None:
    emulator.set("driver_version", 12030)
    with vc.Device(device_name) as device:
        kernel = saxpy(device)
        out = device.zeros(4, vc.f32)
        kernel.launch(device.array(np.ones(4, F32)), out, 2.0, 4, grid=1, block=32)

        assert not kernel.confirmed
        assert "not confirmed" in repr(kernel)
        np.testing.assert_array_equal(np.full(4, 2, F32), out.numpy())
        with pytest.raises(ValueError, match="no kernel"):
            device.load(SAXPY, "daxpy", signature=SIGNATURE)


@given(st.lists(st.sampled_from([*SCALARS, "ptr", "const_ptr"]), max_size=40))
def test_offsets_follow_natural_alignment(words: list[str]) -> None:
    end = 0
    for parameter in parse_signature(" ".join(words)):
        assert parameter.offset % parameter.size == 0
        assert end <= parameter.offset < end + parameter.size
        end = parameter.offset + parameter.size


@pytest.mark.emulator
def test_nothing_is_left_of_a_loaded_kernel(device_name: str, leak_check: Any, emulator: Emulator) -> None:
    with vc.Device(device_name) as device:
        out = device.zeros(4, vc.f32)
        call = saxpy(device).bind(out, out, 2.0, 4, grid=1, block=32)
        call()
        for function in ("cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncGetParamInfo", "cuFuncGetAttribute"):
            emulator.fail(function, result=2)
            with pytest.raises(vc.Error):
                saxpy(device)
