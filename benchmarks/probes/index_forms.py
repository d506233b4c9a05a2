"""Kernels written with rows and columns beside the same written flat, on 2^28 elements of a GPU.

    python benchmarks/probes/index_forms.py [--turns 40] [--width 16384] [--most-cost N] [--device 0]

Prints the time of each kernel (the least and the median of so many launches, in turns), its elements a thread, and both
times as a ratio to those of the form written by hand. `--most-cost` changes what the elements of a thread may cost
together (`passes.elements`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "machine_code"))
os.environ["VYRE_CUDA_CACHE_DIR"] = "off"

from kernels import KERNELS

import vyre_cuda as vc
from vyre_cuda.passes import elements
from vyre_cuda.passes.pipeline import prepared
from vyre_cuda.runtime.kernel.large_lowering import wide_of


def _cross(flat: bool) -> vc.Program:
    """Three loads and a store to the own element, whose row and column may be those of an empty picture."""
    b = vc.Builder("cross_flat" if flat else "cross")
    x, out, w = b.input("x", vc.f32), b.inout("out", vc.f32), b.scalar("w", vc.u32)
    b.work(x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        if flat:
            out[i] = x[i] * 2 - (x[i + w] + x[i + 1]) * 0.5
        else:
            row, column = b.let("row", i // w), b.let("column", i % w)
            right = x[row * w + column + 1]
            out[row * w + column] = x[row * w + column] * 2 - (x[(row + 1) * w + column] + right) * 0.5
    return b.build()


PROGRAMS = {
    "cross": lambda: _cross(False),
    "cross_by_hand": lambda: _cross(True),
    **{name: KERNELS[name] for name in ("stencil", "stencil_by_hand", "guarded_stencil", "guarded_stencil_by_hand")},
    "bounded_stencil": KERNELS["bounded_stencil"],
    "bounded_stencil_by_hand": KERNELS["guarded_stencil_by_hand"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most-cost", type=int)
    parser.add_argument("--device", default="0")
    parser.add_argument("--width", type=int, default=16384, help="of a square picture")
    parser.add_argument("--turns", type=int, default=40)
    options = parser.parse_args()
    if options.most_cost is not None:
        elements._MOST_COST = options.most_cost
    with vc.Device(int(options.device) if options.device.isdigit() else options.device) as device:
        width = options.width
        x = device.array(np.random.default_rng(0).random(width * width, dtype=np.float32))
        out = device.zeros(x.size, vc.f32)
        calls, count = {}, {}
        for name, make in PROGRAMS.items():
            program = make()
            wide = wide_of(prepared(program))
            count[name] = 1 if wide is None else wide.elements
            given = {p.name: width if p.kind == "scalar" else x if p.kind == "in" else out for p in program.parameters}
            calls[name] = device.compile(program).bind(**given)
        times: dict[str, list[float]] = {name: [] for name in calls}
        for turn in range(options.turns + 3):
            for name, call in calls.items():
                device.synchronize()
                begin = time.perf_counter()
                call()
                device.synchronize()
                if turn >= 3:
                    times[name].append((time.perf_counter() - begin) * 1e3)
        print(f"{'kernel':26}a thread   least ms  median ms  to hand: least median")
        for name, taken in times.items():
            hand = times[name if name.endswith("_by_hand") else f"{name}_by_hand"]
            least, median = min(taken), statistics.median(taken)
            ratios = f"{least / min(hand):14.3f} {median / statistics.median(hand):6.3f}"
            print(f"{name:26}{count[name]:8} {least:10.4f} {median:10.4f} {ratios}")


if __name__ == "__main__":
    main()
