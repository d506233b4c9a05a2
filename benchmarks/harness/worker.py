"""The Python side of a pass: measures the rows it is asked for, in a process of its own, and prints a line for each.

A row whose part of the package is not there is said to be absent; one that fails gives no figure. Neither stops others.
"""

from __future__ import annotations

import argparse
import gc
import json
import os

import vyre_cuda as vc
from harness.counts import FULL, QUICK
from harness.timing import WrongResult, timer_ns
from harness.ways import threads
from harness.ways.base import Bench, Group, NotThere, use_cores
from harness.ways.busy import Busy
from harness.ways.chain import Chain
from harness.ways.clear import Clear
from harness.ways.copies import Copies
from harness.ways.doors import Doors
from harness.ways.large import Large
from harness.ways.pool import Pool
from harness.ways.saxpy import Saxpy

GROUPS: tuple[type[Group], ...] = (Saxpy, Busy, Clear, Chain, Pool, Doors, threads.Scaling, Large, Copies)

# What a call can raise that says something about this row alone.
_FAILURES = (vc.Error, WrongResult, TypeError, ValueError, AttributeError, RuntimeError, OSError, MemoryError)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rows", required=True)
    parser.add_argument("--core", type=int, default=-1)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    wanted = options.rows.split(",")
    everywhere = sorted(os.sched_getaffinity(0))
    with vc.Device(options.device) as device:
        properties = device.properties
        header = {"device": properties.name, "driver_version": properties.driver_version, "timer_ns": timer_ns()}
        print(json.dumps(header), flush=True)
        core = options.core if options.core >= 0 else None
        bench = Bench(device, options.seed, QUICK if options.quick else FULL, core)
        for kind in GROUPS:
            _measure_group(kind, bench, [id for id in kind.ROWS if id in wanted], everywhere)


def _measure_group(kind: type[Group], bench: Bench, ids: list[str], everywhere: list[int]) -> None:
    group: Group | None = None
    for id in ids:
        print(json.dumps({"begin": id}), flush=True)
        try:
            if group is None:
                group = kind(bench)
                use_cores([bench.core] if kind.ONE_CORE and bench.core is not None else [])
            _measure(group, id)
        except NotThere as error:
            print(json.dumps({"id": id, "absent": f"not there: {error}"}), flush=True)
        except _FAILURES as error:
            print(json.dumps({"id": id, "failed": f"{type(error).__name__}: {error}"}), flush=True)
    if bench.core is not None:
        use_cores(everywhere)
    group = None
    gc.collect()


def _measure(group: Group, id: str) -> None:
    if not isinstance(group, threads.Scaling):
        group.measure(id).emit()
        return
    for count in threads.THREADS:
        rate = {"rate": id, "threads": count, "launches_per_second": round(group.rate(count), 1)}
        print(json.dumps(rate), flush=True)


if __name__ == "__main__":
    main()
