"""Grid barriers: blocks wait for each other, launches repeat, a grid that cannot be resident is refused."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc


def rotate(rounds: int = 3, block: int = 64) -> vc.Program:
    """Each round every element becomes its right neighbour's value of the round before, plus one."""
    b = vc.Builder("rotate", block=block)
    h = b.inout("h", vc.u32)
    i = b.let("i", vc.global_id.x)
    with b.for_(0, rounds):
        value = b.let("value", h[(i + 1) % h.size])
        b.grid_barrier()
        h[i] = value + 1
        b.grid_barrier()
    return b.build()


def expected(h: np.ndarray, rounds: int = 3) -> np.ndarray:
    return np.roll(h, -rounds) + np.uint32(rounds)


def test_every_block_sees_what_the_others_wrote_before_the_barrier(device: vc.Device) -> None:
    h = np.arange(64 * 12, dtype=np.uint32)

    for _ in range(5):
        np.testing.assert_array_equal(expected(h), device.run(rotate(), h))


def test_the_interpreter_agrees(device: vc.Device) -> None:
    h = np.random.default_rng(3).integers(0, 2**32, 64 * 5, dtype=np.uint32)

    np.testing.assert_array_equal(vc.evaluate(rotate(4), h), device.run(rotate(4), h))


def test_locals_and_shared_memory_survive_the_barrier(device: vc.Device) -> None:
    b = vc.Builder("keep", block=32)
    h = b.inout("h", vc.u32)
    tile = b.shared("tile", vc.u32, 32)
    i, t = b.let("i", vc.global_id.x), b.let("t", vc.thread_id.x)
    tile[t] = i * 3
    mine = b.let("mine", i + 7)
    b.grid_barrier()
    h[i] = tile[31 - t] + mine
    program = b.build()
    i = np.arange(32 * 8)

    result = device.run(program, np.zeros(32 * 8, np.uint32))

    np.testing.assert_array_equal((i // 32 * 32 + 31 - i % 32) * 3 + i + 7, result)


def test_launches_and_bound_calls_repeat(device: vc.Device) -> None:
    h = np.arange(64 * 6, dtype=np.uint32)
    array = device.array(h)
    kernel = device.compile(rotate())
    call = kernel.bind(array)

    for _ in range(3):
        kernel.launch(array)
        call()

    np.testing.assert_array_equal(expected(h, 18), array.numpy())


def test_submitted_calls_do_not_disturb_each_other(device: vc.Device) -> None:
    kernel = device.compile(rotate())
    inputs = [np.arange(64 * 4, dtype=np.uint32) + seed for seed in range(10)]

    pending = [kernel.submit(h) for h in inputs]

    for h, result in zip(inputs, pending, strict=True):
        np.testing.assert_array_equal(expected(h), result.result())


def test_more_blocks_than_fit_are_refused_with_the_numbers(device: vc.Device) -> None:
    kernel = device.compile(rotate())
    most = kernel.attributes.resident_blocks * device.properties.multiprocessor_count
    h = np.zeros(64 * (most + 1), np.uint32)

    with pytest.raises(vc.UnsupportedError, match=str(most)):
        kernel(h)

    np.testing.assert_array_equal(expected(h[:640]), kernel(h[:640]))


def test_divergent_grid_barriers_are_refused() -> None:
    b = vc.Builder("divergent", block=64)
    h = b.inout("h", vc.u32)
    with b.if_(vc.block_id.x == 0):
        b.grid_barrier()
    h[0] = vc.u32(1)

    with pytest.raises(vc.ProgramError, match="grid"):
        b.build()


def test_a_failed_check_does_not_hang_or_spoil_later_launches(device: vc.Device) -> None:
    b = vc.Builder("checked", block=64)
    h = b.inout("h", vc.u32)
    i = b.let("i", vc.global_id.x)
    with b.for_(0, 3):
        b.assert_(h[i] < 1000, "small")
        b.grid_barrier()
        h[i] = h[i] + 1
    kernel = device.compile(b.build())
    good, bad = np.arange(64 * 8, dtype=np.uint32), np.arange(64 * 8, dtype=np.uint32)
    bad[[0, 64, 200]] = 5000

    for _ in range(3):
        with pytest.raises(vc.KernelAssertionError) as caught:
            kernel(bad)
        assert caught.value.thread == 0
        np.testing.assert_array_equal(good + 3, kernel(good))
    array = device.array(bad)
    kernel.launch(array)
    with pytest.raises(vc.KernelAssertionError):
        device.synchronize()
    array.copy_from(good)
    kernel.launch(array)
    np.testing.assert_array_equal(good + 3, array.numpy())
