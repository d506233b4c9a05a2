"""Calls with host, page-locked and device arrays in any mixture, iterations, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs

F32 = np.float32
N = 1000


def xs() -> np.ndarray:
    return np.arange(N, dtype=F32)


def ordinary(device: vc.Device, data: np.ndarray) -> Any:
    return data.copy()


def pinned(device: vc.Device, data: np.ndarray) -> Any:
    array = device.pinned_empty(data.size, vc.f32)
    array[:] = data
    return array


def pinned_slice(device: vc.Device, data: np.ndarray) -> Any:
    array = device.pinned_empty(data.size + 24, vc.f32)[8:-16]
    array[:] = data
    return array


def registered(device: vc.Device, data: np.ndarray) -> Any:
    return device.register(data.copy())


def on_device(device: vc.Device, data: np.ndarray) -> Any:
    return device.array(data)


def device_slice(device: vc.Device, data: np.ndarray) -> Any:
    return device.array(np.concatenate([data, data]))[data.size :]


KINDS = [ordinary, pinned, pinned_slice, registered, on_device, device_slice]
Make = Callable[[vc.Device, np.ndarray], Any]


def host(array: Any) -> np.ndarray:
    return array.numpy() if isinstance(array, vc.DeviceArray) else array


@given(x=st.sampled_from(KINDS), y=st.sampled_from(KINDS), out=st.sampled_from([None, *KINDS]), a=st.integers(-9, 9))
def test_arrays_of_every_kind_mix(shared_device: vc.Device, x: Make, y: Make, out: Make | None, a: int) -> None:
    kernel = shared_device.compile(programs.saxpy())
    given_out = None if out is None else out(shared_device, np.full(N, 7, F32))

    result = kernel(x(shared_device, xs()), y(shared_device, xs() + 1), a, out=given_out)

    assert given_out is None or result is given_out
    np.testing.assert_array_equal(F32(a) * xs() + (xs() + 1), host(result))


@given(kinds=st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS), st.booleans()), min_size=2, max_size=8))
def test_submitted_calls_of_every_kind_keep_apart(
    shared_device: vc.Device, kinds: list[tuple[Make, Make, bool]]
) -> None:
    kernel = shared_device.compile(programs.saxpy())
    pending = []
    for turn, (x, y, by_name) in enumerate(kinds):
        first, second = x(shared_device, xs()), y(shared_device, xs() * 2)
        if by_name:
            pending.append(kernel.submit(first, a=float(turn), y=second))
        else:
            pending.append(kernel.submit(first, second, float(turn)))

    for turn, one in enumerate(pending):
        np.testing.assert_array_equal(F32(turn) * xs() + xs() * 2, one.result())


@pytest.mark.parametrize("make", KINDS, ids=lambda f: f.__name__)
def test_an_inout_is_returned_and_its_argument_unchanged(device: vc.Device, make: Make) -> None:
    kernel = device.compile(adds())
    h = make(device, xs())

    result = kernel(h, make(device, xs()))

    np.testing.assert_array_equal(2 * xs(), host(result))
    np.testing.assert_array_equal(xs(), host(h))
    assert isinstance(result, vc.DeviceArray) == isinstance(h, vc.DeviceArray)


@pytest.mark.parametrize("make", KINDS, ids=lambda f: f.__name__)
def test_an_inout_that_is_its_own_out_is_changed_in_place(device: vc.Device, make: Make) -> None:
    kernel = device.compile(adds())
    h = make(device, xs())

    assert kernel(h, make(device, xs()), out=h) is h

    np.testing.assert_array_equal(2 * xs(), host(h))


@given(h=st.sampled_from(KINDS), out=st.sampled_from(KINDS))
def test_an_inout_goes_to_an_out_of_any_kind(shared_device: vc.Device, h: Make, out: Make) -> None:
    kernel = shared_device.compile(adds())
    argument, target = h(shared_device, xs()), out(shared_device, np.zeros(N, F32))

    assert kernel(argument, xs(), out=target) is target

    np.testing.assert_array_equal(2 * xs(), host(target))
    np.testing.assert_array_equal(xs(), host(argument))


@pytest.mark.parametrize("shift", [0, 1, 17])
def test_a_page_locked_out_may_share_memory_with_inputs(device: vc.Device, shift: int) -> None:
    memory = device.pinned_empty(N + 17, vc.f32)
    memory[:] = 1
    memory[:N] = xs()
    x, out = memory[:N], memory[shift : shift + N]
    reversed_sum = device.compile(reverses())

    reversed_sum(x, out=out)

    np.testing.assert_array_equal(xs()[::-1], out)


def test_two_outs_that_share_memory_are_refused(device: vc.Device) -> None:
    kernel = device.compile(programs.divmod_of())
    memory, x = np.zeros(12, np.int32), np.arange(8, dtype=np.int32)

    with pytest.raises(ValueError, match="overlap"):
        kernel(x, 3, out=(memory[:8], memory[4:]))


def test_a_device_out_that_is_also_read_is_refused(device: vc.Device) -> None:
    kernel, x = device.compile(programs.saxpy()), device.array(xs())

    with pytest.raises(ValueError, match="overlap"):
        kernel(x, xs(), 2.0, out=x)


def test_large_results_are_page_locked_and_small_ones_are_not(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    big = np.arange(1 << 17, dtype=F32)

    result = kernel(big, big, 2.0)
    again = kernel(big, big, 3.0)

    np.testing.assert_array_equal(F32(2) * big + big, result)
    np.testing.assert_array_equal(F32(3) * big + big, again)
    assert result.base is not None
    assert result.flags.writeable
    assert kernel(xs(), xs(), 2.0).base is None


@pytest.mark.emulator
def test_a_large_result_is_ordinary_where_page_locked_memory_is_out(own_device: vc.Device, emulator: Emulator) -> None:
    kernel = own_device.compile(programs.saxpy())
    big = np.arange(1 << 17, dtype=F32)
    kernel(big, big, 1.0, out=np.empty_like(big))
    emulator.fail("cuMemHostAlloc", result=2, repeat=True)

    result = kernel(big, big, 2.0)

    np.testing.assert_array_equal(F32(2) * big + big, result)
    assert result.base is None


@pytest.mark.parametrize("iterations", [1, 2, 7])
@pytest.mark.parametrize("make", [ordinary, pinned, on_device], ids=lambda f: f.__name__)
def test_iterations_run_on_what_the_one_before_left(device: vc.Device, make: Make, iterations: int) -> None:
    kernel = device.compile(adds())
    h, step = make(device, xs()), make(device, np.ones(N, F32))
    expected = xs() + iterations

    np.testing.assert_array_equal(expected, host(kernel(h, step, iterations=iterations)))
    np.testing.assert_array_equal(expected, host(kernel.submit(h, step, iterations=iterations).result()))
    np.testing.assert_array_equal(expected, host(kernel.timed(h, step, iterations=iterations).outputs))
    np.testing.assert_array_equal(xs() + 1, host(kernel(h, step)))


def test_a_grid_barrier_is_fresh_in_every_iteration(device: vc.Device) -> None:
    b = vc.Builder("waves", block=32)
    h = b.inout("h", vc.u32)
    i = b.let("i", vc.global_id.x)
    mine = b.var("mine", vc.u32(0))
    with b.if_(i < h.size):
        mine.set(h[h.size - 1 - i])
    b.grid_barrier()
    with b.if_(i < h.size):
        h[i] = mine + 1
    kernel = device.compile(b.build())
    values = np.arange(96, dtype=np.uint32)

    for count in (1, 2, 3, 5):
        expected = (values[::-1] if count % 2 else values) + np.uint32(count)
        np.testing.assert_array_equal(expected, kernel(values, iterations=count))


@pytest.mark.parametrize("value", [0, -1, 2**32, 1.0, None, True, "2"])
def test_impossible_iterations_are_refused(device: vc.Device, value: Any) -> None:
    kernel = device.compile(adds())

    with pytest.raises((TypeError, ValueError), match="iterations"):
        kernel(xs(), xs(), iterations=value)


def test_an_array_of_a_second_device_object_of_the_same_gpu_is_refused_with_the_way_out(
    device: vc.Device, device_name: Any
) -> None:
    kernel, x = device.compile(programs.saxpy()), device.array(xs())
    expected = f"another device object of {device.properties.label} than .*: open each GPU once"
    with vc.Device(device_name) as other:
        foreign = other.array(xs())
        for use in (
            lambda: kernel(foreign, xs(), 2.0),
            lambda: kernel.launch(foreign, x, device.empty_like(x), 2.0),
            lambda: device.upload([(foreign, xs())]),
        ):
            with pytest.raises(ValueError, match=expected):
                use()
        with device.record() as graph, pytest.raises(ValueError, match=expected):
            graph.download(foreign, device.pinned_empty(N, vc.f32))


def test_a_device_array_of_another_device_or_type_is_refused(device: vc.Device, device_name: Any) -> None:
    kernel = device.compile(programs.saxpy())
    with vc.Device(device_name) as other:
        foreign = other.array(xs())
        with pytest.raises(ValueError, match="another device"):
            kernel(foreign, xs(), 2.0)
    with pytest.raises(TypeError, match="int32"):
        kernel(device.array(np.arange(N, dtype=np.int32)), xs(), 2.0)
    freed = device.array(xs())
    freed.free()
    with pytest.raises(ValueError, match="freed"):
        kernel(freed, xs(), 2.0)


def test_calls_and_launches_keep_one_order(device: vc.Device) -> None:
    add, copy = device.compile(adds()), device.compile(programs.saxpy())
    h, one = device.zeros(N, vc.f32), device.array(np.ones(N, F32))

    for turn in range(1, 30):
        add.launch(h, one)
        np.testing.assert_array_equal(np.full(N, turn, F32), copy(h, np.zeros(N, F32), 1.0))


def adds() -> vc.Program:
    b = vc.Builder("adds")
    h = b.inout("h", vc.f32)
    x = b.input("x", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < h.size):
        h[i] = h[i] + x[i]
    return b.build()


def reverses() -> vc.Program:
    b = vc.Builder("reverses")
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        out[i] = x[x.size - 1 - i]
    return b.build()
