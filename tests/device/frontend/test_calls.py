"""Calls of kernel functions: which device, which types, which constants."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.runtime.device import default_device

pytestmark = pytest.mark.device
T = TypeVar("T")
X = np.arange(100, dtype=np.float32)


@vc.kernel
def saxpy(x: vc.In[vc.f32], y: vc.In[vc.f32], a: vc.f32):
    out = vc.output(vc.f32, x.size)
    i = vc.global_id.x
    if i < out.size:
        out[i] = a * x[i] + y[i]


@vc.kernel(block=32)
def between(x: vc.In[T], lo: vc.const, hi: vc.const = 60):
    out = vc.output(T, x.size)
    i = vc.global_id.x
    if i < out.size:
        v = x[i]
        out[i] = v if T(lo) <= v <= T(hi) else T(0)


def test_a_device_array_from_around_a_kernel_is_refused_as_its_contents_change(device: vc.Device) -> None:
    around = device.array(X)

    @vc.kernel
    def first(x: vc.InOut[vc.f32]):
        x[0] = around[0]

    with pytest.raises(vc.ProgramError, match="around is a DeviceArray, whose contents can change: pass it as a param"):
        first(np.zeros(1, np.float32))


@pytest.fixture(autouse=True)
def as_default(device: vc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device of the tests is that of calls with NumPy arrays."""
    monkeypatch.setattr(default_device, "_opened", [device])


def test_numpy_arrays_run_on_the_default_device(device: vc.Device) -> None:
    assert vc.default_device() is device
    assert np.array_equal(saxpy(X, X, 2.5), X * np.float32(2.5) + X)


def test_device_arrays_run_on_their_device_and_numpy_arrays_on_the_default_one_again() -> None:
    with vc.Device("emulator") as other:
        x = other.array(X)
        before = other.stats().kernel_launches
        for _ in range(3):
            assert np.array_equal(saxpy(x, X, 2.0), X * 3)
            assert np.array_equal(saxpy(X, X, 2.0), X * 3)
        assert other.stats().kernel_launches == before + 3


def test_arrays_of_two_devices_are_refused(device: vc.Device) -> None:
    with vc.Device("emulator") as other, pytest.raises(ValueError, match="on 2 devices"):
        saxpy(device.array(X), other.array(X), 1.0)


def test_options_of_a_kernel_are_those_of_the_function() -> None:
    out = np.empty(100, np.float32)

    assert saxpy(X, X, 1.0, out=out) is out
    assert np.array_equal(out, X * 2)
    assert np.array_equal(saxpy(X, X, a=1.0), X * 2)
    assert saxpy(X, X, 1.0, grid=1, timeout=60.0).size == 100


def test_type_follows_the_array() -> None:
    for dtype in (np.float32, np.int32, np.uint8, np.float64, np.int32, np.float32):
        x = np.arange(100).astype(dtype)
        found = between(x, 10, 20)
        assert found.dtype == dtype
        assert np.array_equal(found, np.where((x >= 10) & (x <= 20), x, 0).astype(dtype))


def test_constants_are_given_by_position_by_name_or_by_default() -> None:
    for _ in range(2):
        assert between(X, 50).sum() == X[50:61].sum()
        assert between(X, 50, 55).sum() == X[50:56].sum()
        assert between(X, lo=50, hi=55).sum() == X[50:56].sum()
        assert between(X, 50, hi=52).sum() == X[50:53].sum()


@dataclass(frozen=True)
class _Held:
    value: object


class _Slotted:
    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Slotted) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


@pytest.mark.parametrize("made", [_Held, _Slotted, lambda value: _Held(_Held(value)), lambda value: frozenset([value])])
def test_equal_objects_that_hold_other_numbers_are_other_programs(made: Callable[[object], Any]) -> None:
    def held(given: Any) -> Any:
        while not isinstance(given, (bool, int, float)):
            (given,) = given if isinstance(given, frozenset) else (given.value,)
        return given

    @vc.kernel(block=1)
    def kinds(given: vc.const) -> None:
        out = vc.output(vc.i32, 1)
        number = held(given)
        out[0] = (bool, int, float).index(type(number)) * 2 + int(math.copysign(1, number) < 0)

    shown = [kinds(made(number)).tolist() for number in (True, 1, 1.0, 0.0, -0.0)]
    assert shown == [[0], [2], [4], [4], [5]]


@pytest.mark.parametrize(
    ("given", "remedy"), [([1, 2], "given is a list; .*: write a tuple"), (np.zeros(2), "given is an ndarray; .*vc.In")]
)
def test_a_const_that_can_change_is_refused_with_its_name(given: Any, remedy: str) -> None:
    @vc.kernel(block=1)
    def first(given: vc.const) -> None:
        out = vc.output(vc.i32, 1)
        out[0] = given[0]

    with pytest.raises(TypeError, match=remedy):
        first(given)


def test_constants_of_other_types_are_other_programs() -> None:
    @vc.kernel
    def typed(x: vc.In[vc.f32], c: vc.const):
        out = vc.output(vc.i32, 1)
        vc.work(1)
        out[0] = {bool: 1, int: 2, float: 3}[type(c)] + (100 if c is not True and str(c) == "-0.0" else 0)

    found = [int(typed(X, c)[0]) for c in (1, True, 1.0, 0.0, -0.0, 1, True)]

    assert found == [2, 1, 3, 3, 103, 2, 1]


def test_an_argument_in_the_place_of_another_says_the_order() -> None:
    device = vc.default_device()
    x, out = device.array(X), device.empty(X.size, vc.f32)
    kernel = saxpy.on(device)
    order = r"; a launch takes \(x, y, a, out\) in this order"

    with pytest.raises(TypeError, match="scalar a: .* is a DeviceArray; a number of type f32 is needed" + order):
        kernel.launch(x, x, out, 2.0)
    with pytest.raises(TypeError, match="argument x is a float; an array is needed" + order):
        kernel.launch(2.0, x, x, out)


def test_wrong_arguments_are_type_errors() -> None:
    for arguments, message in (
        ((X,), "missing arguments: y, a"),
        ((X, X, 1.0, 2.0), r"takes 3 arguments \(x, y, a\); 4 given"),
        ((X, X, "a"), "a"),
        ((X.astype(np.int32), X, 1.0), "int32"),
    ):
        with pytest.raises(TypeError, match=message):
            saxpy(*arguments)
    with pytest.raises(TypeError, match="no parameter b"):
        saxpy(X, X, 1.0, b=1)
    with pytest.raises(TypeError, match="two values for x"):
        saxpy(X, X, 1.0, x=X)


def test_on_is_the_kernel_of_the_device(device: vc.Device) -> None:
    kernel = saxpy.on(device)

    assert isinstance(kernel, vc.Kernel)
    assert kernel is device.compile(saxpy) is device.compile(saxpy.program())
    assert np.array_equal(device.run(saxpy, X, X, 1.0), X * 2)
    assert device.supports(saxpy)
    assert np.array_equal(vc.evaluate(saxpy, X, X, 1.0), X * 2)


def test_on_specializes_at_each_call_where_parameters_are_open(device: vc.Device) -> None:
    bound = between.on(device)
    fixed = between.on(device, lo=10)

    assert bound(X, lo=10, hi=12).sum() == 33
    assert bound(X.astype(np.int32), 10, 12).dtype == np.int32
    assert fixed(X, hi=12).sum() == 33
    assert isinstance(between.on(device, lo=10, T=vc.i32), vc.Kernel)
    with pytest.raises(TypeError, match="no open parameter low"):
        between.on(device, low=1)


def test_calls_of_one_kind_are_found_again(device: vc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = between.on(device, lo=1000)
    calls = [
        lambda k: between(X, 1000 + k, hi=2000 + k),
        lambda k: between(X, 1000.5 + k),
        lambda k: bound(X, hi=3000 + k),
        lambda k: bound(X, lo=1 + k),
    ]
    expected = [call(0) for call in calls]
    built: list[object] = []
    monkeypatch.setattr(type(between), "_program", lambda self, given: built.append(given))

    assert all(np.array_equal(call(0), found) for call, found in zip(calls, expected, strict=True))
    for call in calls:
        with pytest.raises(TypeError):  # no program: another number is another kind
            call(1)
    assert len(built) == len(calls)


def test_two_dtypes_of_one_type_variable_are_refused() -> None:
    @vc.kernel
    def both(x: vc.In[T], y: vc.In[T]):
        out = vc.output(T, x.size)
        out[vc.global_id.x] = x[vc.global_id.x] + y[vc.global_id.x]

    with pytest.raises(TypeError, match="y is f64, and T is already f32 of x"):
        both(X, X.astype(np.float64))


SCALE = 2.0


def test_a_captured_number_that_changes_makes_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    offset = 1

    def plain(v: Any) -> Any:
        return v * SCALE

    @vc.kernel
    def scaled(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[vc.global_id.x] = plain(x[vc.global_id.x]) + offset + math.floor(math.pi)

    assert np.array_equal(scaled(X), X * 2 + 1 + 3)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert np.array_equal(scaled(X), X * 3 + 1 + 3)
    offset = 5
    assert np.array_equal(scaled(X), X * 3 + 5 + 3)
    monkeypatch.setattr(math, "pi", 4.0)
    assert np.array_equal(scaled(X), X * 3 + 5 + 4)
    monkeypatch.undo()


class Settings:
    factor = 2


def test_an_attribute_or_an_element_that_changes_makes_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = [2]

    def plain(v: Any) -> Any:
        return v * factors[0]

    @vc.kernel
    def by_class(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[vc.global_id.x] = x[vc.global_id.x] * Settings.factor

    @vc.kernel
    def by_list(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[vc.global_id.x] = plain(x[vc.global_id.x])

    @vc.vectorize
    def of_elements(a: vc.f32) -> vc.f32:
        return plain(a)

    for factor in (2, 3, 2, 5):
        monkeypatch.setattr(Settings, "factor", factor)
        factors[0] = factor
        for function in (by_class, by_list, of_elements):
            for _ in range(3):
                assert np.array_equal(function(X), X * factor)


class Slotted:
    __slots__ = ("factor",)


class Scale:
    factor = 2

    def times(self, v: Any) -> Any:
        return v * self.factor


def by_default(v: Any, factor: int = 2) -> Any:
    return v * factor


def by_named_default(v: Any, *, factor: int = 2) -> Any:
    return v * factor


def by_code(v: Any) -> Any:
    return v * 2


BY_CODE = {factor: eval(f"lambda v: v * {factor}").__code__ for factor in (2, 3, 5)}
SLOTTED, SCALE_OBJECT = Slotted(), Scale()
WAYS: dict[str, tuple[Any, Any]] = {
    "default": (by_default, lambda factor: setattr(by_default, "__defaults__", (factor,))),
    "named default": (by_named_default, lambda factor: setattr(by_named_default, "__kwdefaults__", {"factor": factor})),
    "item": (by_named_default, lambda factor: by_named_default.__kwdefaults__.update(factor=factor)),  # type: ignore[union-attr]
    "code": (by_code, lambda factor: setattr(by_code, "__code__", BY_CODE[factor])),
    "class": (lambda v: SCALE_OBJECT.times(v), lambda factor: setattr(Scale, "factor", factor)),
    "slot": (lambda v: v * SLOTTED.factor, lambda factor: setattr(SLOTTED, "factor", factor)),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_changes_without_a_name_makes_another_program(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, change = WAYS[way]
    change(2)

    @vc.kernel
    def scaled(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[vc.global_id.x] = function(x[vc.global_id.x])

    @vc.vectorize
    def of_elements(a: vc.f32) -> vc.f32:
        return function(a)

    for factor in (2, 3, 2, 5):
        change(factor)
        for kernel in (scaled, of_elements):
            assert np.array_equal(kernel(X), X * factor)
    with monkeypatch.context() as patched:  # calls that changed nothing look for no program
        patched.setattr(type(scaled), "_program", None)
        assert np.array_equal(scaled(X), X * 5)
    change(2)
    assert np.array_equal(scaled(X), X * 2)


def test_a_slot_that_is_emptied_is_an_error_at_the_next_call() -> None:
    slotted = Slotted()
    slotted.factor = 2

    @vc.kernel
    def scaled(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[vc.global_id.x] = by_slot(x[vc.global_id.x])

    def by_slot(v: Any) -> Any:
        return v * slotted.factor

    assert np.array_equal(scaled(X), X * 2)
    del slotted.factor
    with pytest.raises(vc.ProgramError, match="factor"):
        scaled(X)


def test_a_kernel_in_a_kernel_is_refused() -> None:
    @vc.kernel
    def outer(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = saxpy(x, x, 1.0)

    with pytest.raises(vc.ProgramError, match="saxpy is a kernel"):
        outer(X)


def test_threads_share_a_function(device: vc.Device) -> None:
    @vc.kernel
    def doubled(x: vc.In[T], by: vc.const):
        out = vc.output(T, x.size)
        out[vc.global_id.x] = x[vc.global_id.x] * by

    def work(number: int) -> bool:
        x = X.astype((np.float32, np.int32, np.uint64)[number % 3])
        return all(np.array_equal(doubled(x, by), x * by) for by in (2, 3, 4, 5, 6) for _ in range(5))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(12)))


def test_a_default_device_that_was_closed_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CUDA_DEVICE", "emulator")
    monkeypatch.setattr(default_device, "_opened", [])
    first = vc.default_device()

    @vc.kernel
    def doubled(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[vc.global_id.x] = x[vc.global_id.x] * 2

    for _ in range(2):
        assert doubled(np.ones(2, np.float32)).tolist() == [2, 2]
        first.close()

    assert vc.default_device() is not first
    on_first = doubled.on(vc.default_device())
    vc.default_device().close()
    with pytest.raises(vc.DeviceUnavailableError):
        on_first(np.ones(2, np.float32))


@vc.kernel
def scaled(x: vc.In[vc.f32], n: vc.const = 5):
    out = vc.output(vc.f32, x.size)
    i = vc.global_id.x
    if i < out.size:
        out[i] = x[i] * n


@pytest.mark.parametrize(
    "call",
    [
        lambda device: scaled.on(device)(X, n=10),
        lambda device: scaled.on(device)(X, 10),
        lambda device: scaled.on(device, n=10)(X, n=10),
        lambda device: scaled.on(device).launch(device.array(X), device.array(X), n=10),
        lambda device: scaled.on(device).launch(device.array(X), device.array(X), 10),
    ],
)
def test_a_const_that_is_given_to_a_kernel_is_refused(device: vc.Device, call: Callable[[vc.Device], Any]) -> None:
    with pytest.raises(TypeError, match=r"n: a const, set by scaled\.on\(device, n=\.\.\.\)$"):
        call(device)
