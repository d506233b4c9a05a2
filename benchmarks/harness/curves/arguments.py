"""Kernels of more and more arguments, by every door."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import vyre_cuda as vc
from harness.curves.base import Bench, Measure, check
from harness.curves.programs import ELEMENTS, loaded_sum, sum_of
from harness.curves.table import MOST_PARAMETERS


class _Sum:
    """A kernel that adds so many inputs and scalars: its arguments twice, on the host and on the device."""

    def __init__(self, bench: Bench, inputs: int, scalars: int) -> None:
        self.bench, self.device, self.clock = bench, bench.device, bench.clock
        self.kernel = self.device.compile(sum_of(inputs, scalars))
        self.host = [np.full(ELEMENTS, i % 7, np.float32) for i in range(inputs)]
        self.other = [array + np.float32(1) for array in self.host]
        self.scalars = tuple(float(i % 5) for i in range(scalars))
        self.expected = np.float32(sum(i % 7 for i in range(inputs)) + sum(self.scalars))
        self.arrays = [self.device.array(array) for array in self.host]
        self.others = [self.device.array(array) for array in self.other]
        self.out = self.device.empty(ELEMENTS, vc.f32)

    @property
    def arguments(self) -> tuple[Any, ...]:
        return (*self.arrays, self.out, *self.scalars)

    def enqueue(self, way: str, call: Callable[[], object]) -> list[float]:
        """Of a launch into `out`."""
        times = self.clock.repeat(call, self.device.synchronize)
        self.out.fill(np.nan)
        call()
        check(way, set(self.out.numpy().tolist()), {float(self.expected)})
        return times

    def round_trip(self, way: str, call: Callable[[], Any]) -> list[float]:
        """Of a call that returns the result."""
        times = self.clock.trips(call)
        check(way, set(call().tolist()), {float(self.expected)})
        return times

    def launch(self) -> list[float]:
        launch, arguments = self.kernel.launch, self.arguments
        return self.enqueue("launch", lambda: launch(*arguments))

    def call(self) -> list[float]:
        return self.enqueue("call", self.kernel.bind(*self.arguments))

    def call_changed(self) -> list[float]:
        call = self.kernel.bind(*self.arguments)
        ones = (*self.others, self.out, *(value + 1 for value in self.scalars))
        turns = [self.arguments, ones]

        def block(n: int) -> None:
            for number in range(n):
                call(*turns[number & 1])

        times = self.clock.blocks(block, self.device.synchronize)
        self.out.fill(np.nan)
        call(*ones)
        call(*self.arguments)
        check("call_changed", set(self.out.numpy().tolist()), {float(self.expected)})
        return times

    def on_host(self) -> list[float]:
        kernel, arguments = self.kernel, (*self.host, *self.scalars)
        return self.round_trip("host", lambda: kernel(*arguments))

    def submit(self) -> list[float]:
        submit, arguments = self.kernel.submit, (*self.host, *self.scalars)
        return self.round_trip("submit", lambda: submit(*arguments).result())

    def recorded(self) -> list[float]:
        arguments = (*self.host, *self.scalars)
        replay = self.kernel.record(*arguments).replay
        return self.round_trip("recorded", lambda: replay(*arguments))

    def measures(self) -> Iterator[Measure]:
        yield "launch", self.launch
        yield "call", self.call
        yield "call_changed", self.call_changed
        yield "host", self.on_host
        yield "submit", self.submit
        yield "recorded", self.recorded


def _loaded(bench: Bench, words: list[str]) -> list[float]:
    """A launch of a loaded kernel with a pointer and these, each of which adds 1."""
    device = bench.device
    kernel = device.load(loaded_sum(words), "loaded_sum", signature=" ".join(["ptr", *words]))
    one, out = device.array(np.ones(1, np.float32)), device.empty(1, vc.f32)
    arguments = (out, *(one if word == "const_ptr" else 1.0 for word in words))

    def call() -> None:
        kernel.launch(*arguments, grid=1, block=1)

    times = bench.clock.repeat(call, device.synchronize)
    out.fill(np.nan)
    call()
    check("loaded", float(out.numpy()[0]), float(len(words)))
    return times


def buffers(bench: Bench, items: int) -> Iterator[Measure]:
    """So many inputs."""
    yield from _Sum(bench, items, 0).measures()
    yield "loaded", lambda: _loaded(bench, ["const_ptr"] * items)


def scalars(bench: Bench, items: int) -> Iterator[Measure]:
    """So many scalars beside an input and a result; above what a program may have, loaded kernels alone."""
    if items + 2 <= MOST_PARAMETERS:
        yield from _Sum(bench, 1, items).measures()
    yield "loaded", lambda: _loaded(bench, ["f32"] * items)
