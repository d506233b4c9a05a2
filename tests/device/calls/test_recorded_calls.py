"""Recorded calls with host arrays: replays with other contents, kept arguments, out=, skipping, threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from side_by_side import side_by_side

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs

F32 = np.float32
X = np.arange(300, dtype=F32)


def test_a_replay_equals_a_call_and_keeps_what_it_is_not_given(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    x, y = X.copy(), X * 2
    recorded = kernel.record(x, y, 2.0)
    x[:] = 0  # the recording has its own copy

    np.testing.assert_array_equal(kernel(X, y, 2.0), recorded.replay())
    np.testing.assert_array_equal(kernel(X + 1, y, 2.0), recorded.replay(X + 1))
    np.testing.assert_array_equal(kernel(X + 1, y, 3.0), recorded.replay(a=3.0))
    np.testing.assert_array_equal(kernel(X + 1, X, 3.0), recorded.replay(y=X))
    np.testing.assert_array_equal(kernel(y, X, 5.0), recorded.replay(y, X, 5))


def test_results_go_where_out_says(device: vc.Device) -> None:
    kernel = device.compile(programs.divmod_of())
    recorded = kernel.record(np.int32([7, -7]), 2)
    one, two = np.empty(2, np.int32), np.empty((1, 2), np.int32)

    results = recorded.replay(out=(one, two))

    assert results[0] is one
    assert results[1] is two
    np.testing.assert_array_equal(np.int32([3, -4]), one)
    np.testing.assert_array_equal(np.int32([[1, 1]]), two)
    saxpy, out = device.compile(programs.saxpy()).record(X, X, 1.0), np.empty_like(X)
    assert saxpy.replay(out=out) is out
    np.testing.assert_array_equal(2 * X, out)
    for kind, wrong in ((ValueError, out[:5]), (TypeError, out.astype(np.float64)), (TypeError, [out])):
        with pytest.raises(kind):
            saxpy.replay(out=wrong)


def test_wrong_arguments_are_refused(device: vc.Device) -> None:
    recorded = device.compile(programs.saxpy()).record(X, X, 1.0)
    for kind, args, kwargs in (
        (ValueError, (X[:5],), {}),
        (TypeError, (X.astype(np.float64),), {}),
        (TypeError, (list(X),), {}),
        (TypeError, (X, X, 1.0, 2.0), {}),
        (TypeError, (X,), {"x": X}),
        (TypeError, (), {"z": X}),
        (TypeError, (), {"a": "one"}),
    ):
        with pytest.raises(kind):
            recorded.replay(*args, **kwargs)
    np.testing.assert_array_equal(2 * X, recorded.replay())


def test_arrays_that_are_not_plain_are_converted(device: vc.Device) -> None:
    recorded = device.compile(programs.saxpy()).record(X, X, 1.0)
    np.testing.assert_array_equal(4 * X, recorded.replay(np.repeat(3 * X, 2)[::2], X.reshape(30, 10)))


def test_scalars_that_change_sizes_are_refused(device: vc.Device) -> None:
    b = vc.Builder("numbers", block=32)
    n = b.scalar("n", vc.u32)
    out = b.output("out", vc.u32, size=n)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = i
    b.work(n)
    recorded = device.compile(b.build()).record(5)

    with pytest.raises(ValueError, match="record again"):
        recorded.replay(6)
    np.testing.assert_array_equal(np.arange(5), recorded.replay(5))


@pytest.mark.parametrize("skip", [False, True])
def test_identical_inputs_are_skipped_only_on_request(device: vc.Device, skip: bool) -> None:
    recorded = device.compile(programs.saxpy()).record(X, X, 1.0, skip_identical=skip)
    wanted = [2 * X, 2 * X, 3 * X, 3 * X, 2 * X]

    results = [
        recorded.replay(),
        recorded.replay(X.copy()),
        recorded.replay(a=2.0),
        recorded.replay(),
        recorded.replay(a=1.0),
    ]

    np.testing.assert_array_equal(wanted, results)
    assert recorded.skipped == (2 if skip else 0)
    results[0][:] = 0
    np.testing.assert_array_equal(2 * X, recorded.replay())


def test_threads_share_a_recorded_call(device: vc.Device) -> None:
    recorded = device.compile(programs.saxpy()).record(X, X, 1.0)
    wrong = []

    def work(number: int) -> None:
        for i in range(20):
            a = float(100 * number + i)
            if not np.array_equal(recorded.replay(X, X, a), F32(a) * X + X):
                wrong.append(a)

    side_by_side([partial(work, number) for number in range(3)])

    assert wrong == []


def test_a_failed_assertion_is_told_and_the_next_replay_runs(device: vc.Device) -> None:
    b = vc.Builder("positive", block=32)
    x = b.input("x", vc.i32)
    out = b.output("out", vc.i32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        b.assert_(x[i] > 0, "positive")
        out[i] = x[i]
    recorded = device.compile(b.build()).record(np.int32([1, 2]), skip_identical=True)

    with pytest.raises(vc.KernelAssertionError, match="positive"):
        recorded.replay(np.int32([1, 0]))
    with pytest.raises(vc.KernelAssertionError, match="positive"):
        recorded.replay()
    np.testing.assert_array_equal(np.int32([3, 4]), recorded.replay(np.int32([3, 4])))


# ---- what is on the device already -----------------------------------------------------------------------------------


def weighted() -> vc.Program:
    """total[i] = total[i] + a * (the sum of all x): every thread reads all of x, so x is copied to the device."""
    b = vc.Builder("weighted", block=32)
    x = b.input("x", vc.i32)
    total = b.inout("total", vc.i32)
    a = b.scalar("a", vc.i32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < total.size):
        kept = b.var("kept", vc.i32(0))
        with b.for_(0, x.size) as k:
            kept.set(kept + x[k])
        total[i] = total[i] + a * kept
    b.work(total.size)
    return b.build()


def wanted(x: np.ndarray, total: np.ndarray, a: int) -> np.ndarray:
    return total + np.int32(a) * x.sum(dtype=np.int32)


def uploaded(device: vc.Device, run: Callable[[], np.ndarray]) -> tuple[np.ndarray, int]:
    """What it gives, and how many bytes a copy engine took to the device."""
    before = device.stats().host_to_device_bytes
    result = run()
    return result, device.stats().host_to_device_bytes - before


@pytest.fixture
def sums(device: vc.Device) -> vc.Kernel:
    return device.compile(weighted())


GIVEN = np.arange(1000, dtype=np.int32)
TOTAL = np.arange(64, dtype=np.int32)


def test_inputs_that_are_as_before_are_not_copied_again(device: vc.Device, sums: vc.Kernel) -> None:
    recorded = sums.record(GIVEN, TOTAL, 2)
    other = GIVEN + 1

    steps = [
        (GIVEN, lambda: recorded.replay(), GIVEN.nbytes),
        (GIVEN, lambda: recorded.replay(), 0),
        (GIVEN, lambda: recorded.replay(GIVEN.copy(), TOTAL.copy()), 0),
        (other, lambda: recorded.replay(other), GIVEN.nbytes),
        (other, lambda: recorded.replay(x=other), 0),
        (GIVEN, lambda: recorded.replay(GIVEN), GIVEN.nbytes),
    ]
    for x, run, nbytes in steps:
        result, moved = uploaded(device, run)
        np.testing.assert_array_equal(wanted(x, TOTAL, 2), result)
        assert moved == nbytes


def test_what_the_kernel_writes_is_copied_every_time(device: vc.Device) -> None:
    recorded = device.compile(programs.histogram()).record(np.zeros(16, np.uint32), np.arange(160, dtype=np.uint32))

    for _ in range(3):
        result, moved = uploaded(device, recorded.replay)
        np.testing.assert_array_equal(np.full(16, 10), result)
        assert moved >= result.nbytes


@pytest.mark.parametrize(
    "between",
    [
        lambda device, kernel: kernel(GIVEN * 3, TOTAL, 1),
        lambda device, kernel: kernel(np.ones(5000, np.int32), TOTAL, 1),
        lambda device, kernel: kernel.submit(GIVEN * 5, TOTAL, 1).result(),
        lambda device, kernel: kernel.record(GIVEN * 7, TOTAL, 1).replay(),
        lambda device, kernel: kernel.record(np.ones(10, np.int32), np.ones(4000, np.int32), 1).replay(),
        lambda device, kernel: (device.trim(), device.array(np.full(1 << 16, 9, np.int32)).numpy()),
    ],
    ids=["call", "larger call", "submit", "other recording", "other sizes", "trim"],
)
def test_what_others_wrote_over_is_copied_again(
    device: vc.Device, sums: vc.Kernel, between: Callable[[vc.Device, vc.Kernel], object]
) -> None:
    recorded = sums.record(GIVEN, TOTAL, 2)
    recorded.replay()
    recorded.replay()

    between(device, sums)

    result, moved = uploaded(device, recorded.replay)
    np.testing.assert_array_equal(wanted(GIVEN, TOTAL, 2), result)
    assert moved == GIVEN.nbytes


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from(["replay", "call", "trim", "keep"])),
        max_size=25,
    )
)
def test_any_order_of_replays_and_calls_gives_what_each_alone_gives(
    shared_device: vc.Device, steps: list[tuple[int, int, str]]
) -> None:
    kernel = shared_device.compile(weighted())
    sizes = [(1000, 64), (1000, 60), (300, 2000)]
    totals = [np.arange(t, dtype=np.int32) for _, t in sizes]
    last = [np.zeros(n, np.int32) for n, _ in sizes]
    recorded = [kernel.record(x, t, 1) for x, t in zip(last, totals, strict=True)]

    for which, value, how in steps:
        x = np.full(sizes[which][0], value, np.int32)
        if how == "trim":
            shared_device.trim()
        elif how == "call":
            np.testing.assert_array_equal(wanted(x, totals[which], 1), kernel(x, totals[which], 1))
        else:
            last[which] = last[which] if how == "keep" else x
            result = recorded[which].replay() if how == "keep" else recorded[which].replay(x)
            np.testing.assert_array_equal(wanted(last[which], totals[which], 1), result)


@pytest.mark.emulator
def test_what_did_not_arrive_is_copied_again(emulator: Emulator) -> None:
    with vc.Device("emulator") as device:
        recorded = device.compile(weighted()).record(GIVEN, TOTAL, 2)
        for call in ("cuMemcpyHtoDAsync", "cuGraphLaunch"):
            recorded.replay(GIVEN)
            emulator.fail(call, result=999)
            with pytest.raises(vc.DriverError):
                recorded.replay(GIVEN + 1)
            np.testing.assert_array_equal(wanted(GIVEN + 1, TOTAL, 2), recorded.replay())
