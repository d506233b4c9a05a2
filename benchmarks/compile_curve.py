"""Passes and lowering over the number of ops, by type, of this tree and of another one.

    python benchmarks/compile_curve.py [--before SRC] [--types TYPE ...] [--output DIR] [--repeats N] [--quick|--times]

For each type and mix of `bench_offline.py` and from 50 to 4,000 ops: the least CPU time of so many runs, and the lines
of Python that one run takes, which no other work of the machine changes (not for 4,000 ops: it takes minutes). With
`--times` only the times of 200 and 4,000 ops, and what an op of the latter takes in those of the former: half a minute.
With `--before` the same of the package in another tree's `src`, each type in turns with this one, as machines are not
equally fast all the time. Writes one JSON file and prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from bench_offline import OPS, chain, least_ms, mixed, with_xor
from harness.environment import commit_name

import vyre_cuda as vc
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.ir.core.types import INTEGERS, NUMBERS
from vyre_cuda.passes.pipeline import prepared

MAKERS: dict[str, Callable[[int], vc.Program]] = {
    **{str(type_): partial(chain, type_=type_) for type_ in NUMBERS},
    **{f"{type_} with xor": partial(with_xor, type_=type_) for type_ in INTEGERS},
    "mixed": mixed,
}
_MOST_TRACED = 1000
_FEW, _MANY = 200, 4000  # ops, where only times are asked for


def lines_of(action: Callable[[], Any]) -> int:
    """How many lines of Python run."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(None)
    return count


def measured(name: str, sizes: tuple[int, ...], repeats: int, most_traced: int) -> dict[str, dict[str, float]]:
    """Milliseconds and, of up to so many ops, lines of one type, by the number of ops."""
    target = Target.parse("sm_90")
    found = {}
    for ops in sizes:
        program = MAKERS[name](ops)

        def action(program: vc.Program = program) -> None:
            lower(prepared(program), target)

        action()  # imports and tables
        found[str(ops)] = {"ms": least_ms(action, max(repeats * 200 // ops, 3))}
        if ops <= most_traced:
            found[str(ops)]["lines"] = lines_of(action)
    return found


def in_a_process(name: str, source: Path | None, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The same in a process of its own, with the package of that tree."""
    command = [sys.executable, __file__, "--only", name, "--repeats", str(options.repeats)]
    command += [f"--{word}" for word in ("quick", "times") if getattr(options, word)]
    environment = dict(os.environ) if source is None else {**os.environ, "PYTHONPATH": str(source)}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, dict[str, float]] = json.loads(run.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the src of another tree")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--repeats", type=int, default=45, help="of 200 ops; in proportion of others")
    parser.add_argument("--quick", action="store_true", help="up to 200 ops, to see that it works")
    parser.add_argument("--times", action="store_true", help="of 200 and 4,000 ops, without lines")
    parser.add_argument("--types", nargs="+", choices=MAKERS, default=list(MAKERS), help="of those that are measured")
    parser.add_argument("--only", choices=MAKERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        sizes = (_FEW, _MANY) if options.times else OPS[:2] if options.quick else OPS
        traced = 0 if options.times else _MOST_TRACED
        print(json.dumps(measured(options.only, sizes, options.repeats, traced)))
        return
    trees = {"this": None} | ({"before": options.before} if options.before else {})
    figures: dict[str, dict[str, Any]] = {tree: {} for tree in trees}
    for name in options.types:
        for tree, source in trees.items():
            found = figures[tree][name] = in_a_process(name, source, options)
            row = "".join(f"{of['ms']:10.2f} ms {of.get('lines', ''):>8}" for of in found.values())
            if options.times:
                row += f"{found[str(_MANY)]['ms'] / found[str(_FEW)]['ms'] * _FEW / _MANY:8.2f} an op"
            print(f"{name:14} {tree:7}{row}", flush=True)
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H%M%SZ")
    document = {"schema": 1, "date": now, "commit": commit_name(), "python": platform.python_version()}
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"{now}-offline-compile-curve.json"
    path.write_text(json.dumps({**document, "figures": figures}, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path}")


if __name__ == "__main__":
    main()
