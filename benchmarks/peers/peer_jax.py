"""JAX: a jitted function on device arrays and on NumPy arrays; every call makes a new result."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from harness.inputs import Floats
from harness.timing import Line, Task, measure_blocks, measure_trips

from peers.common import Run, Way, read_options, report


class Saxpy:
    """The jitted function, every set on the device, and the last result of each."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.function = jax.jit(lambda x, y, a: a * x + y)
        self.sets = [(jnp.asarray(s.x), jnp.asarray(s.y), jnp.float32(s.a)) for s in run.sets]
        self.nothing = np.full(run.elements, np.nan, np.float32)
        self.results: list[Any] = [self.nothing] * len(run.sets)
        jax.block_until_ready([self.function(*arguments) for arguments in self.sets])

    def task(self, id: str) -> Task:
        def read(number: int) -> Floats:
            return np.asarray(self.results[number])

        def poison(number: int) -> None:
            self.results[number] = self.nothing

        return Task(id, self.run.sets, read, poison, exact=False)

    def drain(self) -> None:
        jax.block_until_ready(self.results)

    def enqueue(self, id: str) -> Line:
        function, results = self.function, self.results
        order = [(i, *self.sets[i]) for i in self.run.order]

        def block() -> None:
            for i, x, y, a in order:
                results[i] = function(x, y, a)

        return measure_blocks(self.task(id), block, self.drain, self.run.counts)

    def launch_sync(self, id: str) -> Line:
        function = self.function

        def trip(number: int) -> int:
            x, y, a = self.sets[number]
            begin = perf_counter_ns()
            result = function(x, y, a).block_until_ready()
            elapsed = perf_counter_ns() - begin
            self.results[number] = result
            return elapsed

        return measure_trips(self.task(id), trip, self.run.counts)

    def host(self, id: str) -> Line:
        function = self.function
        scalars = [np.float32(s.a) for s in self.run.sets]

        def trip(number: int) -> int:
            s, a = self.run.sets[number], scalars[number]
            begin = perf_counter_ns()
            result = np.asarray(function(s.x, s.y, a))
            elapsed = perf_counter_ns() - begin
            self.results[number] = result
            return elapsed

        return measure_trips(self.task(id), trip, self.run.counts)

    def large(self, id: str) -> Line:
        sets, function = self.run.large(), jax.jit(lambda x, a: a * x)
        scalars = [np.float32(s.a) for s in sets]
        results: list[Any] = [s.result for s in sets]

        def trip(number: int) -> int:
            s, a = sets[number], scalars[number]
            begin = perf_counter_ns()
            result = np.asarray(function(s.x, a))
            elapsed = perf_counter_ns() - begin
            results[number] = result
            return elapsed

        def poison(number: int) -> None:
            results[number] = sets[number].result

        return measure_trips(Task(id, sets, lambda i: results[i], poison), trip, self.run.counts.long())


if __name__ == "__main__":
    saxpy = Saxpy(read_options())
    report(
        jax.__version__,
        [
            Way("launch_enqueue", "jit", saxpy.enqueue),
            Way("launch_sync", "jit", saxpy.launch_sync),
            Way("host_dispatch", "jit, asarray", saxpy.host),
            Way("large_host", "jit, asarray", saxpy.large),
        ],
    )
