"""Launches on device arrays: asynchronous, in call order, bound calls, streams."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs

F32 = np.float32


def saxpy_arrays(device: vc.Device, n: int = 1000) -> tuple[vc.DeviceArray, vc.DeviceArray, vc.DeviceArray]:
    x = np.arange(n, dtype=F32)
    return device.array(x), device.array(x * 2), device.zeros(n, vc.f32)


def expected(n: int, a: float) -> np.ndarray:
    x = np.arange(n, dtype=F32)
    return F32(a) * x + x * 2


def test_launches_run_in_call_order(device: vc.Device) -> None:
    kernel = device.compile(programs.add_to())
    h, one = device.zeros(500, vc.i32), device.array(np.ones(500, np.int32))

    for _ in range(50):
        kernel.launch(h, one)

    np.testing.assert_array_equal(np.full(500, 50), h.numpy())


def test_arrays_that_overlap_are_named(device: vc.Device) -> None:
    @vc.kernel
    def shifted(x: vc.In[vc.f32], by: vc.f32, out: vc.Out[vc.f32]):  # type: ignore[no-untyped-def]
        i = vc.global_id.x
        if i < out.size:
            out[i] = x[i] + by

    x = device.zeros(10, vc.f32)
    with pytest.raises(ValueError, match=r"`x` and `out` of shifted .* overlap, .*: give it arrays that share"):
        shifted.on(device).launch(x[:6], 1.0, x[4:])


def test_arrays_that_overlap_are_named_however_many_there_are(device: vc.Device) -> None:
    b = vc.Builder("many")
    for number in range(9):
        b.inout(f"x{number}", vc.f32)[0] = 1.0
    kernel = device.compile(b.build())
    xs = [device.zeros(4, vc.f32) for _ in range(9)]

    with pytest.raises(ValueError, match="`x7` and `x8` of many"):
        kernel.launch(*xs[:8], xs[7][1:])


def test_every_launch_sees_its_own_scalar(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    x, y, _ = saxpy_arrays(device)
    outs = [device.empty(1000, vc.f32) for _ in range(30)]

    for a, out in enumerate(outs):
        kernel.launch(x, y, out, float(a))

    for a, out in enumerate(outs):
        np.testing.assert_array_equal(expected(1000, a), out.numpy())


def test_arrays_of_changing_size_share_a_kernel(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())

    for n in (1, 300, 7, 5000, 0, 300):
        x, y, out = saxpy_arrays(device, n)
        kernel.launch(x, y, out, 2.0)
        np.testing.assert_array_equal(expected(n, 2), out.numpy())


def test_an_out_is_zero_where_the_program_does_not_write(device: vc.Device) -> None:
    kernel = device.compile(programs.every_second())
    x, out = device.array(np.arange(1, 51, dtype=np.uint32)), device.array(np.full(100, 9, np.uint32))
    wanted = np.zeros(100, np.uint32)
    wanted[::2] = np.arange(1, 51)

    for _ in range(3):
        out.copy_from(np.full(100, 9, np.uint32))
        kernel.launch(x, out)
        np.testing.assert_array_equal(wanted, out.numpy())


def test_a_grid_smaller_than_the_work_leaves_the_rest_zero(device: vc.Device) -> None:
    x, y, out = saxpy_arrays(device, 1000)
    out.copy_from(np.full(1000, 5, F32))

    device.compile(programs.saxpy()).launch(x, y, out, 2.0, grid=1)

    wanted = np.zeros(1000, F32)
    wanted[:256] = expected(1000, 2)[:256]
    np.testing.assert_array_equal(wanted, out.numpy())


def test_bound_call_repeats_and_rebinds(device: vc.Device) -> None:
    x, y, out = saxpy_arrays(device)
    other = device.zeros(1000, vc.f32)
    call = device.compile(programs.saxpy()).bind(x, y, out, 2.0)

    call()
    call()
    np.testing.assert_array_equal(expected(1000, 2), out.numpy())
    call.set(a=3.0)
    call()
    np.testing.assert_array_equal(expected(1000, 3), out.numpy())
    call(x, y, other, 4.0)
    np.testing.assert_array_equal(expected(1000, 4), other.numpy())
    call()
    np.testing.assert_array_equal(expected(1000, 3), out.numpy())


def test_bound_call_keeps_its_arrays_alive(device: vc.Device) -> None:
    x, y, out = saxpy_arrays(device)
    view = out[0:1000]
    call = device.compile(programs.saxpy()).bind(x, y, out, 2.0)
    del x, y, out

    scratch = [device.zeros(1000, vc.f32) for _ in range(10)]
    call()

    np.testing.assert_array_equal(expected(1000, 2), view.numpy())
    assert len(scratch) == 10


def test_a_failed_rebind_keeps_the_old_arguments(device: vc.Device) -> None:
    x, y, out = saxpy_arrays(device)
    call = device.compile(programs.saxpy()).bind(x, y, out, 2.0)

    with pytest.raises(TypeError):
        call.set(a="three")
    with pytest.raises(TypeError):
        call.set(nothing=1)
    with pytest.raises(ValueError):
        call.set(out=device.zeros(999, vc.f32))
    call()

    np.testing.assert_array_equal(expected(1000, 2), out.numpy())


@pytest.mark.thin
def test_streams_are_ordered_by_events(device: vc.Device) -> None:
    kernel = device.compile(programs.add_to())
    h, one = device.zeros(200_000, vc.i32), device.array(np.ones(200_000, np.int32))
    device.synchronize()
    first, second = device.stream(), device.stream()

    for _ in range(20):
        kernel.launch(h, one, stream=first)
        second.wait(first.record())
        kernel.launch(h, one, stream=second)
        first.wait(second.record())

    np.testing.assert_array_equal(np.full(200_000, 40), h.numpy())


def test_numpy_waits_for_work_on_another_stream(device: vc.Device) -> None:
    kernel = device.compile(programs.add_to())
    stream = device.stream()
    h, one = device.zeros(100_000, vc.i32), device.array(np.ones(100_000, np.int32))
    device.synchronize()

    for _ in range(10):
        kernel.launch(h, one, stream=stream)

    np.testing.assert_array_equal(np.full(100_000, 10), h.numpy())


def test_memory_freed_under_work_on_a_stream_is_not_reused_early(device: vc.Device) -> None:
    kernel = device.compile(programs.add_to())
    stream = device.stream()
    n = 50_000
    results = []
    device.synchronize()
    for value in range(10):
        h, x = device.zeros(n, vc.i32), device.array(np.full(n, value, np.int32))
        device.synchronize()
        for _ in range(3):
            kernel.launch(h, x, stream=stream)
        x.free()
        results.append((value, h))
        device.array(np.full(n, 1000, np.int32)).free()

    for value, h in results:
        np.testing.assert_array_equal(np.full(n, 3 * value), h.numpy())


def test_stream_and_event_answer_queries(device: vc.Device) -> None:
    stream = device.stream()
    x, y, out = saxpy_arrays(device)
    device.synchronize()
    start = stream.record()
    device.compile(programs.saxpy()).launch(x, y, out, 2.0, stream=stream)
    stop = stream.record()

    stop.synchronize()

    assert stop.query()
    assert stream.query()
    assert stop.elapsed_ms(start) >= 0
    assert stream.handle != 0


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        pytest.param(TypeError, lambda d, x, y, o: (x, y, o), id="arity"),
        pytest.param(TypeError, lambda d, x, y, o: (x, y, o, 1.0, 2.0), id="too-many"),
        pytest.param(TypeError, lambda d, x, y, o: (x.numpy(), y, o, 1.0), id="host-array"),
        pytest.param(TypeError, lambda d, x, y, o: (x, y, d.zeros(10, vc.u32), 1.0), id="dtype"),
        pytest.param(ValueError, lambda d, x, y, o: (x, y, d.zeros(9, vc.f32), 1.0), id="out-size"),
        pytest.param(ValueError, lambda d, x, y, o: (x, y, x, 1.0), id="alias"),
        pytest.param(TypeError, lambda d, x, y, o: (x, y, o, None), id="scalar"),
    ],
)
def test_wrong_launch_arguments_are_refused(device: vc.Device, error, arguments) -> None:
    x, y, out = saxpy_arrays(device, 10)
    kernel = device.compile(programs.saxpy())

    with pytest.raises(error):
        kernel.launch(*arguments(device, x, y, out))

    kernel.launch(x, y, out, 1.0)
    np.testing.assert_array_equal(expected(10, 1), out.numpy())


def test_two_inputs_may_be_the_same_array(device: vc.Device) -> None:
    x, _, out = saxpy_arrays(device, 10)

    device.compile(programs.saxpy()).launch(x, x, out, 1.0)

    np.testing.assert_array_equal(np.arange(10, dtype=F32) * 2, out.numpy())


def test_stream_must_be_a_stream_of_this_package(device: vc.Device) -> None:
    x, y, out = saxpy_arrays(device, 10)

    with pytest.raises(TypeError):
        device.compile(programs.saxpy()).launch(x, y, out, 1.0, stream="0")


@pytest.mark.emulator
def test_launches_go_on_when_the_device_is_far_behind(own_device: vc.Device, emulator: Emulator) -> None:
    kernel = own_device.compile(programs.add_to())
    h, one, stream = own_device.zeros(100, vc.i32), own_device.array(np.ones(100, np.int32)), own_device.stream()
    call = kernel.bind(h, one, stream=stream)
    emulator.stream_mode("lazy")  # nothing runs before somebody waits

    for _ in range(700):
        kernel.launch(h, one, stream=stream)
        call()
        call(h, one)

    np.testing.assert_array_equal(np.full(100, 2100), h.numpy())
