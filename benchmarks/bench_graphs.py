"""What graphs gain where steps become one kernel: the same recording with and without, in one run.

    OUT=folder python benchmarks/bench_graphs.py
    python benchmarks/bench_graphs.py --device emulator --quick --output somewhere  # measures nothing

`small`: ten element-wise steps, each on the results of the one before, on arrays of 4 KiB. `large`: four element-wise
steps through temporary arrays, on 2^26 f32. `independent`: 1,024 steps of one kernel on arrays of 4 KiB each, beside
the kernel on all of the bytes at once; and the same with a kernel whose outputs must be cleared. `symbol`: 1,000
dependent steps that use one scalar symbol, with a value of its own for each replay, beside replays without one; `apart`
are steps that cannot become one kernel. Their 99th percentile has a row of its own. `kinds`: 64 independent steps of
eight kernels. `pairs`: 30 times two steps on 4 to 12 KiB, the second on the results of the first, as tables and as a
kernel for each pair. `loop`: a thousand steps of a stencil on 1,024 elements, in a `repeat`. In all but `symbol` and
`independent` both forms replay and synchronize in turn; a figure is the median, in microseconds, of the whole. Results
are compared before. The copy of `large` moves the bytes that it must move. "the driver alone" is a C program that
launches the kernels of the fused graph, with the same parameters, as a graph of its own and waits for it, without
taking turns with another one; that of `symbol` changes the value at each replay. Writes one JSON file and prints the
table, with what each row is to reach. The exit code is 1 where a row misses that.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from harness.replays import times_of_twin
from harness.twins import driver_path
from mathematics.results import write

import vyre_cuda as vc
from vyre_cuda.passes.floors import FLOORS, floors_of
from vyre_cuda.records import replace

SMALL, LARGE = 1 << 10, 1 << 26  # elements
# An H200, replay and synchronize, in microseconds.
SMALL_AIM = 7.0
# Independent steps: of the time of one kernel on all of their bytes, and microseconds more.
STEPS, STEP_SHARE, STEP_MORE = 1024, 1.15, 1.0
KINDS_AIM = 9.0
LOOP_AIM = 380.0
# Of the time of a copy that moves as many bytes, and of the steps as they were recorded.
COPY_SHARE, GAIN = 0.95, 3.8
# Steps with one symbol: microseconds more than without a new value, and the 99th percentile of the median.
SYMBOL_STEPS, SYMBOL_MORE, SYMBOL_TAIL = 1000, 3.0, 1.1


@dataclass(frozen=True)
class Row:
    """Medians in microseconds. `to_reach` is None where nothing is asked."""

    name: str
    nodes: int
    us: float
    to_reach: float | None
    verdict: str

    def line(self) -> str:
        aim = "-" if self.to_reach is None else f"{self.to_reach:.1f} {self.verdict}"
        return f"{self.name:32} {self.nodes:>5} {self.us:10.1f}  {aim}"


def step(place: int) -> vc.Program:
    """z = x * a + place"""
    b = vc.Builder(f"step{place}", block=256)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[i] * a + float(place)
    return b.build()


def chain(
    device: vc.Device, count: int, size: int, *, fuse: bool, temporaries: bool
) -> tuple[vc.Graph, vc.DeviceArray, vc.DeviceArray]:
    """The steps, each on the results of the one before, what the last one writes, and what the first one reads;
    checked."""
    kernels = [device.compile(step(place)) for place in range(count)]
    start = np.resize(np.arange(1000, dtype=np.float32), size)
    x, out = device.array(start), device.zeros(size, vc.f32)
    own = [] if temporaries else [device.zeros(size, vc.f32) for _ in kernels[1:]]
    with device.record(fuse=fuse) as graph:
        between = own or [graph.temporary(size, vc.f32) for _ in kernels[1:]]
        arrays = [x, *between, out]
        for place, kernel in enumerate(kernels):
            kernel.launch(arrays[place], arrays[place + 1], 0.5)
    graph.replay()
    wanted = start[:1000]
    for place in range(count):
        wanted = wanted * np.float32(0.5) + np.float32(place)
    for first in (0, size // 1000 * 500):
        found = out[first : first + 1000].numpy()
        if found.tobytes() != np.roll(wanted, -(first % 1000))[: found.size].tobytes():
            raise ValueError(f"{count} steps, fuse={fuse}: wrong results from element {first} on")
    return graph, out, x


def timed(device: vc.Device, ways: Sequence[Callable[[], None]], rounds: int) -> list[list[float]]:
    """Microseconds of each way with the wait for it; the ways take turns."""
    times: list[list[float]] = [[] for _ in ways]
    for turn in range(rounds + rounds // 5):
        for way, found in zip(ways, times, strict=True):
            begin = time.perf_counter_ns()
            way()
            device.synchronize()
            if turn >= rounds // 5:
                found.append((time.perf_counter_ns() - begin) / 1e3)
    return times


def medians(device: vc.Device, ways: Sequence[Callable[[], None]], rounds: int) -> list[float]:
    """The medians of `timed`."""
    return [statistics.median(found) for found in timed(device, ways, rounds)]


def row(name: str, graph: vc.Graph | None, us: float, aim: float | None, *, judged: bool) -> Row:
    verdict = "" if aim is None or not judged else "met" if us <= aim else "missed"
    found = Row(name, 1 if graph is None else graph.node_count, us, aim, verdict)
    print(found.line(), flush=True)
    return found


def alone(
    device: vc.Device,
    graph: vc.Graph,
    start: Sequence[tuple[vc.DeviceArray, np.ndarray]],
    expected: Sequence[tuple[vc.DeviceArray, np.ndarray]],
    rounds: int,
    values: Mapping[str, float] = MappingProxyType({}),
) -> tuple[float, float]:
    """The median and the 99th percentile of the driver alone on what the fused graph became, from these contents of
    arrays to those, and with these values of symbols; when it is timed, each replay has other values."""
    driver = driver_path(emulator=device.properties.is_emulator)
    contents = {array._alive().address + array.offset: content.tobytes() for array, content in start}
    with tempfile.TemporaryDirectory() as folder:
        return times_of_twin(Path(folder), graph, contents, expected, rounds, driver, values)


def small(device: vc.Device, rounds: int, *, judged: bool) -> list[Row]:
    made = [chain(device, 10, SMALL, fuse=fuse, temporaries=False) for fuse in (False, True)]
    graphs = [graph for graph, _, _ in made]
    plain, fused = medians(device, [graph.replay for graph in graphs], rounds)
    _, out, x = made[1]
    twin, _ = alone(device, graphs[1], [(x, x.numpy())], [(out, out.numpy())], rounds)
    (unturned,) = medians(device, [graphs[1].replay], rounds)
    return [
        row("small, the driver alone", graphs[1], twin, None, judged=judged),
        row("small, fused, without turns", graphs[1], unturned, None, judged=judged),
        row("small, as recorded", graphs[0], plain, None, judged=judged),
        row("small, fused", graphs[1], fused, SMALL_AIM, judged=judged and "H200" in device.properties.name),
    ]


def independent(device: vc.Device, steps: int, rounds: int, *, gaps: bool, judged: bool) -> list[Row]:
    """`gaps`: the kernel writes each second element, so that its outputs are cleared. The graph as recorded is timed
    apart: what is replayed behind a thousand nodes pays for what they leave behind in the host and the GPU."""
    b = vc.Builder("saxpy", block=256)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_((2 * i < z.size) if gaps else (i < z.size)):
        z[2 * i if gaps else i] = x[2 * i if gaps else i] * a + 1.0
    kernel = device.compile(b.build())
    start = np.arange(SMALL, dtype=np.float32)
    wanted = np.where(np.arange(SMALL) % 2 * gaps == 0, start * np.float32(0.5) + np.float32(1), 0).astype(np.float32)
    xs, zs = ([device.array(start) for _ in range(steps)] for _ in range(2))
    graphs = []
    for fuse in (False, True):
        with device.record(fuse=fuse) as graph:
            for one, other in zip(xs, zs, strict=True):
                kernel.launch(one, other, 0.5)
        graph.replay()
        if any(other.numpy().tobytes() != wanted.tobytes() for other in zs):
            raise ValueError(f"{steps} independent steps, fuse={fuse}, gaps={gaps}: wrong results")
        graphs.append(graph)
    whole, result = device.array(np.resize(start, steps * SMALL)), device.zeros(steps * SMALL, vc.f32)
    with device.record() as at_once:
        kernel.launch(whole, result, 0.5)
    graphs.append(at_once)
    (plain,) = medians(device, [graphs[0].replay], max(rounds // 5, 5))
    fused, once = medians(device, [graph.replay for graph in graphs[1:]], rounds)
    name = "independent, cleared" if gaps else "independent"
    return [
        row(f"{name}, as recorded", graphs[0], plain, None, judged=judged),
        row(f"{name}, fused", graphs[1], fused, STEP_SHARE * once + STEP_MORE, judged=judged),
        row(f"{name}, one kernel", graphs[2], once, None, judged=judged),
    ]


def turned() -> vc.Program:
    """z[i] = x[n - 1 - i] * a: no kernel with the step before it, as its blocks read what others wrote"""
    b = vc.Builder("turned", block=256)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[x.size - 1 - i] * a
    return b.build()


def symbol(device: vc.Device, steps: int, rounds: int, *, apart: bool, judged: bool) -> list[Row]:
    """`apart`: the steps stay nodes of their own."""
    kernel = device.compile(turned() if apart else step(0))
    size = 2 * SMALL if apart else SMALL  # in more than one block
    start = np.arange(size, dtype=np.float32)
    graphs = []
    for fuse in (False, True):
        x, z = device.array(start), device.zeros(size, vc.f32)
        with device.record(fuse=fuse) as graph:
            for place in range(steps):
                kernel.launch(*((x, z) if place % 2 == 0 else (z, x)), vc.symbol("a", 1.0))
        for a in (-1.0, 1.0, -1.0):
            graph.replay(a=a)
        wanted = start * np.float32(-1.0) ** (steps % 2)
        found = (x if steps % 2 == 0 else z).numpy()
        if found.tobytes() != (wanted[::-1] if apart and steps % 2 else wanted).tobytes():
            raise ValueError(f"{steps} steps with a symbol, fuse={fuse}, apart={apart}: wrong results")
        graphs.append(graph)
    once = (start[::-1] if apart and steps % 2 else start) * np.float32(-1.0) ** (steps % 2)
    values = itertools.cycle([1.0 + k / 1024 for k in range(64)])
    plain, fused = graphs
    name = "symbol, apart" if apart else "symbol"
    # Not in turns: a replay without a value after one with a value changes the node back.
    (same,) = timed(device, [fused.replay], rounds)
    (changed,) = timed(device, [lambda: fused.replay(a=next(values))], rounds)
    (recorded,) = timed(device, [lambda: plain.replay(a=next(values))], max(rounds // 20, 5))
    median = statistics.median(changed)
    tails = [sorted(found)[len(found) * 99 // 100] for found in (same, changed)]
    aim = statistics.median(same) + SYMBOL_MORE
    outs = [(x if steps % 2 == 0 else z, once)]
    twin, tail = alone(device, fused, [(x, start), (z, 0 * start)], outs, rounds, {"a": -1.0})
    return [
        row(f"{name}, the driver alone", fused, twin, None, judged=judged),
        row(f"{name}, the driver alone, 99 %", fused, tail, None, judged=judged),
        row(f"{name}, as recorded", plain, statistics.median(recorded), None, judged=judged),
        row(f"{name}, fused, no new value", fused, statistics.median(same), None, judged=judged),
        row(f"{name}, fused", fused, median, aim, judged=judged),
        row(f"{name}, no new value, 99 %", fused, tails[0], None, judged=judged),
        row(f"{name}, fused, 99 %", fused, tails[1], SYMBOL_TAIL * median, judged=judged),
    ]


def kinds(device: vc.Device, rounds: int, *, judged: bool) -> list[Row]:
    kernels = [device.compile(step(place)) for place in range(8)]
    start = np.arange(SMALL, dtype=np.float32)
    xs, zs = ([device.array(start) for _ in range(64)] for _ in range(2))
    graphs = []
    for fuse in (False, True):
        with device.record(fuse=fuse) as graph:
            for place, (one, other) in enumerate(zip(xs, zs, strict=True)):
                kernels[place % 8].launch(one, other, 0.5)
        graph.replay()
        for place, other in enumerate(zs):
            if other.numpy().tobytes() != (start * np.float32(0.5) + np.float32(place % 8)).tobytes():
                raise ValueError(f"steps of eight kernels, fuse={fuse}: wrong results in step {place}")
        graphs.append(graph)
    plain, fused = medians(device, [graph.replay for graph in graphs], rounds)
    twin, _ = alone(device, graphs[1], [(x, start) for x in xs], [(z, z.numpy()) for z in zs], rounds)
    return [
        row("eight kernels, the driver alone", graphs[1], twin, None, judged=judged),
        row("eight kernels, as recorded", graphs[0], plain, None, judged=judged),
        row("eight kernels, fused", graphs[1], fused, KINDS_AIM, judged=judged and "H200" in device.properties.name),
    ]


def pairs(device: vc.Device, rounds: int, *, judged: bool) -> list[Row]:
    first, second = (device.compile(step(place)) for place in range(2))
    starts = [np.arange(SMALL * (1 + k % 3), dtype=np.float32) for k in range(30)]
    some = [[device.array(start), *(device.zeros(start.size, vc.f32) for _ in range(2))] for start in starts]
    floors = floors_of(device.properties.compute_capability)
    graphs = []
    for fuse, chains in ((False, floors.chains), (True, len(some)), (True, floors.chains)):
        FLOORS[device.properties.compute_capability] = replace(floors, chains=chains)
        with device.record(fuse=fuse) as graph:
            for x, y, z in some:
                first.launch(x, y, 0.5)
                second.launch(y, z, 0.5)
        graph.replay()
        for (_, _, z), start in zip(some, starts, strict=True):
            if z.numpy().tobytes() != (start * np.float32(0.25) + np.float32(1)).tobytes():
                raise ValueError(f"30 pairs, fuse={fuse}: wrong results")
        graphs.append(graph)
    plain, merged, fused = medians(device, [graph.replay for graph in graphs], rounds)
    return [
        row("30 pairs, as recorded", graphs[0], plain, None, judged=judged),
        row("30 pairs, a kernel each", graphs[1], merged, None, judged=judged),
        row("30 pairs, fused", graphs[2], fused, merged, judged=judged),
    ]


def loop(device: vc.Device, times: int, rounds: int, *, judged: bool) -> list[Row]:
    b = vc.Builder("stencil", block=256)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = (x[(i + x.size - 1) % x.size] + x[(i + 1) % x.size]) * 0.5
    kernel = device.compile(b.build())
    start = np.random.default_rng(0).standard_normal(SMALL, dtype=np.float32)
    wanted = start
    for _ in range(times):
        wanted = (np.roll(wanted, 1) + np.roll(wanted, -1)) * np.float32(0.5)
    graphs = []
    for fuse in (False, True):
        one, other = device.array(start), device.zeros(SMALL, vc.f32)
        with device.record(fuse=fuse) as graph, graph.repeat(times // 2):
            kernel.launch(one, other)
            kernel.launch(other, one)
        graph.replay()
        if one.numpy().tobytes() != wanted.tobytes():
            raise ValueError(f"a loop of {times} steps, fuse={fuse}: wrong results")
        graphs.append(graph)
    plain, fused = medians(device, [graph.replay for graph in graphs], rounds)
    twin, _ = alone(device, graphs[1], [(one, start)], [(one, wanted)], rounds)
    return [
        row("loop, the driver alone", graphs[1], twin, None, judged=judged),
        row("loop, as recorded", graphs[0], plain, None, judged=judged),
        row("loop, fused", graphs[1], fused, LOOP_AIM, judged=judged and "H200" in device.properties.name),
    ]


def large(device: vc.Device, size: int, rounds: int, *, judged: bool) -> list[Row]:
    (plain, *_), (fused, out, _) = (chain(device, 4, size, fuse=fuse, temporaries=True) for fuse in (False, True))
    b = vc.Builder("copy", block=256)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[i]
    copy = device.compile(b.build()).bind(out, device.zeros(size, vc.f32))
    times = medians(device, [plain.replay, fused.replay, copy], rounds)
    return [
        row("large, as recorded", plain, times[0], None, judged=judged),
        row("large, fused", fused, times[1], min(times[0] / GAIN, times[2] / COPY_SHARE), judged=judged),
        row("large, a copy of these bytes", None, times[2], None, judged=judged),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="0", help="ordinal, or emulator")
    parser.add_argument("--quick", action="store_true", help="few rounds and small arrays, and no verdicts")
    parser.add_argument("--output", type=Path, default=Path(os.environ.get("OUT", ".")), help="folder for the result")
    options = parser.parse_args()
    emulated = options.device == "emulator"
    judged = not emulated and not options.quick
    with vc.Device("emulator" if emulated else int(options.device)) as device:
        print(f"{'':32} {'nodes':>5} {'us':>10}  to reach")
        rows = small(device, 2000 if judged else 5, judged=judged)
        rows += large(device, LARGE if judged else 1 << 12, 50 if judged else 5, judged=judged)
        for gaps in (False, True):
            rows += independent(device, STEPS if judged else 20, 500 if judged else 5, gaps=gaps, judged=judged)
        for apart in (False, True):
            count = SYMBOL_STEPS if judged else 20
            rows += symbol(device, count, 2000 if judged else 5, apart=apart, judged=judged)
        rows += kinds(device, 1000 if judged else 5, judged=judged)
        rows += pairs(device, 1000 if judged else 5, judged=judged)
        rows += loop(device, 1000 if judged else 10, 100 if judged else 2, judged=judged)
        content = {"unit": "us", "rows": [asdict(each) for each in rows]}
        print(write(options.output, "graphs", device, emulated, content))
    return int(any(each.verdict == "missed" for each in rows))


if __name__ == "__main__":
    sys.exit(main())
