"""Instances of rewriting rules on a device against the interpreter, and in how many of them each rule fired.

    python -m tests.device.numerics.grown_rules --device cuda --fired 320 --processes 32 --output grown.json
    python -m tests.device.numerics.grown_rules --fired 10000 --seconds 60 --add grown.json --output more.json

An instance is the left side of a rule with its own literals, or bounds of operands; a kernel has many. Counted are
`instances`, those in which the rule `fired` (its result is computed in the kernel that ran, and no other rule gives the
same), how many of the latter are `distinct`, and their results that were `compared`: each instance has ELEMENTS threads
with operands of their own. All results are compared, also where the rule did not fire.

The rule and type with the fewest distinct instances has the next turn, of a few kernels, until each has fired in the
wanted number of them or the time is over; the ten least are shown again behind the table. A run that adds to a file
goes on where that one ended: at its `next` seeds, with what it counted, and with the digests of its instances, which
are beside it in a file that ends in .npz. The exit status is 1 if a result differs, or if a rule fired too seldom and
there was time enough.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

import vyre_cuda as vc
from tests.support.watched.child import end_with_parent
from tests.unit.terms_rules.grown import ELEMENTS, fired, operands, program
from tests.unit.terms_rules.watched import while_lowered
from vyre_cuda.codegen.terms.rules import RULES, Rule
from vyre_cuda.ir.core.types import Type

# Instances of one kernel: more make its compilation longer than in proportion.
IN_A_KERNEL = 64
# A rule that has not fired in the wanted number of instances after so many times as many is reported with what it has.
_MOST_TIMES = 64
# How many kernels a rule and type have in a turn.
_IN_A_TURN = 4
# How many of those that fired least are shown apart.
_LEAST = 10


@dataclass
class Row:
    """One rule and type."""

    rule: str
    type: str
    instances: int = 0
    fired: int = 0
    compared: int = 0
    different: int = 0
    example: str = ""
    next: int = 0  # the seed of the next kernel
    distinct: int = 0

    def add(self, grown: vc.Program, met: set[int], found: np.ndarray, expected: np.ndarray, many: int) -> set[int]:
        """What a device and the interpreter gave for a kernel with so many instances; digests of those that fired."""
        unlike = (found.view(f"u{found.itemsize}") != expected.view(f"u{found.itemsize}")).reshape(many, -1)
        self.instances += many
        self.fired += len(met)
        self.compared += len(met) * unlike.shape[1]
        self.different += int(unlike.sum())
        if unlike.any() and not self.example:
            k = int(np.flatnonzero(unlike.any(axis=1))[0])
            self.example = grown.text().splitlines()[-many:][k]
        return {_digest(expr) for expr in _stored(grown, met)}

    def join(self, other: Row) -> None:
        """Count what another run of the same rule and type counted; what is distinct is counted by digests."""
        for name in ("instances", "fired", "compared", "different"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.example = self.example or other.example
        self.next = max(self.next, other.next)


def _stored(grown: vc.Program, met: set[int]) -> list[str]:
    """What those instances store, without the place."""
    lines = grown.text().splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("let i")) + 1
    return [lines[first + k].split("], ", 1)[1] for k in met]


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def compared(
    device: vc.Device, rule: Rule, type_: Type, wanted: int, *, many: int = IN_A_KERNEL, first: int = 0
) -> Row:
    """Kernels are grown until the rule has fired in so many instances."""
    row = Row(rule.name, str(type_))
    seed = first
    while row.fired < wanted and row.instances < wanted * _MOST_TIMES:
        grown, arrays = program(rule, type_, seed, many), operands(rule, type_, seed)
        row.add(grown, fired(rule, grown), device.compile(grown)(*arrays), vc.evaluate(grown, *arrays), many)
        seed += 1
    return row


def some_kernels(device: vc.Device, rule: Rule, type_: Type, first: int, count: int) -> tuple[Row, set[int]]:
    """So many kernels from a seed on, and the digests of the instances in which the rule fired."""
    row, digests = Row(rule.name, str(type_), next=first + count), set[int]()
    for seed in range(first, first + count):
        grown, arrays = program(rule, type_, seed, IN_A_KERNEL), operands(rule, type_, seed)
        kernel, met = while_lowered(rule.name, partial(device.compile, grown))
        found, expected = kernel(*arrays), vc.evaluate(grown, *arrays)
        digests |= row.add(grown, {statement - 1 for statement in met}, found, expected, IN_A_KERNEL)
    return row, digests


def pairs() -> Iterator[tuple[int, Type]]:
    """Every rule, by its place in the table, with each of its types."""
    return ((at, type_) for at, rule in enumerate(RULES) for type_ in rule.types)


_device: vc.Device | None = None


def _turn(name: str, at: int, type_: Type, first: int, count: int) -> tuple[Row, set[int]]:
    """In a process of its own, which keeps its device."""
    global _device
    if _device is None:
        _device = vc.Device(int(name) if name.isdigit() else name)
    return some_kernels(_device, RULES[at], type_, first, count)


class Run:
    """The counts of all rules and types, and the digests of what fired."""

    def __init__(self, seed: int, before: Path | None = None) -> None:
        self.rows = {(RULES[at].name, str(t)): Row(RULES[at].name, str(t), next=seed << 32) for at, t in pairs()}
        self.digests: dict[tuple[str, str], set[int]] = {key: set() for key in self.rows}
        self.seconds = 0.0
        if before is not None:
            told = json.loads(before.read_text())
            self.seconds = told["seconds"]
            for each in told["rows"]:
                row = Row(**each)
                if (row.rule, row.type) in self.rows:  # the table still has it
                    self.rows[row.rule, row.type] = row
            with np.load(before.with_suffix(".npz")) as digests:
                self.digests = {key: set(digests[" ".join(key)].tolist()) for key in self.rows}

    def add(self, row: Row, digests: set[int]) -> None:
        key = row.rule, row.type
        self.rows[key].join(row)
        self.digests[key] |= digests
        self.rows[key].distinct = len(self.digests[key])

    def is_done(self, key: tuple[str, str], wanted: int) -> bool:
        row = self.rows[key]
        return row.distinct >= wanted or row.instances >= wanted * _MOST_TIMES

    def grow(self, device: str, wanted: int, processes: int, seconds: float) -> None:
        """Let the rule and type with the fewest distinct instances have the next turn until all are done, or for so
        long.
        """
        begin = time.monotonic()
        waiting = {(RULES[at].name, str(type_)): (at, type_) for at, type_ in pairs()}
        working: set[Future[tuple[Row, set[int]]]] = set()
        ahead: Counter[tuple[str, str]] = Counter()  # instances of the turns that are not over
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, spawn, end_with_parent, (os.getpid(),)) as pool:
            while True:
                while len(working) < 2 * processes and time.monotonic() - begin < seconds:
                    waiting = {key: of for key, of in waiting.items() if not self.is_done(key, wanted)}
                    if not waiting:
                        break
                    key = min(waiting, key=lambda key: self.rows[key].distinct + ahead[key])
                    row = self.rows[key]
                    working.add(pool.submit(_turn, device, *waiting[key], row.next, _IN_A_TURN))
                    row.next += _IN_A_TURN
                    ahead[key] += _IN_A_TURN * IN_A_KERNEL
                if not working:
                    break
                done, working = wait(working, return_when=FIRST_COMPLETED)
                for each in done:
                    turn, digests = each.result()
                    self.add(turn, digests)
                    ahead[turn.rule, turn.type] -= _IN_A_TURN * IN_A_KERNEL
        self.seconds += time.monotonic() - begin

    def write(self, output: Path, device: str, seed: int) -> None:
        report = {"device": device, "seed": seed, "seconds": round(self.seconds, 1), "elements": ELEMENTS}
        rows = [asdict(row) for row in self.rows.values()]
        output.write_text(json.dumps({**report, "rows": rows}, indent=1) + "\n")
        arrays = {" ".join(key): np.array(sorted(found), np.uint64) for key, found in self.digests.items()}
        np.savez(output.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]


def table(rows: list[Row]) -> str:
    """The rows as text, and their sums."""
    counts = ("instances", "fired", "distinct", "compared", "different")
    lines = [f"{'rule':<38}{'type':<6}" + "".join(f"{name:>11}" for name in counts)]
    lines += [f"{row.rule:<38}{row.type:<6}" + "".join(f"{getattr(row, n):>11}" for n in counts) for row in rows]
    sums = [sum(getattr(row, name) for row in rows) for name in counts]
    return "\n".join([*lines, f"{'all':<44}" + "".join(f"{n:>11}" for n in sums)])


def main() -> int:
    parser = argparse.ArgumentParser(description="Instances of rewriting rules against the interpreter.")
    parser.add_argument("--device", default="emulator")
    parser.add_argument("--fired", type=int, default=320, help="in so many distinct instances each rule and type fires")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no kernel begins after so long")
    parser.add_argument("--add", type=Path, help="the output of a run to go on from")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    run = Run(options.seed, options.add)
    run.grow(options.device, options.fired, options.processes, options.seconds)
    rows = list(run.rows.values())
    print(table(rows))
    print("\nthe least:\n" + table(sorted(rows, key=lambda row: row.distinct)[:_LEAST]) + "\n")
    few = [row for row in rows if row.distinct < options.fired]
    for row in rows:
        if row.different:
            print(f"{row.rule} {row.type}: {row.different} results differ, as in {row.example}")
    for row in few:
        print(f"{row.rule} {row.type}: fired in {row.distinct} distinct ones of {row.instances} instances")
    instances = sum(row.instances for row in rows)
    print(f"{instances} instances of {ELEMENTS} results each, {run.seconds:.0f} s")
    if options.output is not None:
        run.write(options.output, options.device, options.seed)
    is_short = any(run.is_done((row.rule, row.type), options.fired) for row in few)
    return int(is_short or any(row.different for row in rows))


if __name__ == "__main__":
    os.environ["VYRE_CUDA_CACHE_DIR"] = "off"  # programs come once
    sys.exit(main())
