"""Sequences: fills and uploads, steps, repeated steps, ranged reads, one wait; and what replays must not get wrong."""

from __future__ import annotations

import numpy as np

import vyre_cuda as vc

from .. import programs


def scaled_sum(name: str = "scaled") -> vc.Program:
    """x = x * factor + term"""
    b = vc.Builder(name, block=32)
    x = b.inout("x", vc.u32)
    factor, term = b.scalar("factor", vc.u32), b.scalar("term", vc.u32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        x[i] = x[i] * factor + term
    return b.build()


def uploaded(device: vc.Device, *values: int) -> tuple[np.ndarray, vc.DeviceArray]:
    pinned = device.pinned_empty(len(values), vc.u32)
    pinned[:] = values
    return pinned, device.zeros(len(values), vc.u32)


def test_an_upload_steps_a_repeated_window_and_ranged_reads(device: vc.Device) -> None:
    step = device.compile(scaled_sum())
    pinned, x = uploaded(device, 1, 2, 3, 4)
    low, high = device.pinned_empty(2, vc.u32), device.pinned_empty(1, vc.u32)

    with device.record() as graph:
        x.copy_from(pinned)
        step.launch(x, 1, 7)
        with graph.repeat(2):
            step.launch(x, 1, 1)
            step.launch(x, 1, 3)
        graph.download(x[:2], low)
        graph.download(x[3:], high)

    for offset in (0, 10):
        pinned[:] = np.arange(1, 5) + offset
        graph.replay()
        device.synchronize()
        np.testing.assert_array_equal(np.uint32([16, 17]) + offset, low)
        assert high[0] == 19 + offset


def test_a_repeated_window_of_two_steps(device: vc.Device) -> None:
    step = device.compile(scaled_sum())
    x = device.array(np.uint32([1, 2, 3, 4]))

    with device.record() as graph, graph.repeat(2):
        step.launch(x, 2, 1)
        step.launch(x, 1, 3)

    graph.replay()
    np.testing.assert_array_equal(np.uint32([16, 20, 24, 28]), x.numpy())


def test_read_write_state_is_kept_from_replay_to_replay(device: vc.Device) -> None:
    step = device.compile(scaled_sum())
    x = device.array(np.uint32([1, 2, 3, 4]))
    with device.record() as graph:
        step.launch(x, 1, 7)

    graph.replay()
    np.testing.assert_array_equal(np.uint32([8, 9, 10, 11]), x.numpy())
    graph.replay()
    np.testing.assert_array_equal(np.uint32([15, 16, 17, 18]), x.numpy())


def test_of_fills_of_one_array_the_last_counts_and_an_upload_replaces_them(device: vc.Device) -> None:
    pinned, x = uploaded(device, 5, 6)
    y = device.zeros(2, vc.u32)
    with device.record() as graph:
        x.fill(1)
        x.fill(2)
        x.copy_from(pinned)
        y.fill(3)
        y.fill(4)

    graph.replay()

    np.testing.assert_array_equal(np.uint32([5, 6]), x.numpy())
    np.testing.assert_array_equal(np.uint32([4, 4]), y.numpy())


def test_an_empty_sequence_does_nothing(device: vc.Device) -> None:
    with device.record() as graph:
        pass
    graph.replay()
    assert (len(graph), graph.node_count) == (0, 0)


def test_sparse_stores_leave_no_bytes_of_the_replay_before(device: vc.Device) -> None:
    kernel = device.compile(programs.every_second())
    x = device.array(np.arange(1, 51, dtype=np.uint32))
    out = device.array(np.full(100, 9, np.uint32))
    wanted = np.zeros(100, np.uint32)
    wanted[::2] = np.arange(1, 51)
    with device.record() as graph:
        kernel.launch(x, out)
    recorded = kernel.record(np.arange(1, 51, dtype=np.uint32))

    for _ in range(3):
        out.copy_from(np.full(100, 9, np.uint32))
        graph.replay()
        np.testing.assert_array_equal(wanted, out.numpy())
        np.testing.assert_array_equal(wanted, recorded.replay())


def test_results_come_in_declared_order_whatever_the_bindings_are(device: vc.Device) -> None:
    b = vc.Builder("several", block=32)
    high = b.output("high", vc.i32, size=4)
    x = b.input("x", vc.i32)
    state = b.inout("state", vc.i32)
    low = b.output("low", vc.i32, size=4)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        high[i], low[i] = x[i] + 100, x[i] - 100
        state[i] = state[i] + x[i]
    b.work(x.size)
    recorded = device.compile(b.build()).record(np.int32([0, 1, 2, 3]), np.int32([10, 10, 10, 10]))

    for base in (0, 5):
        numbers = np.arange(4, dtype=np.int32) + base
        first, middle, last = recorded.replay(numbers)
        np.testing.assert_array_equal(numbers + 100, first)
        np.testing.assert_array_equal(numbers + 10, middle)
        np.testing.assert_array_equal(numbers - 100, last)
