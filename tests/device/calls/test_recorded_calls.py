"""Recorded calls with host arrays: replays with other contents, kept arguments, out=, skipping, threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import vyre_cuda as vc

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

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

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
