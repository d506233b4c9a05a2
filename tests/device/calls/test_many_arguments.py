"""Kernels of many arguments: every way of calling takes them, and refuses what it refuses of few."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from side_by_side import side_by_side

import vyre_cuda as vc

from ..foreign_ptx import total

F32 = np.float32
ELEMENTS = 40
COUNTS = (16, 17, 33, 65, 200)

pytestmark = pytest.mark.device


def sum_of(buffers: int, scalars: int) -> vc.Program:
    """out = the sum of all inputs and scalars."""
    b = vc.Builder(f"sum_of_{buffers}_{scalars}", block=32)
    inputs = [b.input(f"x{i}", vc.f32) for i in range(buffers)]
    out = b.output("out", vc.f32, size=inputs[0].size)
    factors = [b.scalar(f"a{i}", vc.f32) for i in range(scalars)]
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        total = b.var("total", vc.f32(0))
        for x in inputs:
            total.set(total + x[i])
        for a in factors:
            total.set(total + a)
        out[i] = total
    return b.build()


def shifted(count: int) -> vc.Program:
    """Each of so many outs is twice as long as x, by steps of its own, and begins with x plus its number."""
    b = vc.Builder(f"shifted_{count}", block=32)
    x = b.input("x", vc.f32)
    outs = [b.output(f"y{n}", vc.f32, size=x.size * 2) for n in range(count)]
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        for n, out in enumerate(outs):
            out[i] = x[i] + vc.f32(n)
    return b.build()


@pytest.mark.parametrize("count", COUNTS)
def test_every_way_takes_as_many_arguments_as_the_kernel_has(device: vc.Device, count: int) -> None:
    kernel = device.compile(sum_of(count, count // 4))
    scalars = [float(i) for i in range(count // 4)]
    host = [np.full(ELEMENTS, i % 7, F32) for i in range(count)]
    expected = np.full(ELEMENTS, sum(i % 7 for i in range(count)) + sum(scalars), F32)
    arrays, out = [device.array(array) for array in host], device.empty(ELEMENTS, vc.f32)
    bound = kernel.bind(*arrays, out, *scalars)
    recorded = kernel.record(*host, *scalars)

    assert kernel.simple  # none goes the general way
    for _ in range(3):
        np.testing.assert_array_equal(expected, kernel(*host, *scalars))
        np.testing.assert_array_equal(expected, kernel.submit(*host, *scalars).result())
        np.testing.assert_array_equal(expected, recorded.replay(*host, *scalars))
        for launch in (kernel.launch, bound, lambda *_: bound()):
            out.fill(0.0)
            launch(*arrays, out, *scalars)
            np.testing.assert_array_equal(expected, out.numpy())


def test_many_results_have_the_sizes_that_the_kernel_declares(device: vc.Device) -> None:
    kernel = device.compile(shifted(100))
    x = np.arange(ELEMENTS, dtype=F32)

    results = kernel(x)

    assert kernel.simple
    assert [result.size for result in results] == [2 * ELEMENTS] * 100
    for n, result in enumerate(results):
        np.testing.assert_array_equal(np.concatenate([x + F32(n), np.zeros(ELEMENTS, F32)]), result)


@pytest.mark.parametrize("count", [3, 9, 100])
def test_results_that_share_memory_are_refused_however_many_there_are(device: vc.Device, count: int) -> None:
    kernel = device.compile(shifted(count))
    x = device.array(np.arange(ELEMENTS, dtype=F32))
    room = device.empty(2 * ELEMENTS * count, vc.f32)
    # neither in order nor with room in between
    outs = [room[2 * ELEMENTS * n : 2 * ELEMENTS * (n + 1)] for n in reversed(range(count))]
    kernel.launch(x, *outs)
    kernel.launch(x, *outs)

    np.testing.assert_array_equal(x.numpy() + F32(count - 1), outs[-1].numpy()[:ELEMENTS])
    for wrong in (outs[0], room[1 : 2 * ELEMENTS + 1]):
        with pytest.raises(ValueError, match="overlap"):
            kernel.launch(x, *outs[:-1], wrong)
    with pytest.raises(ValueError, match="overlap"):
        kernel.launch(outs[1][:ELEMENTS], *outs)


def test_given_results_may_share_nothing_however_many_there_are(device: vc.Device) -> None:
    kernel = device.compile(shifted(100))
    x = device.pinned_empty(ELEMENTS, vc.f32)
    x[:] = np.arange(ELEMENTS)
    room = device.pinned_empty(2 * ELEMENTS * 100, vc.f32)
    pinned = [room[2 * ELEMENTS * n : 2 * ELEMENTS * (n + 1)] for n in reversed(range(100))]
    pageable = list(np.zeros((100, 2 * ELEMENTS), F32))
    mixed = [*pinned[:50], *pageable[50:]]

    for outs in (pinned, pageable, mixed, [None, *mixed[1:]]):
        for n, result in enumerate(kernel(x, out=tuple(outs))):
            np.testing.assert_array_equal(np.arange(ELEMENTS) + F32(n), result[:ELEMENTS])
    for outs, wrong in ((pinned, room[1 : 2 * ELEMENTS + 1]), (pageable, pageable[7]), (mixed, pinned[3])):
        with pytest.raises(ValueError, match="overlap"):
            kernel(x, out=(*outs[:-1], wrong))


def test_an_input_in_the_memory_of_one_of_many_results_is_read_as_it_was(device: vc.Device) -> None:
    kernel = device.compile(shifted(100))
    room = device.pinned_empty(2 * ELEMENTS * 100, vc.f32)
    outs = [room[2 * ELEMENTS * n : 2 * ELEMENTS * (n + 1)] for n in range(100)]

    for place in (0, 2 * ELEMENTS * 57 - 1, 2 * ELEMENTS * 100 - ELEMENTS):
        x = room[place : place + ELEMENTS]
        x[:] = np.arange(ELEMENTS)
        for n, result in enumerate(kernel(x, out=tuple(outs))):
            np.testing.assert_array_equal(np.arange(ELEMENTS) + F32(n), result[:ELEMENTS])


@pytest.mark.parametrize("words", [["u16"] * 1000, ["f32"] * 1022, ["const_ptr"] * 255])
def test_a_loaded_kernel_takes_as_many_parameters_as_a_kernel_may_have(device: vc.Device, words: list[str]) -> None:
    kernel = device.load(total(words), "total", signature=" ".join(["ptr", *words]))
    one, out = device.array(np.ones(1, F32)), device.empty(1, vc.f32)
    arguments = [{"u16": 1, "f32": 1.0, "const_ptr": one}[word] for word in words]
    call = kernel.bind(out, *arguments, grid=1, block=1)

    for launch in (lambda: kernel.launch(out, *arguments, grid=1, block=1), call, lambda: call(out, *arguments)):
        for _ in range(2):
            out.fill(0.0)
            launch()
            assert out.numpy()[0] == len(words)


@pytest.mark.slow
def test_a_loaded_kernel_takes_what_newer_devices_have_room_for(device: vc.Device) -> None:
    words = ["u16"] * ((32_764 - 8) // 2)
    kernel = device.load(total(words), "total", signature=" ".join(["ptr", *words]))
    out = device.empty(1, vc.f32)

    for _ in range(2):
        kernel.launch(out, *[1] * len(words), grid=1, block=1)

    assert out.numpy()[0] == len(words)


def test_a_loaded_kernel_takes_addresses_where_arrays_are_too_many(device: vc.Device) -> None:
    words = ["const_ptr"] * 300
    kernel = device.load(total(words), "total", signature=" ".join(["ptr", *words]))
    one, out = device.array(np.ones(1, F32)), device.empty(1, vc.f32)
    address = one._alive().address

    for addresses in (45, 100, 300):
        for _ in range(2):
            kernel.launch(out, *[one] * (300 - addresses), *[address] * addresses, grid=1, block=1)
        assert out.numpy()[0] == 300
    with pytest.raises(vc.UnsupportedError, match=r"257 arrays.* at most 256: pass the addresses"):
        kernel.launch(out, *[one] * 256, *[address] * 44, grid=1, block=1)


def test_threads_call_a_kernel_of_many_arguments_at_the_same_time(device: vc.Device) -> None:
    kernel = device.compile(sum_of(40, 20))
    scalars = [1.0] * 20
    failures: list[str] = []

    def work(number: int) -> None:
        host = [np.full(ELEMENTS, number, F32)] * 40
        arrays, out = [device.array(array) for array in host], device.empty(ELEMENTS, vc.f32)
        for _ in range(20):
            kernel.launch(*arrays, out, *scalars)
            for result in (kernel(*host, *scalars), out.numpy()):
                if not (result == 40 * number + 20).all():
                    failures.append(f"{number}: {result}")

    side_by_side([partial(work, number) for number in range(4)])

    assert failures == []
