"""Arrays of other libraries as arguments: what is taken and what is refused, and the order with their owners."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.ir.core.types import TYPES
from vyre_cuda.runtime.memory.interop import adopt
from vyre_cuda.testing.emulator import STREAM_MODES, Emulator

from .. import programs
from ..foreign_library import ForeignArray, ForeignStream, Library, Wrapped

pytestmark = pytest.mark.emulator
F32 = np.float32


def some_values(type_: vc.Type, n: int) -> np.ndarray:
    bits = np.random.default_rng(type_.code).integers(0, 100, n)
    return bits.astype(np.bool_ if type_.kind == "bool" else type_.dtype)


def adopted(device: vc.Device, array: ForeignArray) -> vc.DeviceArray:
    """What a program would get as an argument; there is no public name for it without DLPack."""
    return adopt(device, array)


# ---- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", STREAM_MODES)
def test_a_launch_is_ordered_with_the_owners_stream(
    mode: Any, emulator: Emulator, device: vc.Device, library: Library
) -> None:
    emulator.stream_mode(mode)
    kernel = device.compile(programs.saxpy())
    theirs, legacy, mine = library.stream(), ForeignStream(library, 1), device.stream()
    for owner in (theirs, None, legacy):
        arrays = [library.array(np.zeros(100, F32), owner) for _ in range(3)]
        x, y, out = arrays
        for number, where in enumerate((None, mine, theirs, 2, None)):
            x.write(np.full(100, number, F32))
            y.write(np.full(100, 1, F32))
            kernel.launch(x, y, out, 2.0, stream=where)
            x.write(np.full(100, 99, F32))
            np.testing.assert_array_equal(np.full(100, 2 * number + 1, F32), out.read())
        device.synchronize()
        for array in arrays:
            array.free()
    theirs.destroy()


@pytest.mark.parametrize("mode", STREAM_MODES)
def test_a_bound_call_is_ordered_with_the_owners_stream(
    mode: Any, emulator: Emulator, device: vc.Device, library: Library
) -> None:
    emulator.stream_mode(mode)
    theirs = library.stream()
    x, y, out = (library.array(np.zeros(100, F32), theirs) for _ in range(3))
    call = device.compile(programs.saxpy()).bind(x, y, out, 3.0)

    for number in range(4):
        x.write(np.full(100, number, F32))
        call()
        np.testing.assert_array_equal(np.full(100, 3 * number, F32), out.read())
    call(x, x, device.zeros(100, vc.f32), 1.0)

    del call
    device.synchronize()
    for array in (x, y, out):
        array.free()
    theirs.destroy()


@pytest.mark.parametrize("mode", STREAM_MODES)
def test_all_that_works_on_arrays_is_ordered_with_the_owner(
    mode: Any, emulator: Emulator, device: vc.Device, library: Library
) -> None:
    emulator.stream_mode(mode)
    owner = library.stream()
    x = library.array(np.zeros(100, F32), owner)
    mine, ones = device.array(np.full(100, 7, F32)), np.ones(100, F32)
    with device.record() as graph:
        adopted(device, x).copy_from(vc.symbol("source", mine))
    for name, value, use in (
        ("copy_from", 7, lambda array: array.copy_from(mine)),
        ("copy_from the host", 1, lambda array: array.copy_from(ones)),
        ("fill", 3, lambda array: array.fill(3.0)),
        ("fill with zero", 0, lambda array: array.fill(0.0)),
        ("upload", 1, lambda array: device.upload([(array, ones)])),
        ("replay", 7, lambda array: graph.replay()),
    ):
        x.write(np.full(100, 50, F32))
        use(adopted(device, x))
        np.testing.assert_array_equal(np.full(100, value, F32), x.read(), name)
        x.write(np.full(100, 60, F32))
        assert adopted(device, x)[5] == 60, name
        x.write(np.full(100, 70, F32))
        assert device.download([(adopted(device, x), 0, 1)])[0] == [70], name
    other = library.array(np.zeros(100, F32), owner)
    with device.record() as writes:
        mine.copy_from(vc.symbol("source", adopted(device, x)))
    other.write(np.full(100, 80, F32))
    writes.replay(source=adopted(device, other))
    other.write(np.full(100, 90, F32))
    assert mine[99] == 80
    device.synchronize()
    x.free()
    other.free()
    owner.destroy()


def test_aliases_are_ordered_in_a_graph(device: vc.Device) -> None:
    """Two arrays of one memory: the second step reads what the first has written."""
    x, out = device.zeros(64, vc.f32), device.zeros(64, vc.f32)
    alias = vc.from_dlpack(np.from_dlpack(x), device=device)

    with device.record() as graph:
        x.fill(5.0)
        out.copy_from(alias)
        alias.fill(6.0)
    graph.replay()

    assert (out[3], x[3]) == (5, 6)


# ---- what is taken ---------------------------------------------------------------------------------------------------


def test_foreign_and_own_arrays_mix(device: vc.Device, library: Library) -> None:
    x = library.array(np.arange(50, dtype=F32))
    y, out = device.array(np.ones(50, F32)), device.zeros(50, vc.f32)

    device.compile(programs.saxpy()).launch(x, Wrapped(y), out, 2.0)

    np.testing.assert_array_equal(2 * np.arange(50, dtype=F32) + 1, out.numpy())
    x.free()


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_every_type_goes_in_and_out_by_dlpack(device: vc.Device, type_: vc.Type) -> None:
    values = some_values(type_, 67)
    x, out = device.array(values), device.zeros(67, type_)

    device.compile(programs.identity(type_)).launch(Wrapped(x), Wrapped(out))

    again = vc.from_dlpack(Wrapped(out), device=device)
    assert again.dtype == type_.dtype
    np.testing.assert_array_equal(values, again.numpy())
    if type_.name != "bf16":  # NumPy has no dtype for it
        view = np.from_dlpack(out)
        assert view.dtype == type_.dtype
        np.testing.assert_array_equal(values, view)


@pytest.mark.parametrize("type_", [t for t in TYPES if t.name != "bf16"], ids=str)
def test_every_type_goes_in_by_interface(device: vc.Device, library: Library, type_: vc.Type) -> None:
    values = some_values(type_, 33)
    x, out = library.array(values), device.zeros(33, type_)

    device.compile(programs.identity(type_)).launch(x, out)

    np.testing.assert_array_equal(values, out.numpy())
    x.free()


def test_a_contiguous_array_is_taken_flat(device: vc.Device, library: Library) -> None:
    values = np.arange(60, dtype=F32).reshape(3, 4, 5)
    x, out = library.array(values), device.zeros(60, vc.f32)
    x.interface = {"strides": (80, 20, 4)}

    device.compile(programs.identity(vc.f32)).launch(x, out)

    np.testing.assert_array_equal(values.reshape(-1), out.numpy())
    x.free()


@given(st.lists(st.integers(0, 4), max_size=4), st.data())
def test_exactly_the_strides_of_contiguous_arrays_are_taken(
    shared_device: vc.Device, shape: list[int], data: st.DataObject
) -> None:
    memory = np.from_dlpack(shared_device.zeros(4**4, vc.f32))
    full = memory[: 4 ** len(shape)].reshape((4,) * len(shape))
    view = full[(..., *(slice(0, extent) for extent in shape))]
    view = view.transpose(data.draw(st.permutations(range(view.ndim))))
    expected = view.flags.c_contiguous or view.size == 0

    try:
        taken = vc.from_dlpack(view, device=shared_device).size
    except ValueError:
        taken = None

    assert taken == (view.size if expected else None)


def test_zero_elements_have_any_address(device: vc.Device, library: Library) -> None:
    x = library.array(np.zeros(0, F32))
    x.interface = {"data": (0, False)}
    out = device.zeros(0, vc.f32)

    device.compile(programs.identity(vc.f32)).launch(x, out)

    assert vc.from_dlpack(Wrapped(out), device=device).size == 0
    assert np.from_dlpack(out).size == 0
    x.free()


def test_owners_live_as_long_as_they_are_bound(device: vc.Device, library: Library) -> None:
    x = library.array(np.ones(10, F32))
    address, gone = x.address, weakref.ref(x)
    call = device.compile(programs.identity(vc.f32)).bind(x, device.zeros(10, vc.f32))
    del x
    gc.collect()
    assert gone() is not None

    call()
    del call
    gc.collect()

    assert gone() is None
    ForeignArray.free(_OfAddress(library, address))  # type: ignore[arg-type]


class _OfAddress:
    def __init__(self, library: Library, address: int) -> None:
        self.library, self.address = library, address


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"version": 1}, ValueError),
        ({"stream": 0}, ValueError),
        ({"mask": object()}, ValueError),
        ({"typestr": ">f4"}, TypeError),
        ({"typestr": "<c8"}, TypeError),
        ({"typestr": "<f8", "shape": (5,)}, TypeError),
        ({"strides": (8,)}, ValueError),
        ({"data": (64, False)}, ValueError),
        ({"shape": (10**9,)}, ValueError),
        ({"shape": (-1,)}, ValueError),
        ({"shape": (-2, -5)}, ValueError),
        ({"shape": (2.5, 4)}, TypeError),
        ({"shape": (2**40, 2**40)}, ValueError),
    ],
)
def test_what_cannot_be_taken_is_refused(
    device: vc.Device, library: Library, changes: dict[str, Any], error: type[Exception]
) -> None:
    x = library.array(np.zeros(10, F32))
    x.interface = changes
    kernel, out = device.compile(programs.identity(vc.f32)), device.zeros(10, vc.f32)

    with pytest.raises(error, match="identity: argument x"):
        kernel.launch(x, out)

    x.interface = {}
    kernel.launch(x, out)
    device.synchronize()
    x.free()


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("data", None, "an address and whether it is read-only"),
        ("data", 5, "an address"),
        ("data", ("a", False), "an address"),
        ("data", (2**64, False), "an address"),
        ("shape", None, "a tuple of ints"),
        ("shape", 4, "a tuple of ints"),
        ("strides", 5, "an int for each axis"),
        ("strides", (4, 4), "an int for each axis"),
        ("typestr", None, "the text of a dtype"),
        ("typestr", 4, "the text of a dtype"),
        ("version", "3", "versions 2 and 3 are supported"),
    ],
)
def test_a_wrong_entry_of_an_interface_is_named(
    device: vc.Device, library: Library, name: str, given: Any, message: str
) -> None:
    x = library.array(np.zeros(10, F32))
    x.interface = {name: given}

    with pytest.raises((TypeError, ValueError), match=f"identity: argument x: .*({message}).*: update its library"):
        device.compile(programs.identity(vc.f32)).launch(x, device.zeros(10, vc.f32))
    x.free()


@pytest.mark.parametrize("interface", [None, 5, "x"])
def test_an_interface_is_a_dict(device: vc.Device, interface: Any) -> None:
    class Array:
        __cuda_array_interface__ = interface

    with pytest.raises(TypeError, match=r"identity: argument x: .* it must be a dict: update its library"):
        device.compile(programs.identity(vc.f32)).launch(Array(), device.zeros(10, vc.f32))


def test_a_misaligned_address_is_refused(device: vc.Device, library: Library) -> None:
    x = library.array(np.zeros(10, F32))
    x.interface = {"data": (x.address + 2, False), "shape": (4,)}

    with pytest.raises(ValueError, match="misaligned"):
        device.compile(programs.identity(vc.f32)).launch(x, device.zeros(4, vc.f32))
    x.free()


def test_host_memory_and_arrays_of_no_protocol_are_refused(device: vc.Device) -> None:
    kernel, out = device.compile(programs.identity(vc.f32)), device.zeros(4, vc.f32)

    with pytest.raises(TypeError, match="a launch needs"):
        kernel.launch(np.zeros(4, F32), out)
    with pytest.raises(TypeError, match="a launch needs"):
        kernel.launch([1.0], out)
    with pytest.raises(ValueError, match="not device memory"):
        vc.from_dlpack(np.zeros(4, F32), device=device)
    with pytest.raises(TypeError, match="neither"):
        vc.from_dlpack(F32(1), device=device)
    with pytest.raises(ValueError, match="name the device"):
        vc.from_dlpack(np.zeros(4, F32))
    with pytest.raises(TypeError, match="a list has no __dlpack__"):
        vc.from_dlpack([1.0])
    with pytest.raises(TypeError, match="not a list"):
        device.empty_like([1.0])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"a DeviceArray \(write x\.numpy\(\)\)"):
        device.array(out)  # type: ignore[arg-type]


def test_an_array_of_a_gpu_is_refused_by_the_emulator(device: vc.Device) -> None:
    class OfAGpu(Wrapped):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(ValueError, match="DLPack device"):
        vc.from_dlpack(OfAGpu(device.zeros(1, vc.f32)), device=device)


def test_read_only_memory_is_read_and_not_written(device: vc.Device, library: Library) -> None:
    x = library.array(np.arange(10, dtype=F32))
    x.interface = {"data": (x.address, True)}
    kernel, out = device.compile(programs.identity(vc.f32)), device.zeros(10, vc.f32)

    kernel.launch(x, out)
    with pytest.raises(ValueError, match="read-only"):
        kernel.launch(out, x)
    for write in (
        lambda array: array.copy_from(np.ones(10, F32)),
        lambda array: array.copy_from(out),
        lambda array: array.fill(1.0),
        lambda array: device.upload([(array, np.ones(10, F32))]),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write(adopted(device, x))
    for step in (lambda array: array.copy_from(out), lambda array: array.fill(1.0)):
        with pytest.raises(ValueError, match="read-only"), device.record() as graph:
            step(adopted(device, x))
    with device.record() as graph:
        out.copy_from(adopted(device, x))
    graph.replay()

    np.testing.assert_array_equal(np.arange(10, dtype=F32), out.numpy())
    np.testing.assert_array_equal(np.arange(10, dtype=F32), x.read())
    x.free()


def test_aliases_of_one_memory_are_seen(device: vc.Device) -> None:
    x = device.zeros(10, vc.f32)

    with pytest.raises(ValueError, match="overlap"):
        device.compile(programs.identity(vc.f32)).launch(x, Wrapped(x))
