"""Calls and launches of programs whose buffers have several axes or declared sizes: every path checks and delivers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

X = np.random.default_rng(1).random((20, 33)).astype(np.float32)


def stencil(index: vc.Type = vc.u32) -> vc.Program:
    """The sum of the four neighbors, 0 beyond the edges, through a shared tile for the point itself."""
    b = vc.Builder("stencil", block=(16, 8), index=index)
    x = b.input("x", vc.f32, ndim=2)
    a = b.scalar("a", vc.f32)
    o = b.output("o", vc.f32, shape=x.shape)
    tile = b.shared("tile", vc.f32, (8, 16))
    b.work(x.shape[1], x.shape[0])
    i, j = b.let("i", vc.global_id.y), b.let("j", vc.global_id.x)
    tile[vc.thread_id.y, vc.thread_id.x] = x[i, j]
    b.barrier()
    with b.if_((i < o.shape[0]) & (j < o.shape[1])):
        around = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]
        o[i, j] = around + a * tile[vc.thread_id.y, vc.thread_id.x]
    return b.build()


def expected(x: np.ndarray[Any, Any], a: float) -> np.ndarray[Any, Any]:
    p = np.pad(x, 1)
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    result: np.ndarray[Any, Any] = around + np.float32(a) * x
    return result


@pytest.mark.thin
@pytest.mark.parametrize("index", [vc.u32, vc.i32, vc.u64, vc.i64], ids=str)
def test_a_call_returns_the_declared_shape(device: vc.Device, index: vc.Type) -> None:
    kernel = device.compile(stencil(index))
    for shape in ((20, 33), (1, 1), (3, 0), (500, 700)):
        x = np.random.default_rng(2).random(shape).astype(np.float32)
        want = vc.evaluate(kernel.program, x, 3.0)
        np.testing.assert_array_equal(expected(x, 3.0), want, strict=True)
        np.testing.assert_array_equal(want, kernel(x, 3.0), strict=True)
        np.testing.assert_array_equal(want, kernel.submit(x, 3.0).result(), strict=True)
        np.testing.assert_array_equal(want, kernel.timed(x, 3.0).outputs, strict=True)
        np.testing.assert_array_equal(want, kernel(device.array(x), 3.0), strict=True)
        np.testing.assert_array_equal(want, kernel(np.asfortranarray(x), 3.0), strict=True)


def test_launches_use_the_shapes_of_their_arrays(device: vc.Device) -> None:
    kernel = device.compile(stencil())
    x, o = device.array(X), device.empty(X.shape, vc.f32)
    kernel.launch(x, 2.0, o)
    np.testing.assert_array_equal(expected(X, 2.0), o.numpy(), strict=True)

    bound = kernel.bind(x, 2.0, o)
    other = np.ascontiguousarray(X.T)
    second = device.empty(other.shape, vc.f32)
    bound(device.array(other), 3.0, second)
    np.testing.assert_array_equal(expected(other, 3.0), second.numpy())
    bound.set(x=x, o=o, a=4.0)
    bound()
    np.testing.assert_array_equal(expected(X, 4.0), o.numpy())

    rows = device.array(X)[3:9]
    out = device.empty_like(rows)
    kernel.launch(rows, 2.0, out)
    np.testing.assert_array_equal(expected(X[3:9], 2.0), out.numpy())


def test_recorded_calls_keep_the_shape(device: vc.Device) -> None:
    kernel = device.compile(stencil())
    call = kernel.record(X, 2.0)
    np.testing.assert_array_equal(expected(X, 2.0), call.replay(), strict=True)
    np.testing.assert_array_equal(expected(X + 1, 3.0), call.replay(X + 1, 3.0), strict=True)
    out = np.empty_like(X)
    assert call.replay(X, out=out) is out
    np.testing.assert_array_equal(expected(X, 3.0), out)
    for wrong in (np.ascontiguousarray(X.T), X.ravel(), X.reshape(20, 33, 1)):
        with pytest.raises(ValueError, match="shape"):
            call.replay(wrong)
        with pytest.raises(ValueError, match="shape"):
            call.replay(X, out=wrong.copy())
    np.testing.assert_array_equal(expected(X, 3.0), call.replay(X), strict=True)


def test_a_graph_launches_with_shapes_and_symbols(device: vc.Device) -> None:
    kernel = device.compile(stencil())
    o = device.empty(X.shape, vc.f32)
    with device.record() as graph:
        kernel.launch(vc.symbol("x"), vc.symbol("a"), o)
    graph.replay(x=device.array(X), a=2.0)
    np.testing.assert_array_equal(expected(X, 2.0), o.numpy())
    with pytest.raises(ValueError, match=r"shape \(20, 33\), not \(33, 20\)"):
        graph.replay(x=device.array(np.ascontiguousarray(X.T)), a=2.0)


def contracts() -> vc.Program:
    b = vc.Builder("contracts")
    x = b.input("x", vc.f32)
    y = b.input("y", vc.f32, x.size + 1)
    z = b.inout("z", vc.f32, shape=(None, x.size))
    i = vc.global_id.x
    b.work(x.size)
    z[0, i] = x[i] + y[i + 1]
    return b.build()


GOOD = (np.ones(3, np.float32), np.arange(4, dtype=np.float32), np.zeros((2, 3), np.float32))
WRONG: list[tuple[int, tuple[int, ...], str]] = [
    (1, (3,), r"y has 3 elements, not 4 \(size\(x\) = 3\)"),
    (2, (3, 2), r"z has the shape \(3, 2\), not \(:, 3\) \(size\(x\) = 3\)"),
    (2, (6,), r"z has the shape \(6,\); z is declared with 2 axes"),
]


def _arguments(position: int, shape: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    arguments = list(GOOD)
    arguments[position] = np.zeros(shape, np.float32)
    return arguments


@pytest.mark.parametrize("position, shape, message", WRONG, ids=["size", "shape", "axes"])
def test_every_path_refuses_what_a_declaration_does_not_allow(
    device: vc.Device, position: int, shape: tuple[int, ...], message: str
) -> None:
    kernel = device.compile(contracts())
    wrong = _arguments(position, shape)
    on_device, good = [device.array(x) for x in wrong], [device.array(x) for x in GOOD]
    bound, call = kernel.bind(*good), kernel.record(*GOOD)
    with device.record() as graph:
        kernel.launch(*(vc.symbol(name) for name in "xyz"))
    paths: list[Callable[[], Any]] = [
        lambda: vc.evaluate(kernel.program, *wrong),
        lambda: kernel(*wrong),
        lambda: kernel(*(on_device[:2]), wrong[2]),
        lambda: kernel.submit(*wrong),
        lambda: kernel.timed(*wrong),
        lambda: kernel.record(*wrong),
        lambda: kernel.launch(*on_device),
        lambda: kernel.bind(*on_device),
        lambda: bound(*on_device),
        lambda: bound.set(**{"xyz"[position]: on_device[position]}),
        lambda: graph.replay(**dict(zip("xyz", on_device, strict=True))),
    ]
    for path in paths:
        with pytest.raises(ValueError, match=message):
            path()
    with pytest.raises(ValueError, match=r"elements|shape"):
        call.replay(*wrong)
    want = np.array([[2, 3, 4], [0, 0, 0]], np.float32)
    for result in (kernel(*GOOD), call.replay(*GOOD)):
        np.testing.assert_array_equal(want, result, strict=True)


def test_a_trap_names_the_axis_and_its_index(device: vc.Device) -> None:
    b = vc.Builder("trapped", block=1)
    x = b.input("x", vc.f32, ndim=2)
    o = b.output("o", vc.f32, size=1)
    o[0] = x[1, vc.i32(7)]
    kernel = device.compile(b.build(), bounds="trap")
    with pytest.raises(vc.KernelAssertionError, match="out of bounds of x on axis 1") as caught:
        kernel(np.zeros((2, 3), np.float32))
    assert caught.value.index == 7


def test_results_and_work_of_four_axes(device: vc.Device) -> None:
    b = vc.Builder("four", block=32)
    x = b.inout("x", vc.i32, ndim=4)
    n = b.let("n", vc.global_id.x)
    _, e, f, g = x.shape
    b.atomic_add(x, (n // (e * f * g), n // (f * g) % e, n // g % f, n % g), vc.i32(n))
    kernel = device.compile(b.build())
    x_value = np.ones((2, 3, 4, 5), np.int32)
    want = x_value + np.arange(120, dtype=np.int32).reshape(2, 3, 4, 5)
    np.testing.assert_array_equal(want, kernel(x_value), strict=True)
    array = device.array(x_value)
    kernel.launch(array)
    np.testing.assert_array_equal(want, array.numpy(), strict=True)


def test_plain_calls_with_shapes_take_the_warm_path(device: vc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, checked = device.compile(stencil()), device.compile(contracts())
    want = expected(X, 2.0)
    x, o = device.array(X), device.empty(X.shape, vc.f32)
    for each in (kernel, checked):
        monkeypatch.setattr(each, "_general", None)
        monkeypatch.setattr(each, "_general_launch", None)

    np.testing.assert_array_equal(want, kernel(X, 2.0), strict=True)
    out = np.empty_like(X)
    assert kernel(X, 2.0, out=out) is out
    np.testing.assert_array_equal(want, out)
    assert kernel(x, 2.0, out=o) is o
    np.testing.assert_array_equal(want, o.numpy())
    o.fill(0)
    kernel.launch(x, 2.0, o)
    np.testing.assert_array_equal(want, o.numpy())
    np.testing.assert_array_equal(np.array([[2, 3, 4], [0, 0, 0]], np.float32), checked(*GOOD), strict=True)

    with pytest.raises(TypeError, match="NoneType"):  # the general path would explain
        kernel(X.ravel(), 2.0)
    with pytest.raises(TypeError, match="NoneType"):
        kernel(X, 2.0, out=np.empty((33, 20), np.float32))
    with pytest.raises(TypeError, match="NoneType"):
        kernel.launch(x, 2.0, device.empty((33, 20), vc.f32))
    with pytest.raises(TypeError, match="NoneType"):
        checked(GOOD[0], GOOD[0], GOOD[2])


@pytest.mark.emulator
def test_a_race_is_reported_by_the_number_of_the_element() -> None:
    b = vc.Builder("racing", block=64)
    x = b.input("x", vc.u32, ndim=2)
    o = b.output("o", vc.u32, shape=x.shape)
    tail = b.output("tail", vc.u32, size=x.shape[1])
    b.work(64)
    tail[vc.global_id.x] = vc.global_id.x
    o[1, 2] = vc.global_id.x
    with vc.Device("emulator", check="races") as checked, pytest.raises(vc.DataRaceError) as caught:
        checked.run(b.build(), np.zeros((3, 4), np.uint32))
    assert (caught.value.buffer, caught.value.index) == ("o", 6)
