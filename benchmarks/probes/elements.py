"""GB/s of kernels with one element a thread, and of their form for large launches, over sizes and types.

    python benchmarks/probes/elements.py [emulator]

A launch with a given grid has one element a thread. The two take turns; a figure is the median of their launches, the
results of both are compared.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import vyre_cuda as vc

BLOCK = 256
SIZES = (10, 14, 16, 17, 18, 19, 20, 22, 24, 26, 28)
WARM, ROUNDS = 3, 15


def saxpy(type_: vc.Type) -> vc.Program:
    b = vc.Builder("saxpy", block=BLOCK)
    x, y = b.input("x", type_), b.input("y", type_)
    out = b.output("out", type_, size=x.size)
    a = b.scalar("a", type_)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + y[i]
    return b.build()


def copy(type_: vc.Type) -> vc.Program:
    b = vc.Builder("copy", block=BLOCK)
    x = b.input("x", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = x[i]
    return b.build()


def mathematics(type_: vc.Type) -> vc.Program:
    b = vc.Builder("mathematics", block=BLOCK)
    x = b.input("x", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = vc.exp(vc.sin(x[i])) * vc.log(x[i])
    return b.build()


CASES: tuple[tuple[Callable[[vc.Type], vc.Program], vc.Type], ...] = (
    (saxpy, vc.f32),
    (saxpy, vc.f16),
    (saxpy, vc.u8),
    (saxpy, vc.f64),
    (copy, vc.f32),
    (copy, vc.u8),
    (mathematics, vc.f32),
)


def seconds(device: vc.Device, call: Callable[[], None], calls: int) -> float:
    device.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    device.synchronize()
    return (time.perf_counter() - begin) / calls


def measure(device: vc.Device, program: vc.Program, type_: vc.Type, size: int) -> tuple[float, float, int]:
    """Seconds of a launch with one element a thread and with several, and bytes that it moves."""
    drawn = np.random.default_rng(size)
    arrays = [
        device.array((drawn.random(size) * 7 + 1).astype(type_.dtype)) for p in program.parameters if p.kind == "in"
    ]
    scalars = [2] if any(p.kind == "scalar" for p in program.parameters) else []
    kernel = device.compile(program)
    times: dict[bool, list[float]] = {False: [], True: []}
    results = []
    calls = []
    for given in (True, False):
        out = device.zeros(size, type_)
        grid = {"grid": -(-size // BLOCK)} if given else {}
        calls.append(kernel.bind(*arrays, out, *scalars, **grid))
        results.append(out)
    each = 1 if size >= 1 << 24 else 50
    for turn in range(WARM + ROUNDS):
        for several, call in enumerate(calls):
            taken = seconds(device, call, each)
            if turn >= WARM:
                times[bool(several)].append(taken)
    assert results[0].numpy().tobytes() == results[1].numpy().tobytes()
    moved = (len(arrays) + 1) * size * type_.dtype.itemsize
    return statistics.median(times[False]), statistics.median(times[True]), moved


def main() -> None:
    emulated = "emulator" in sys.argv[1:]
    with vc.Device("emulator" if emulated else 0) as device:
        for make, type_ in CASES:
            for power in SIZES[:2] if emulated else SIZES:
                size = 1 << min(power, 27 if type_ is vc.f64 else 28)
                one, several, moved = measure(device, make(type_), type_, size)
                print(
                    f"{make.__name__:12s} {type_!s:4s} {size:10d}"
                    f"  one {one * 1e6:9.2f} us {moved / one / 1e9:6.0f} GB/s"
                    f"  several {several * 1e6:9.2f} us {moved / several / 1e9:6.0f} GB/s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
