"""Where the time of an awaited call goes: the distribution of each way to wait for the same saxpy of 3 x 4 KiB.

    awaiting.py [DEVICE] [CALLS] [DELAY_US]

`blocking` is submit and result(), `awaited` await, `looked` one look in each turn of the loop without the package's
limit, `waiter` the way through the waiter's thread alone, of which `waiter_seen` is the time until its thread saw the
end and `loop_resumed` the rest. One line of JSON each, in microseconds. DELAY_US: how long a run takes on the emulator.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Awaitable, Callable
from time import perf_counter_ns

import numpy as np

import vyre_cuda as vc
from vyre_cuda.runtime.waiting.completion_thread import Waiting
from vyre_cuda.testing.emulator import Emulator

ELEMENTS = 1024


def saxpy() -> vc.Program:
    b = vc.Builder("saxpy")
    x, y = b.input("x", vc.f32), b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + y[i]
    return b.build()


class Ways:
    """Each way gives nanoseconds of one call by name."""

    def __init__(self, device: vc.Device) -> None:
        self.device = device
        self.kernel = device.compile(saxpy())
        self.x = np.arange(ELEMENTS, dtype=np.float32)
        self.out = np.empty_like(self.x)

    def submit(self) -> vc.Pending:
        return self.kernel.submit(self.x, self.x, 2.0, out=self.out)

    async def blocking(self) -> dict[str, int]:
        begin = perf_counter_ns()
        self.submit().result()
        return {"blocking": perf_counter_ns() - begin}

    async def awaited(self) -> dict[str, int]:
        begin = perf_counter_ns()
        await self.submit()
        return {"awaited": perf_counter_ns() - begin}

    async def looked(self) -> dict[str, int]:
        begin, looks = perf_counter_ns(), 1
        pending = self.submit()
        while not pending.done():
            looks += 1
            await asyncio.sleep(0)
        pending.result()
        return {"looked": perf_counter_ns() - begin, "looks": 1000 * looks}

    async def by_the_waiter(self) -> dict[str, int]:
        loop, seen = asyncio.get_running_loop(), 0
        reached = loop.create_future()

        def wake() -> None:
            nonlocal seen
            seen = perf_counter_ns()
            loop.call_soon_threadsafe(reached.set_result, None)

        begin = perf_counter_ns()
        pending = self.submit()
        self.device.waiter.add(Waiting(pending._ticket, wake))
        await reached
        pending.result()
        end = perf_counter_ns()
        return {"waiter": end - begin, "waiter_seen": seen - begin, "loop_resumed": end - seen}


async def measure(way: Callable[[], Awaitable[dict[str, int]]], calls: int) -> None:
    times: dict[str, list[int]] = {}
    for number in range(calls + calls // 10):
        for name, nanoseconds in (await way()).items():
            if number >= calls // 10:
                times.setdefault(name, []).append(nanoseconds)
    for name, values in times.items():
        values.sort()
        figures = {
            f"p{p}_us": values[min(int(len(values) * p / 100), len(values) - 1)] / 1e3 for p in (50, 90, 99, 99.9)
        }
        print(json.dumps({"id": name, "n": len(values), **figures, "max_us": values[-1] / 1e3}), flush=True)


def main(where: str = "cuda", calls: str = "10000", delay_us: str = "0") -> None:
    with vc.Device(where) as device:
        if device.properties.is_emulator:
            Emulator().set("delay_us", int(delay_us))
        ways = Ways(device)
        gc.disable()
        for way in (ways.blocking, ways.awaited, ways.looked, ways.by_the_waiter):
            asyncio.run(measure(way, int(calls)))
        if not np.array_equal(ways.out, 3 * ways.x):
            raise SystemExit("a wrong result")


if __name__ == "__main__":
    main(*sys.argv[1:])
