"""Out-of-bounds accesses: nothing happens by default, and bounds="trap" reports the first thread."""

from __future__ import annotations

import re

import numpy as np
import pytest

import vyre_cuda as vc


def gather(of: vc.Type = vc.i32, **options: object) -> vc.Program:
    b = vc.Builder("gather", block=32, **options)
    x, at = b.input("x", vc.f32), b.input("at", of)
    out = b.output("out", vc.f32, size=at.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < at.size):
        out[i] = x[at[i]] + 1.0
    b.work(at.size)
    return b.build()


X = np.arange(100, dtype=np.float32)


@pytest.mark.parametrize("index", [vc.i8, vc.i16, vc.i32, vc.i64, vc.u8, vc.u16, vc.u32, vc.u64], ids=str)
@pytest.mark.parametrize("options", [{}, {"index": vc.u64}], ids=["u32", "u64"])
def test_loads_out_of_bounds_are_zero(device: vc.Device, index: vc.Type, options: dict[str, object]) -> None:
    edges = [0, 99, 100, 127, index.maximum, index.maximum - 1, index.minimum, -1, 2**32 + 5, 2**31, 2**63]
    at = np.array([e for e in edges if index.minimum <= e <= index.maximum], index.dtype)
    wanted = np.array([X[e] + 1 if 0 <= e < 100 else 1 for e in at.tolist()], np.float32)

    np.testing.assert_array_equal(wanted, device.run(gather(index, **options), X, at))


def test_a_trapped_load_names_buffer_index_and_thread(device: vc.Device) -> None:
    kernel = device.compile(gather(), bounds="trap")
    at = np.arange(90, dtype=np.int32)
    np.testing.assert_array_equal(X[:90] + 1, kernel(X, at))
    at[[40, 41, 77]] = [-3, 1000, 100]

    with pytest.raises(vc.KernelAssertionError) as caught:
        kernel(X, at)

    assert caught.value.thread == 40
    assert caught.value.index in (-3, 2**64 - 3)
    assert "x" in caught.value.message
    assert caught.value.program == "gather"
    assert caught.value.source is not None
    np.testing.assert_array_equal(X + 1, kernel(X, np.arange(100, dtype=np.int32)))


def test_a_trapped_launch_raises_at_the_next_wait(own_device: vc.Device) -> None:
    kernel = own_device.compile(gather(), bounds="trap")
    at = np.full(200, 5, np.int32)
    at[150] = 100

    kernel.launch(own_device.array(X), own_device.array(at), own_device.zeros(200, vc.f32))

    with pytest.raises(vc.KernelAssertionError) as caught:
        own_device.synchronize()
    assert caught.value.thread == 150
    own_device.synchronize()


def test_stores_and_atomics_out_of_bounds_do_nothing(device: vc.Device) -> None:
    b = vc.Builder("scatter", block=32)
    at = b.input("at", vc.i32)
    h = b.inout("h", vc.u32)
    g = b.inout("g", vc.u32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < at.size):
        h[at[i]] = i + 1
        b.atomic_add(g, at[i], vc.u32(1))
    b.work(at.size)
    program = b.build()
    at = np.array([0, 3, -1, 10, 2**31 - 1, -(2**31), 9], np.int32)

    h, g = device.run(program, at, np.zeros(10, np.uint32), np.zeros(10, np.uint32))

    np.testing.assert_array_equal([1, 0, 0, 2, 0, 0, 0, 0, 0, 7], h)
    np.testing.assert_array_equal([1, 0, 0, 1, 0, 0, 0, 0, 0, 1], g)


@pytest.mark.slow
def test_the_most_parameters_with_their_sizes_run(device: vc.Device) -> None:
    """256 buffers of a u64 program with the record of failures take 4,104 bytes, more than PTX had before 8.1."""
    b = vc.Builder("many", block=32, index=vc.u64)
    buffers = [b.input(f"x{n}", vc.i32) for n in range(255)]
    out = b.inout("out", vc.i32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        total = b.var("total", out[i])
        for n, x in enumerate(buffers):
            total.set(total + x[i % x.size] * (n + 1))
        out[i] = total
    kernel = device.compile(b.build(), bounds="trap")
    version = re.search(r"\.version (\d+)\.(\d+)", kernel.ptx)
    assert version is not None
    assert tuple(map(int, version.groups())) >= (8, 1)
    rng = np.random.default_rng(3)
    arrays = [rng.integers(-100, 100, size, dtype=np.int32) for size in rng.integers(1, 60, 255)]
    expected = sum(array[np.arange(40) % array.size] * np.int32(n + 1) for n, array in enumerate(arrays))

    np.testing.assert_array_equal(expected + 5, kernel(*arrays, np.full(40, 5, np.int32)))


def test_a_trapped_program_names_the_assertion_that_failed_behind_a_dead_one(device: vc.Device) -> None:
    program = vc.parse(DEAD_ASSERTION)

    with pytest.raises(vc.KernelAssertionError) as caught:
        device.compile(program, bounds="trap")(np.zeros(1, np.float32))

    assert caught.value.statement == 3
    assert caught.value.message == "alive"
    assert str(caught.value).startswith("alive: ")


DEAD_ASSERTION = """program dead
block 1
index u32
work u32:1
in x: f32
out o: f32[u32:1]

for j = i32:4 to i32:1 step i32:1
  assert less(load(x[j]), f32:1.0), "dead"
end
assert equal(size(x), u32:1), "holds"
assert less(load(x[u32:0]), f32:0.0), "alive"
store o[u32:0], f32:1.0
"""
