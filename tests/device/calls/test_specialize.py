"""Kernels compiled for known values: the results of the others, and every way to run one refuses another value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.compare import assert_same

from ..cached_kernels import entries, moved
from .ways_to_run import DOORS, KNOWN, REFUSED, RESIZED, Door, X, expected, rows, same_size


@pytest.fixture
def kernel(device: vc.Device) -> vc.Kernel:
    return device.compile(rows(), specialize=KNOWN)


# ---- what is compiled ------------------------------------------------------------------------------------------------


def test_results_are_those_of_the_kernel_for_all_values(device: vc.Device, kernel: vc.Kernel) -> None:
    for a in (0.0, -1.5, float("nan"), np.float32(3)):
        want = expected(a=float(a))
        assert_same(want, device.compile(rows())(X, 28, a))
        assert_same(want, kernel(X, 28, a))
        assert_same(want, kernel(x=X, w=np.uint32(28), a=a))
        assert_same(want, kernel.submit(X, 28, a).result())
        assert_same(want, kernel(device.array(X), 28, a))


def test_what_is_known_is_not_computed(device: vc.Device, kernel: vc.Kernel) -> None:
    """A division by a number that is known takes no division, and a guard of a known size reads no parameter."""
    assert "div.u32" in device.compile(rows()).ptx
    assert "div.u32" not in kernel.ptx
    assert len(kernel.lowered.parameters) < len(device.compile(rows()).lowered.parameters)


def test_a_kernel_says_what_it_was_compiled_for(device: vc.Device, kernel: vc.Kernel) -> None:
    assert kernel.specialize == KNOWN
    assert kernel.program == rows()
    assert device.compile(rows()).specialize == {}
    assert device.compile(rows(), specialize={}) is device.compile(rows())


def test_other_values_are_other_kernels(device: vc.Device, kernel: vc.Kernel) -> None:
    assert device.compile(rows(), specialize=dict(reversed(KNOWN.items()))) is kernel
    others = [device.compile(rows(), specialize=each) for each in ({"w": 28}, {"w": 14}, {"x.size": 784}, {"a": 2.0})]

    assert len({id(each) for each in [*others, kernel, device.compile(rows())]}) == 6
    for each, w in zip(others, (28, 14, 14, 14), strict=True):
        assert_same(expected(w), each(X, w, 2.0))


def test_the_disk_cache_keeps_them_apart(opened, cache_root):
    given: tuple[dict[str, Any], ...] = ({}, {"w": 28}, {"w": 14}, {"a": 28.0}, KNOWN)
    for device in (opened(), opened()):
        for each in given:
            w, a = each.get("w", 14), each.get("a", 2.0)
            assert_same(expected(w, a), device.compile(rows(), specialize=each)(X, w, a))
            if "w" in each:
                with pytest.raises(ValueError, match="w is 30"):
                    device.compile(rows(), specialize=each)(X, 30, 2.0)

    assert len(entries(cache_root)) == len(given)
    assert moved(device, "disk_cache_hits", "compiles") == [len(given), 0]


@pytest.mark.parametrize("options", [{"bounds": "trap"}, {"bounds": "off"}, {"precision": "fast"}, {"block": "auto"}])
def test_other_options_go_with_it(device: vc.Device, options: dict[str, Any]) -> None:
    kernel = device.compile(rows(), specialize=KNOWN, **options)

    assert_same(expected(), kernel(X, 28, 2.0))
    with pytest.raises(ValueError, match=REFUSED):
        kernel(X, 30, 2.0)


def test_warmup_and_supports_take_it(device: vc.Device) -> None:
    (kernel,) = device.warmup([rows()], specialize=KNOWN)

    assert device.compile(rows(), specialize=KNOWN) is kernel
    assert device.supports(rows(), specialize=KNOWN)
    with pytest.raises(ValueError, match="no 'h'"):
        device.supports(rows(), specialize={"h": 1})


# ---- other values are refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_every_door_refuses_another_value(device: vc.Device, kernel: vc.Kernel, door: Door) -> None:
    assert_same(expected(), door(device, kernel, 28, 784))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=REFUSED):
        door(device, kernel, 30, 784)
    with pytest.raises(ValueError, match=RESIZED):
        door(device, kernel, 28, 783)
    assert_same(expected(), door(device, kernel, 28, 784))  # type: ignore[arg-type]


def test_a_refused_value_is_not_kept_by_a_recorded_call(kernel: vc.Kernel) -> None:
    recorded = kernel.record(X, 28, 2.0)
    with pytest.raises(ValueError, match=REFUSED):
        recorded.replay(w=30)

    assert_same(expected(), recorded.replay())
    assert_same(expected(a=3.0), recorded.replay(X, 28, 3.0))


def test_a_refused_value_is_not_kept_by_a_bound_call(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y = same_size(device)
    bound = kernel.bind(x, 28, 2.0, y)
    for refused in (lambda: bound(x, 30, 2.0, y), lambda: bound.set(w=30)):
        with pytest.raises(ValueError, match=REFUSED):
            refused()
        bound()
        assert_same(expected(), y.numpy())


def test_a_refused_value_is_not_kept_by_a_graph(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y = same_size(device)
    with device.record() as graph:
        kernel.launch(x, vc.symbol("w", 28), 2.0, y)
    for refused in (lambda: graph.replay(w=30), lambda: graph.update(w=30)):
        with pytest.raises(ValueError, match=REFUSED):
            refused()
        graph.replay()
        assert_same(expected(), y.numpy())


# ---- types -----------------------------------------------------------------------------------------------------------

SCALARS: list[tuple[vc.Type, Any, Any, str]] = [
    (vc.i8, -3, 3, "a is 3, but the kernel was compiled for -3"),
    (vc.u8, 200, 0, "a is 0, but the kernel was compiled for 200"),
    (vc.i64, -(2**63), 5, "a is 5, but the kernel was compiled for -9223372036854775808"),
    (vc.u64, 2**64 - 1, 1, "a is 1, but the kernel was compiled for 18446744073709551615"),
    (vc.bool_, True, False, "a is False, but the kernel was compiled for True"),
    (vc.f16, 1.5, 2.5, "a is 2.5, but the kernel was compiled for 1.5"),
    (vc.f32, 0.0, -0.0, "a is -0.0, but the kernel was compiled for 0.0"),
    (vc.f64, 0.1, 0.2, "a is 0.2, but the kernel was compiled for 0.1"),
    (vc.bf16, 2.0, 3.0, "a is 3.0, but the kernel was compiled for 2.0"),
]


@pytest.mark.parametrize(("type_", "value", "other", "words"), SCALARS, ids=[str(row[0]) for row in SCALARS])
def test_values_of_every_type(device: vc.Device, type_: vc.Type, value: Any, other: Any, words: str) -> None:
    b = vc.Builder("of", block=32)
    a, out = b.scalar("a", type_), b.output("out", type_, size=3)
    with b.if_(vc.global_id.x < out.size):
        out[vc.global_id.x] = a
    kernel = device.compile(b.build(), specialize={"a": value})

    assert_same(vc.evaluate(kernel.program, value), kernel(value))
    with pytest.raises(ValueError, match=words):
        kernel(other)


def test_a_nan_is_compared_by_its_bits(device: vc.Device) -> None:
    quiet, other = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    kernel = device.compile(rows(), specialize={"a": quiet})

    assert_same(expected(a=quiet), kernel(X, 28, quiet))
    with pytest.raises(ValueError, match="a is 0x7fc00001, but the kernel was compiled for 0x7fc00000"):
        kernel(X, 28, other)


@pytest.mark.parametrize("index", [vc.u32, vc.i64], ids=str)
def test_extents(device: vc.Device, index: vc.Type) -> None:
    b = vc.Builder("transposed", block=(8, 8), index=index)
    x = b.input("x", vc.i32, ndim=2)
    y = b.output("y", vc.i32, shape=(x.shape[1], x.shape[0]))
    b.work(x.shape[1], x.shape[0])
    i, j = b.let("i", vc.global_id.y), b.let("j", vc.global_id.x)
    with b.if_((i < x.shape[0]) & (j < x.shape[1])):
        y[j, i] = x[i, j] + vc.i32(x.size)
    program = b.build()
    values = np.arange(12, dtype=np.int32).reshape(3, 4)
    for known in ({"x.shape[0]": 3}, {"x.shape[0]": 3, "y.shape[0]": 4}, {"x.size": 12}, {"y.shape[1]": 3}):
        kernel = device.compile(program, specialize=known)

        assert_same(vc.evaluate(kernel.program, values), kernel(values))
        assert_same(vc.evaluate(kernel.program, values), kernel.record(values).replay())
        name, has = next(iter(known.items()))
        with pytest.raises(ValueError, match=rf"{name[:-3]}.* is {5 * has}, but the kernel was compiled for {has}"):
            kernel(np.repeat(values, 5, axis=0))


def test_known_outs_of_out(device: vc.Device) -> None:
    b = vc.Builder("filled", block=32)
    out = b.output("out", vc.i32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = vc.i32(i)
    kernel = device.compile(b.build(), specialize={"out.size": 40})

    assert_same(np.arange(40, dtype=np.int32), kernel(out=np.empty(40, np.int32)))
    with pytest.raises(ValueError, match=r"out\.size is 41, but the kernel was compiled for 40"):
        kernel(out=np.empty(41, np.int32))


# ---- kernel functions ------------------------------------------------------------------------------------------------


@vc.kernel
def scaled(x: vc.In[vc.f32], y: vc.Out[vc.f32], w: vc.i32) -> None:
    i = vc.global_id.x
    if i < x.size:
        y[i] = x[i] * vc.f32(w)


def test_kernel_functions_take_it(device: vc.Device) -> None:
    assert scaled.on(device, specialize={"w": 3}) is device.compile(scaled, specialize={"w": 3})
    kernel = scaled.on(device, specialize={"w": 3})

    assert_same(X * 3, kernel(X, 3, out=np.empty_like(X)))
    with pytest.raises(ValueError, match="w is 4, but the kernel was compiled for 3"):
        kernel(X, 4, out=np.empty_like(X))


@vc.kernel
def powers(x: vc.In[vc.f32], y: vc.Out[vc.f32], w: vc.f32, n: vc.const) -> None:
    i = vc.global_id.x
    if i < x.size:
        v = x[i] * w
        for _ in range(n):
            v = v * x[i]
        y[i] = v


def test_kernel_functions_with_open_parameters_take_it(device: vc.Device) -> None:
    on = powers.on(device, specialize={"w": 2.0})

    for n in (1, 2, 1):
        assert_same((X * 2) * X if n == 1 else (X * 2) * X * X, on(X, 2.0, n=n, out=np.empty_like(X)))
        with pytest.raises(ValueError, match=r"w is 3\.0, but the kernel was compiled for 2\.0"):
            on(X, 3.0, n=n, out=np.empty_like(X))
    assert_same((X * 3) * X, powers.on(device)(X, 3.0, n=1, out=np.empty_like(X)))
