"""Awaiting tasks of submitted calls, submitted graphs and events."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs

X = np.arange(50, dtype=np.float32)
LIMIT = 60.0  # seconds


def test_a_submitted_call_is_a_task(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())

    async def main() -> None:
        task = asyncio.create_task(kernel.submit(X, X, 2.0))
        np.testing.assert_array_equal(3 * X, await task)
        pending = kernel.submit(X, X, 4.0)
        first, second = asyncio.ensure_future(pending), asyncio.ensure_future(pending)  # two tasks on one result
        for result in await asyncio.gather(first, second, pending):
            np.testing.assert_array_equal(5 * X, result)
        np.testing.assert_array_equal(5 * X, await pending)

    asyncio.run(main())


@pytest.mark.emulator
def test_a_task_that_is_cancelled_leaves_the_result_to_others(held_kernel: vc.Kernel, emulator: Emulator) -> None:
    async def main() -> None:
        pending = held_kernel.submit(X, X, 2.0)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.create_task(pending), 0.001)
        emulator.set("held", 0)
        task = asyncio.create_task(pending)
        np.testing.assert_array_equal(3 * X, await task)

    asyncio.run(main())


def test_a_failed_assertion_comes_out_of_a_task(device: vc.Device) -> None:
    b = vc.Builder("fails", block=1)
    out = b.output("out", vc.u32, size=1)
    b.assert_(out.size > 5, "too small")
    kernel = device.compile(b.build())

    async def main() -> None:
        with pytest.raises(vc.KernelAssertionError, match="too small"):
            await asyncio.create_task(kernel.submit())

    asyncio.run(main())


def test_a_submitted_graph_is_awaited(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one, stream = device.zeros(8, vc.i32), device.array(np.ones(8, np.int32)), device.stream()
    with device.record() as graph:
        add.launch(h, vc.symbol("by", one))

    async def main() -> None:
        assert await graph.submit() is None
        await asyncio.create_task(graph.submit(stream=stream, by=one))
        await asyncio.gather(*(graph.submit() for _ in range(5)))

    asyncio.run(main())
    np.testing.assert_array_equal(np.full(8, 7), h.numpy())
    replay = graph.submit()
    replay.result(timeout=LIMIT)
    assert replay.done()
    with device.record(), pytest.raises(vc.RecordingError):
        graph.submit()


@pytest.mark.emulator
def test_an_event_and_a_submitted_graph_are_waited_for(held_kernel: vc.Kernel, emulator: Emulator) -> None:
    device = held_kernel.device
    emulator.set("held", 0)
    x, out, stream = device.array(X), device.zeros(X.size, vc.f32), device.stream()
    with device.record() as graph:
        held_kernel.launch(x, x, out, 2.0)
    emulator.set("held", 1)

    async def main() -> None:
        replay = graph.submit(stream=stream)
        event = stream.record()
        assert not replay.done()
        assert not event.query()
        with pytest.raises(vc.KernelTimeoutError):
            replay.result(timeout=0)
        emulator.set("held", 0)
        await replay
        await event
        assert replay.done()
        assert event.query()

    asyncio.run(main())


def test_a_failed_assertion_of_a_replay_comes_out_of_its_await(device: vc.Device) -> None:
    b = vc.Builder("fails", block=1)
    out = b.inout("out", vc.u32)
    b.assert_(out.size > 5, "too small")
    kernel, array = device.compile(b.build()), device.zeros(1, vc.u32)
    with device.record() as graph:
        kernel.launch(array)

    async def main() -> None:
        with pytest.raises(vc.KernelAssertionError, match="too small"):
            await graph.submit()

    asyncio.run(main())
