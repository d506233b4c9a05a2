"""What the steps of a graph take on this machine, beside the table by which graphs are fused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

import vyre_cuda as vc
from vyre_cuda.cli.findings import Finding
from vyre_cuda.cli.timing import measure
from vyre_cuda.passes.floors import floors_of
from vyre_cuda.runtime.graph.fusing import is_off

_ELEMENTS = 256  # a block
_FEW, _MANY = 8, 72  # nodes
_SHORT, _LONG = 50, 250  # passes of a loop, of two steps each
_APART = 1.5  # times as much, or as little, as the table has
_NAMES = {
    "chained": "a node that needs the one before",
    "beside": "a node beside others",
    "barrier": "a step within a block",
}


def measured(device: vc.Device, repeats: int) -> dict[str, float]:
    """Microseconds of a step more, by the names of `Floors`."""
    kernel = device.compile(_reversing())
    x, z = (device.array(np.ones(_ELEMENTS, np.float32)) for _ in range(2))
    own = [device.zeros(_ELEMENTS, vc.f32) for _ in range(_MANY)]

    def chain(count: int) -> vc.Graph:
        with device.record() as graph:
            for place in range(count):
                kernel.launch(*((z, x) if place % 2 else (x, z)))
        return graph

    def beside(count: int) -> vc.Graph:
        with device.record() as graph:
            for out in own[:count]:
                kernel.launch(x, out)
        return graph

    def loop(passes: int) -> vc.Graph:
        with device.record(fuse=True) as graph, graph.repeat(passes):
            kernel.launch(x, z)
            kernel.launch(z, x)
        return graph

    found = {
        "chained": _of_one(device, chain, _FEW, _MANY, repeats),
        "beside": _of_one(device, beside, _FEW, _MANY, repeats),
    }
    if not is_off():
        found["barrier"] = _of_one(device, loop, _SHORT, _LONG, repeats) / 2
    return found


def _of_one(device: vc.Device, make: Callable[[int], vc.Graph], few: int, many: int, repeats: int) -> float:
    """Microseconds: of the medians of few and of many, the difference for each more."""
    times = []
    for count in (few, many):
        graph = make(count)

        def act(graph: vc.Graph = graph) -> None:
            graph.replay()
            device.synchronize()

        times.append(measure(act, repeats=repeats, warmups=max(3, repeats // 10)).median_ns)
    return (times[1] - times[0]) / 1e3 / (many - few)


def _reversing() -> vc.Program:
    """z[i] = x[n - 1 - i], which no thread can do with the step before by itself"""
    b = vc.Builder("reverse", block=_ELEMENTS)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[x.size - 1 - i]
    return b.build()


def judged(compute_capability: tuple[int, int], found: Mapping[str, float]) -> Iterator[Finding]:
    """Where a machine with these figures differs from the table."""
    table = floors_of(compute_capability)
    far = [name for name in found if not 1 / _APART <= found[name] / getattr(table, name) <= _APART]
    for name in far:
        text = f"{_NAMES[name]} takes {found[name]:.2f} us; graphs are fused as if it took {getattr(table, name):.2f}"
        yield Finding("fusing", "note", text, "compare a graph with VYRE_CUDA_FUSE=off")
    if not far:
        said = ", ".join(f"{_NAMES[name]} {found[name]:.2f} us" for name in found)
        yield Finding("fusing", "ok", f"steps of graphs take about as long as fusing assumes: {said}")
