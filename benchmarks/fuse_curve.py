"""What deciding which steps are merged takes, over the number of steps: needs no device.

    python benchmarks/fuse_curve.py [--steps N ...] [--kinds KIND ...] [--kernels N ...] [--output DIR]

For each kind of recording and number of steps, the calls of Python functions for each step, which no other work of the
machine changes, and the CPU time. Then, for one kernel of so many steps, the CPU time of deciding and of making its
text; what the driver's compiler takes is not in it. Times are the least of five runs. Writes one JSON file and prints
two tables; some minutes.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import platform
import pstats
import random
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.environment import commit_name

import vyre_cuda as vc
from vyre_cuda.ir.call.geometry import launch_geometry
from vyre_cuda.passes import fuse, tables
from vyre_cuda.passes.floors import floors_of
from vyre_cuda.passes.steps import Span, Step

_SIZE = 64  # elements: two blocks
_LARGE = 4096  # more than a block
_KERNELS = 8


def kernel(number: int, *, backwards: bool) -> vc.Program:
    b = vc.Builder(f"kernel{number}", block=32)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = x[x.size - 1 - i if backwards else i] * float(number)
    return b.build()


OWN = [kernel(number, backwards=False) for number in range(_KERNELS)]
OTHERS = [kernel(number, backwards=True) for number in range(_KERNELS)]


def arrays(count: int, size: int = _SIZE) -> list[Span]:
    return [Span(0, 4 * size * k, (size,)) for k in range(count)]


def step(program: vc.Program, source: Span, to: Span) -> Step:
    geometry = launch_geometry(program, {"x": source.count, "out": to.count}, {})
    return Step(program, {"x": source, "out": to}, {}, geometry)


def alike(count: int) -> Iterator[Step]:
    """Launches of one kernel that do not depend on each other."""
    some = arrays(2 * count)
    return (step(OWN[0], *pair) for pair in zip(some[::2], some[1::2], strict=True))


def alternating(count: int) -> Iterator[Step]:
    """The same of two kernels in turn."""
    some = arrays(2 * count)
    return (step(OWN[k % 2], *pair) for k, pair in enumerate(zip(some[::2], some[1::2], strict=True)))


def chain(count: int) -> Iterator[Step]:
    """Eight kernels, each on what the one before it has written, in two arrays."""
    one, other = arrays(2)
    return (step(OWN[k % _KERNELS], *((one, other) if k % 2 == 0 else (other, one))) for k in range(count))


def onward(count: int) -> Iterator[Step]:
    """The same in arrays of their own."""
    return (step(OWN[k % _KERNELS], *pair) for k, pair in enumerate(pairwise(arrays(count + 1))))


def apart(count: int) -> Iterator[Step]:
    """Steps that read what other threads wrote, of more threads than a block has."""
    one, other = arrays(2, _LARGE)
    return (step(OTHERS[k % _KERNELS], *((one, other) if k % 2 == 0 else (other, one))) for k in range(count))


def branches(count: int) -> Iterator[Step]:
    """Sixteen chains of such steps beside each other."""
    some = arrays(32, _LARGE)
    for k in range(count):
        turn, branch = divmod(k, 16)
        pair = some[branch], some[16 + branch]
        yield step(OTHERS[branch % _KERNELS], *(pair if turn % 2 == 0 else pair[::-1]))


def any_of_all(count: int) -> Iterator[Step]:
    """Any of all kernels on any two of as many arrays as there are steps."""
    rng, some = random.Random(1), arrays(count)
    return (step(rng.choice(OWN + OTHERS), *rng.sample(some, 2)) for _ in range(count))


KINDS: dict[str, Callable[[int], Iterator[Step]]] = {
    each.__name__: each for each in (alike, alternating, chain, onward, apart, branches, any_of_all)
}


def decide(steps: Sequence[Step]) -> int:
    """As `runtime/graph/fusing.py` decides it; how many nodes the steps become."""
    items = [tables.of_launch(each, id(each.program), each.geometry.block) for each in steps]
    order = tables.decide(items, floors_of((9, 0)))
    alone = [steps[unit[0]] if len(unit) == 1 else fuse.Apart("table", "") for unit in order]
    return len(fuse.decide(alone))


def measured(kind: str, count: int) -> dict[str, Any]:
    steps = list(KINDS[kind](count))
    nodes = decide(steps)
    us = 1e3 * least_ms(lambda: decide(steps)) / count
    profile = cProfile.Profile()
    profile.runcall(decide, steps)
    calls = pstats.Stats(profile).total_calls / count  # type: ignore[attr-defined]
    return {"kind": kind, "steps": count, "nodes": nodes, "calls_a_step": calls, "us_a_step": us}


def least_ms(work: Callable[[], object], runs: int = 5) -> float:
    times = []
    for _ in range(runs):
        begin = time.process_time()
        work()
        times.append(1e3 * (time.process_time() - begin))
    return min(times)


def of_one_kernel(kind: str, count: int) -> dict[str, Any]:
    """Milliseconds of deciding that the steps are one kernel, and of its text."""
    steps = list(KINDS[kind](count))
    (group,) = fuse.decide(steps)  # they become one
    program = steps[0].program if group.step is None else group.step.program
    return {
        "kind": kind,
        "steps": count,
        "decide_ms": least_ms(lambda: decide(steps)),
        "text_ms": least_ms(lambda: vc.ptx(program)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--kernels", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64, 128, 250])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    rows = []
    print(f"{'kind':12} {'steps':>7} {'nodes':>7} {'calls a step':>13} {'us a step':>10}")
    for kind in options.kinds:
        measured(kind, min(options.steps))  # makes what is made once
        for count in options.steps:
            rows.append(row := measured(kind, count))
            cost = f"{row['calls_a_step']:13,.0f} {row['us_a_step']:10,.0f}"
            print(f"{kind:12} {count:7,} {row['nodes']:7,} {cost}", flush=True)
    kernels = []
    print(f"{'one kernel':12} {'steps':>7} {'decide ms':>10} {'text ms':>10}")
    for kind in ("chain", "onward"):
        for count in options.kernels:
            kernels.append(row := of_one_kernel(kind, count))
            print(f"{kind:12} {count:7,} {row['decide_ms']:10.1f} {row['text_ms']:10.1f}", flush=True)
    now = datetime.now(timezone.utc)
    result = {
        "benchmark": "fuse-curve",
        "when": now.isoformat(timespec="seconds"),
        "commit": commit_name(),
        "python": platform.python_version(),
        "rows": rows,
        "kernels": kernels,
    }
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"{now:%Y-%m-%dT%H%M%SZ}-fuse-curve.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path}")


if __name__ == "__main__":
    main()
