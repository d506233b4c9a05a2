"""Calls with host arrays: what goes in, what comes back, what is refused."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda._native.call.dispatch import Dispatcher, call_by_vector

from .. import programs

F32 = np.float32


def arrays(n: int, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(n).astype(F32), rng.standard_normal(n).astype(F32)


@pytest.mark.parametrize("n", [0, 1, 31, 255, 256, 257, 4096, 100_003])
def test_saxpy_of_any_size_equals_numpy(device: vc.Device, n: int) -> None:
    x, y = arrays(n)
    expected = F32(2.5) * x + y

    result = device.run(programs.saxpy(), x, y, 2.5)

    np.testing.assert_array_equal(expected, result)
    assert result.dtype == F32
    assert result.shape == (n,)


def test_parameters_are_taken_by_name(device: vc.Device) -> None:
    x, y = arrays(10)

    np.testing.assert_array_equal(F32(3) * x + y, device.compile(programs.saxpy())(a=3.0, y=y, x=x))


@pytest.mark.parametrize("scalar", [3, 3.0, F32(3)], ids=["int", "float", "float32"])
def test_float_scalar_may_be_a_number_or_a_numpy_scalar_of_the_type(device: vc.Device, scalar: object) -> None:
    x, y = arrays(10)

    np.testing.assert_array_equal(F32(3) * x + y, device.run(programs.saxpy(), x, y, scalar))


def test_out_is_written_and_returned(device: vc.Device) -> None:
    x, y = arrays(100)
    out = np.full(100, np.nan, F32)

    result = device.compile(programs.saxpy())(x, y, 2.0, out=out)

    assert result is out
    np.testing.assert_array_equal(F32(2) * x + y, out)


def test_out_may_be_an_input(device: vc.Device) -> None:
    x, y = arrays(1000)
    expected = F32(2) * x + y

    device.compile(programs.saxpy())(x, y, 2.0, out=x)

    np.testing.assert_array_equal(expected, x)


def test_out_of_several_axes_is_filled_in_c_order(device: vc.Device) -> None:
    x, y = arrays(12)
    out = np.empty((3, 4), F32)

    device.compile(programs.saxpy())(x, y, 1.0, out=out)

    np.testing.assert_array_equal((x + y).reshape(3, 4), out)


def test_inout_is_returned_and_the_argument_kept(device: vc.Device) -> None:
    h, x = np.arange(50, dtype=np.int32), np.full(50, 7, np.int32)

    result = device.run(programs.add_to(), h, x)

    np.testing.assert_array_equal(np.arange(50) + 7, result)
    np.testing.assert_array_equal(np.arange(50), h)


def test_several_results_come_as_a_tuple_in_declared_order(device: vc.Device) -> None:
    x = np.arange(-40, 40, dtype=np.int32)

    quotient, remainder = device.run(programs.divmod_of(), x, -7)

    np.testing.assert_array_equal(x // -7, quotient)
    np.testing.assert_array_equal(x % -7, remainder)


def test_out_takes_a_tuple_or_names_for_several_results(device: vc.Device) -> None:
    x = np.arange(-40, 40, dtype=np.int32)
    q, r = np.empty_like(x), np.empty_like(x)
    kernel = device.compile(programs.divmod_of())

    assert kernel(x, 5, out=(q, r))[1] is r
    np.testing.assert_array_equal(x // 5, q)
    assert kernel(x, 6, out={"remainder": r})[1] is r
    np.testing.assert_array_equal(x % 6, r)


def test_elements_that_are_not_written_are_zero_on_every_call(device: vc.Device) -> None:
    x = np.arange(1, 70, dtype=np.uint32)
    expected = np.zeros(138, np.uint32)
    expected[::2] = x
    kernel = device.compile(programs.every_second())

    for _ in range(3):
        np.testing.assert_array_equal(expected, kernel(x, out=np.full(138, 99, np.uint32)))


def test_atomics_count_every_thread(device: vc.Device) -> None:
    x = np.random.default_rng(3).integers(0, 2**32, 20_000, dtype=np.uint32)
    h = np.arange(16, dtype=np.uint32)

    result = device.run(programs.histogram(), h, x)

    np.testing.assert_array_equal(h + np.bincount(x % 16, minlength=16).astype(np.uint32), result)


def test_explicit_grid_overrides_the_work(device: vc.Device) -> None:
    x, y = arrays(1000)
    expected = np.zeros(1000, F32)
    expected[:512] = (F32(2) * x + y)[:512]

    np.testing.assert_array_equal(expected, device.compile(programs.saxpy())(x, y, 2.0, grid=2))


def test_non_contiguous_inputs_are_copied(device: vc.Device) -> None:
    x, y = arrays(200)

    np.testing.assert_array_equal(x[::2] + y[::-2], device.run(programs.saxpy(), x[::2], y[::-2], 1.0))


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        pytest.param(TypeError, lambda x, y: ((x, y), {}), id="arity"),
        pytest.param(TypeError, lambda x, y: ((x, y, 1.0, 2.0), {}), id="too-many"),
        pytest.param(TypeError, lambda x, y: ((x, y, 1.0), {"b": 1}), id="unknown-name"),
        pytest.param(TypeError, lambda x, y: ((x.astype(np.float64), y, 1.0), {}), id="dtype"),
        pytest.param(TypeError, lambda x, y: ((x.astype(">f4"), y, 1.0), {}), id="byte-order"),
        pytest.param(TypeError, lambda x, y: ((list(x), y, 1.0), {}), id="list"),
        pytest.param(TypeError, lambda x, y: ((x, y, "1"), {}), id="string-scalar"),
        pytest.param(TypeError, lambda x, y: ((x, y, np.float64(0.1)), {}), id="float64-scalar"),
        pytest.param(OverflowError, lambda x, y: ((x, y, 1e300), {}), id="scalar-beyond-f32"),
        pytest.param(ValueError, lambda x, y: ((x, y, 1.0), {"out": np.empty(3, F32)}), id="out-size"),
        pytest.param(ValueError, lambda x, y: ((x, y, 1.0), {"out": np.empty(20, F32)[::2]}), id="out-strided"),
        pytest.param(TypeError, lambda x, y: ((x, y, 1.0), {"out": np.empty(10, np.int32)}), id="out-dtype"),
        pytest.param(TypeError, lambda x, y: ((x, y, 1.0), {"out": [0.0] * 10}), id="out-list"),
        pytest.param(ValueError, lambda x, y: ((x, y, 1.0), {"grid": 0}), id="grid-zero"),
        pytest.param(TypeError, lambda x, y: ((x, y, 1.0), {"grid": "1"}), id="grid-kind"),
    ],
)
def test_wrong_arguments_are_refused_and_the_kernel_stays_usable(device: vc.Device, error, arguments) -> None:
    x, y = arrays(10)
    kernel = device.compile(programs.saxpy())
    args, kwargs = arguments(x, y)

    with pytest.raises(error):
        kernel(*args, **kwargs)

    np.testing.assert_array_equal(x + y, kernel(x, y, 1.0))


def test_read_only_out_is_refused(device: vc.Device) -> None:
    x, y = arrays(10)
    out = np.empty(10, F32)
    out.flags.writeable = False

    with pytest.raises(ValueError, match="read-only"):
        device.compile(programs.saxpy())(x, y, 1.0, out=out)


def test_a_call_by_the_class_is_the_same_call(device: vc.Device) -> None:
    x, y = arrays(10)
    kernel = device.compile(programs.saxpy())
    out = np.empty_like(x)

    assert vc.Kernel.__call__(kernel, x, y, 2.0, out=out) is out
    np.testing.assert_array_equal(F32(2) * x + y, out)
    np.testing.assert_array_equal(out, functools.partial(kernel, x, a=2.0)(y=y))


def test_a_subclass_may_call_in_its_own_way() -> None:
    class Doubled(Dispatcher):
        def __call__(self, *args: object, **kwargs: object) -> object:
            return "own", args, kwargs

    doubled = Doubled.__new__(Doubled)

    assert doubled(1, out=2) == ("own", (1,), {"out": 2})
    with pytest.raises(TypeError, match="Doubled has a __call__ of its own"):
        call_by_vector(Doubled)


def test_same_program_and_options_give_the_same_kernel(device: vc.Device) -> None:
    assert device.compile(programs.saxpy()) is device.compile(programs.saxpy())
    assert device.compile(programs.saxpy()) is not device.compile(programs.saxpy(), bounds="off")


def test_timed_gives_outputs_and_times_that_add_up(device: vc.Device) -> None:
    x, y = arrays(1000)

    timed = device.compile(programs.saxpy()).timed(x, y, 2.0)

    np.testing.assert_array_equal(F32(2) * x + y, timed.outputs)
    assert timed.wall_ns == timed.enqueue_ns + timed.wait_ns
    assert timed.device_ns > 0
    assert isinstance(timed.device_ns, int)


def test_attributes_are_those_of_the_compiled_kernel(device: vc.Device) -> None:
    attributes = device.compile(programs.saxpy()).attributes

    assert attributes.registers > 0
    assert attributes.resident_blocks > 0
    assert attributes.max_threads_per_block >= 256
