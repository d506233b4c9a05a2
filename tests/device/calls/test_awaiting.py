"""Awaiting submitted calls: one thread for all of them, cancellation, loops in several threads, errors, closing."""

from __future__ import annotations

import asyncio
import gc
import threading
from functools import partial

import numpy as np
import pytest
from interrupts import interrupted
from side_by_side import side_by_side

import vyre_cuda as vc
from vyre_cuda.runtime.waiting import completion_thread
from vyre_cuda.testing.emulator import Emulator

from .. import programs

F32 = np.float32
X = np.arange(50, dtype=F32)


LIMIT = 60.0  # seconds


def waiters() -> set[threading.Thread]:
    """Threads that look after runs."""
    return {thread for thread in threading.enumerate() if thread.name == "vyre_cuda waiter"}


def ended(threads: set[threading.Thread]) -> bool:
    """All of them, once they had the time for it."""
    for thread in threads:
        thread.join(LIMIT)
    return not any(thread.is_alive() for thread in threads)


async def _awaited(pending: vc.Pending) -> asyncio.Task[np.ndarray]:
    """A task that waits for the call, after all its polls."""
    before = waiters()
    task = asyncio.ensure_future(_await(pending))
    while waiters() <= before and not task.done():
        await asyncio.sleep(0)
    return task


def test_control_c_at_any_moment_of_an_await_leaves_the_waiter_to_others(
    own_device: vc.Device, emulator: Emulator
) -> None:
    kernel = own_device.compile(programs.spin())
    pending = kernel.submit(np.zeros(1, np.uint32), 1)
    # The thread runs from here on: `Thread.start` may raise other errors where it is interrupted.
    asyncio.run(_spun(kernel, emulator))

    def wait() -> None:
        waiting = completion_thread.Waiting(pending._ticket, lambda: None)
        own_device.waiter.add(waiting)
        own_device.waiter.discard(waiting)

    waited = 0
    for _ in interrupted(wait):
        other = threading.Thread(target=asyncio.run, args=(_one_spin(kernel, 20_000),), daemon=True)
        other.start()
        assert ended({other})
        waited += 1

    assert waited > 5
    pending.result()


@pytest.mark.emulator
def test_a_thousand_awaits_share_one_thread(own_device: vc.Device, emulator: Emulator) -> None:
    kernel = own_device.compile(programs.saxpy())
    before, most = waiters(), 0

    async def one(a: float) -> None:
        nonlocal most
        result = await kernel.submit(X, X, a)
        most = max(most, len(waiters() - before))
        np.testing.assert_array_equal(F32(a) * X + X, result)

    async def main() -> None:
        await asyncio.gather(*(one(float(a)) for a in range(1000)))

    emulator.set("delay_us", 200)
    asyncio.run(main())

    assert most <= 1


async def _spun(kernel: vc.Kernel, emulator: Emulator) -> None:
    """Await a run that has not ended after all polls."""
    emulator.set("held", 1)
    task = await _awaited(kernel.submit(np.zeros(1, np.uint32), 200_000))
    emulator.set("held", 0)
    await task


def test_the_waiter_ends_with_its_device(device_name: int | str, emulator: Emulator) -> None:
    before = waiters()
    device = vc.Device(device_name)
    kernel = device.compile(programs.spin())

    asyncio.run(_spun(kernel, emulator))
    during = waiters() - before
    asyncio.run(_one_spin(kernel))
    assert waiters() - before == during
    device.close()

    assert len(during) == 1
    assert ended(during)


async def _one_spin(kernel: vc.Kernel, looks: int = 200_000) -> None:
    await kernel.submit(np.zeros(1, np.uint32), looks)


def test_the_waiter_ends_when_its_device_is_dropped(device_name: int | str, emulator: Emulator) -> None:
    before = waiters()

    async def main() -> set[threading.Thread]:
        kernel = vc.Device(device_name).compile(programs.spin())
        await _spun(kernel, emulator)
        return waiters() - before

    during = asyncio.run(main())
    gc.collect()

    assert len(during) == 1
    assert ended(during)


@pytest.mark.emulator
def test_loops_in_several_threads_await_at_a_time(slow_kernel: vc.Kernel) -> None:
    wrong: list[object] = []

    async def main(seed: int) -> None:
        for turn in range(3):
            a = float(10 * seed + turn)
            result = await asyncio.gather(*(asyncio.ensure_future(_one(slow_kernel, a + i)) for i in range(4)))
            wrong.extend(None for i in range(4) if not np.array_equal(F32(a + i) * X + X, result[i]))

    def run(seed: int) -> None:
        try:
            asyncio.run(main(seed))
        except BaseException as error:
            wrong.append(error)

    side_by_side([partial(run, seed) for seed in range(6)])

    assert wrong == []


async def _one(kernel: vc.Kernel, a: float) -> np.ndarray:
    result: np.ndarray = await kernel.submit(X, X, a)
    return result


@pytest.mark.emulator
def test_a_cancelled_await_leaves_the_call_to_others(held_kernel: vc.Kernel, emulator: Emulator) -> None:
    pending = held_kernel.submit(X, X, 3.0)

    async def main() -> np.ndarray:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_await(pending), 0.001)
        other = asyncio.ensure_future(_await(pending))
        await asyncio.sleep(0.001)
        emulator.set("held", 0)
        again = await pending
        assert (await other) is again
        return again

    np.testing.assert_array_equal(F32(3) * X + X, asyncio.run(main()))


async def _await(pending: vc.Pending) -> np.ndarray:
    result: np.ndarray = await pending
    return result


@pytest.mark.emulator
def test_a_cancelled_and_dropped_await_is_abandoned(held_kernel: vc.Kernel, emulator: Emulator) -> None:
    out = np.full(50, -1, F32)

    async def main() -> None:
        task = await _awaited(held_kernel.submit(X, X, 3.0, out=out))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    gc.collect()
    emulator.set("held", 0)
    held_kernel.device.synchronize()

    np.testing.assert_array_equal(np.full(50, -1, F32), out)


@pytest.mark.emulator
def test_a_loop_may_end_before_what_it_awaited(held_kernel: vc.Kernel, emulator: Emulator) -> None:
    """The waiter finds a closed loop, and goes on."""
    loop = asyncio.new_event_loop()
    task = loop.run_until_complete(_awaited(held_kernel.submit(X, X, 3.0)))
    loop.close()
    emulator.set("held", 0)

    np.testing.assert_array_equal(X + X, asyncio.run(_one(held_kernel, 1.0)))
    task._log_destroy_pending = False


@pytest.mark.emulator
def test_an_awaited_failure_is_raised(own_device: vc.Device, emulator: Emulator) -> None:
    kernel = own_device.compile(programs.guarded(10))
    kernel(np.zeros(5, np.uint32))
    emulator.set("delay_us", 20_000)

    async def main() -> None:
        await kernel.submit(np.arange(20, dtype=np.uint32))

    with pytest.raises(vc.KernelAssertionError) as caught:
        asyncio.run(main())
    emulator.set("delay_us", 0)

    assert caught.value.thread == 10


@pytest.mark.emulator
def test_a_close_leaves_their_results_to_those_who_await(
    held_kernel: vc.Kernel, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the waiter does not see the end of the run before it."""
    device = held_kernel.device
    monkeypatch.setattr(completion_thread, "FIRST_LOOK", 3600)

    async def main() -> np.ndarray:
        task = await _awaited(held_kernel.submit(X, X, 2.0))
        closing = asyncio.get_running_loop().run_in_executor(None, device.close)
        emulator.set("held", 0)
        await closing
        return await task

    np.testing.assert_array_equal(F32(2) * X + X, asyncio.run(main()))


@pytest.mark.emulator
def test_an_abandoning_close_wakes_those_who_await(device_name: int | str, emulator: Emulator) -> None:
    device = vc.Device(device_name)
    kernel = device.compile(programs.saxpy())
    emulator.set("held", 1)

    async def main() -> None:
        task = await _awaited(kernel.submit(X, X, 2.0))
        with pytest.raises(vc.KernelTimeoutError):
            device.close(timeout=0.001)
        with pytest.raises(vc.DeviceUnavailableError):
            await task

    asyncio.run(main())
    emulator.set("held", 0)


class Loop:
    """The least of an event loop that awaiting needs."""

    def __init__(self) -> None:
        self._ready: list[tuple[object, tuple[object, ...]]] = []
        self._changed = threading.Condition()

    def call_soon_threadsafe(self, callback, *args, context=None) -> None:
        with self._changed:
            self._ready.append((callback, args))
            self._changed.notify()

    call_soon = call_soon_threadsafe

    def get_debug(self) -> bool:
        return False

    def run(self, coroutine):
        asyncio._set_running_loop(self)
        try:
            while True:
                try:
                    future = coroutine.send(None)
                except StopIteration as stop:
                    return stop.value
                while future is not None and not future.done():
                    with self._changed:
                        self._changed.wait_for(lambda: self._ready)
                        callback, args = self._ready.pop(0)
                    callback(*args)
                if future is not None:
                    future._asyncio_future_blocking = False
        finally:
            asyncio._set_running_loop(None)


@pytest.mark.emulator
def test_a_thread_that_could_not_be_started_is_started_by_the_next(
    held_kernel: vc.Kernel, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            asyncio.run(_one(held_kernel, 1.0))

    async def main() -> np.ndarray:
        task = await _awaited(held_kernel.submit(X, X, 2.0))
        emulator.set("held", 0)
        return await task

    np.testing.assert_array_equal(F32(2) * X + X, asyncio.run(main()))


@pytest.mark.emulator
def test_a_loop_of_another_kind_needs_only_call_soon_threadsafe(slow_kernel: vc.Kernel) -> None:
    np.testing.assert_array_equal(F32(7) * X + X, Loop().run(_one(slow_kernel, 7.0)))
