"""For each thing that `docs/graphs.md` says is not merged, a recording that runs as it was recorded.

`explain` says why, and the results are those of the steps. Kernels whose program is not known, arrays of other
libraries and kernels that need too much are in test_unfused_steps and test_fused_faults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

from .graph_checks import F32

LARGE = 1100  # more than a block
SMALL = 70

Body = Callable[[vc.Builder, Any, Any, Any], None]


def kernel_of(body: Body, name: str = "second", *, block: int = 64, **options: Any) -> Callable[[vc.Device], vc.Kernel]:
    """`body` gets the builder, x, z and the index."""
    b = vc.Builder(name, block=block)
    x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    body(b, x, z, i)
    program = b.build()
    return lambda device: device.compile(program, **options)


def own(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
    with b.if_(i < z.size):
        z[i] = x[i] + z[i]


def neighbor(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
    with b.if_(i < z.size):
        z[i] = x[(i + 1) % x.size]


def looked_up(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
    with b.if_(i < z.size):
        z[i] = x[vc.u32(vc.absolute(x[i])) % x.size]


def all_into_one(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
    with b.if_(i < x.size):
        b.atomic_add(z, 0, x[i])


def asserts(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
    b.assert_(x.size > 0, "empty")
    own(b, x, z, i)


def waits(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
    b.barrier()
    own(b, x, z, i)


def shuffles(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
    other = b.shuffle_xor(x[i], 1)
    with b.if_(i < z.size):
        z[i] = other


def shares(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
    part = b.shared("part", vc.f32, 64)
    part[vc.thread_id.x] = x[i]
    with b.if_(i < z.size):
        z[i] = part[vc.thread_id.x]


def prints(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
    with b.if_(i == 5000):
        b.print("here")
    own(b, x, z, i)


def returns_in_a_branch(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
    with b.if_(i < z.size):
        with b.if_(x[i] > 3):
            b.return_()
        z[i] = x[i]


def returns_in_a_loop(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
    with b.for_(3) as k:
        with b.if_((i >= z.size) | (x[i] > vc.f32(k))):
            b.return_()
        z[i] = x[i] + vc.f32(k)


def block_number(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
    with b.if_(i < z.size):
        z[i] = x[x.size - 1 - i] + vc.f32(vc.block_id.x)


def loops(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
    with b.if_(i < z.size):
        total = b.var("total", vc.f32(0))
        with b.for_(x.size) as k:
            total.set(total + x[k])
        z[i] = total


# The body of the second step, the elements, options of both, and what is said.
BODIES: list[tuple[Body, int, dict[str, Any], str]] = [
    (neighbor, LARGE, {}, "a thread would find what another one wrote"),
    (looked_up, LARGE, {}, "a thread would find what another one wrote"),
    (asserts, SMALL, {}, "has an assertion"),
    (waits, SMALL, {}, "has a barrier"),
    (shuffles, SMALL, {}, "has a warp operation"),
    (shares, SMALL, {}, "has shared arrays"),
    (prints, SMALL, {}, "has a print"),
    (returns_in_a_branch, SMALL, {}, "has a return inside a loop or a branch"),
    (returns_in_a_loop, SMALL, {}, "has a return inside a loop or a branch"),
    (block_number, SMALL, {}, "a thread would find what another one wrote"),
    (loops, SMALL, {}, "a thread would find what another one wrote"),
    (own, LARGE, {"precision": "fast"}, 'could become one fma with precision="fast"'),
    (own, SMALL, {"bounds": "trap"}, 'bounds="trap"'),
]


@pytest.mark.parametrize(("body", "size", "options", "said"), BODIES, ids=[each[0].__name__ for each in BODIES])
def test_a_step_that_may_not_be_merged_stays_apart(
    device: vc.Device, body: Body, size: int, options: dict[str, Any], said: str
) -> None:
    one, other = kernel_of(own, "one", **options)(device), kernel_of(body, **options)(device)
    start = [np.random.default_rng(k).integers(-9, 9, size).astype(F32) for k in range(3)]
    found = []
    for fuse in (False, True):
        arrays = [device.array(each) for each in start]
        with device.record(fuse=fuse) as graph:
            one.launch(arrays[0], arrays[1])
            other.launch(arrays[1], arrays[2])
        graph.replay()
        graph.replay()
        found.append([array.numpy() for array in arrays])

    assert graph.node_count == 2, graph.explain()
    assert said in graph.explain()
    for plain, fused in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, fused)


def test_an_array_that_atomics_change_is_no_array_of_own_elements(device: vc.Device) -> None:
    one, other = kernel_of(all_into_one, "one")(device), kernel_of(own, "other")(device)
    x, y = device.array(np.ones(LARGE, F32)), device.zeros(LARGE, vc.f32)
    z = device.zeros(LARGE, vc.f32)
    with device.record(fuse=True) as graph:
        one.launch(x, y)
        other.launch(y, z)
    graph.replay()
    assert graph.node_count == 2
    assert "is changed by an atomic, and touched by other steps" in graph.explain()
    assert z[0] == LARGE


def test_the_same_memory_in_another_shape_stays_apart(device: vc.Device) -> None:
    b = vc.Builder("plane", block=64)
    z = b.inout("z", vc.f32, ndim=2)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i // z.shape[1], i % z.shape[1]] = z[i // z.shape[1], i % z.shape[1]] + 1
    plane, one = device.compile(b.build()), kernel_of(own, "one")(device)
    x, y = device.array(np.arange(SMALL, dtype=F32)), device.zeros(SMALL, vc.f32)
    for same in (x, y):
        with device.record(fuse=True) as graph:
            one.launch(x, y)
            plane.launch(same.reshape(7, 10))
        graph.replay()
        assert graph.node_count == 2
        assert "are the same memory with other types or shapes" in graph.explain()
    np.testing.assert_array_equal(x.numpy(), np.arange(SMALL, dtype=F32) + 1)
    np.testing.assert_array_equal(y.numpy(), 2 * np.arange(SMALL, dtype=F32) + 2)


def test_more_than_2000_operations_are_several_kernels(device: vc.Device) -> None:
    kernel = kernel_of(own, "one")(device)
    x, z = device.array(np.ones(SMALL, F32)), device.zeros(SMALL, vc.f32)
    with device.record(fuse=True) as graph:
        for _ in range(900):
            kernel.launch(x, z)
    graph.replay()
    assert z[0] == 900
    assert 2 <= graph.node_count < 900
    assert "more than 2000" in graph.explain()


def test_a_product_and_the_sum_behind_it_are_rounded_apart(device: vc.Device) -> None:
    """As one multiplication and addition with one rounding, the sum would be another one."""

    def product(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
        with b.if_(i < z.size):
            z[i] = x[i] * x[i]

    def less_one(b: vc.Builder, x: Any, z: Any, i: Any) -> None:
        with b.if_(i < z.size):
            z[i] = x[i] - 1

    value = F32(1 + 2**-12)
    one, other = kernel_of(product, "product")(device), kernel_of(less_one, "less_one")(device)
    x, t, z = device.array(np.full(SMALL, value)), *(device.zeros(SMALL, vc.f32) for _ in range(2))
    with device.record(fuse=True) as graph:
        one.launch(x, t)
        other.launch(t, z)
    graph.replay()

    assert graph.node_count == 1
    assert z[0] == value * value - F32(1)
    assert z[0] != float(value) ** 2 - 1


def test_subnormal_numbers_are_flushed_as_they_are_between_steps(device: vc.Device) -> None:
    half = kernel_of(lambda b, x, z, i: z.__setitem__(i, x[i] * 0.5), "half", precision="ftz")(device)
    double = kernel_of(lambda b, x, z, i: z.__setitem__(i, x[i] * 2.0), "double", precision="ftz")(device)
    least = np.finfo(F32).smallest_normal
    found = []
    for fuse in (False, True):
        x, t, z = device.array(np.full(SMALL, least)), *(device.zeros(SMALL, vc.f32) for _ in range(2))
        with device.record(fuse=fuse) as graph:
            half.launch(x, t)
            double.launch(t, z)
        graph.replay()
        found.append(z.numpy())
    assert graph.node_count == 1
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0][0] == 0


TABLES: list[tuple[Body, dict[str, Any], str]] = [
    (asserts, {}, "the kernel has assertions"),
    (prints, {}, "the kernel has lines that it prints"),
    (own, {"bounds": "trap"}, 'the kernel has bounds="trap"'),
]


@pytest.mark.parametrize(("body", "options", "said"), TABLES, ids=[each[0].__name__ for each in TABLES])
def test_launches_that_are_no_rows_of_a_table(
    device: vc.Device, body: Body, options: dict[str, Any], said: str
) -> None:
    kernel = kernel_of(body, **options)(device)
    x, z = device.array(np.arange(40 * SMALL, dtype=F32)), device.zeros(40 * SMALL, vc.f32)
    with device.record(fuse=True) as graph:
        for k in range(40):
            kernel.launch(x[SMALL * k : SMALL * k + SMALL], z[SMALL * k : SMALL * k + SMALL])
    graph.replay()
    assert "with a table" not in graph.explain()
    assert said in graph.explain()
    assert graph.node_count == 40
    np.testing.assert_array_equal(z.numpy(), x.numpy())
