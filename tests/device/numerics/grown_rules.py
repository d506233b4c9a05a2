"""Instances of rewriting rules on a device against the interpreter, and in how many of them each rule fired.

    python -m tests.device.numerics.grown_rules --device cuda --fired 320 --processes 32 --output grown.json

An instance is the left side of a rule with its own literals, or bounds of operands; a kernel has many. Counted are
`instances`, those in which the rule `fired` (its result is computed, says `vc.rewrites`), and the results of the latter
that were `compared`: each instance has ELEMENTS threads with operands of their own. All results are compared, also
where the rule did not fire. The exit status is 1 if a result differs or a rule fired too seldom.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import vyre_cuda as vc
from tests.unit.terms_rules.grown import ELEMENTS, fired, operands, program
from vyre_cuda.codegen.terms.rules import RULES, Rule
from vyre_cuda.ir.core.types import Type

# Instances of one kernel: more make its compilation longer than in proportion.
IN_A_KERNEL = 64
# A rule that has not fired in the wanted number of instances after so many times as many is reported with what it has.
_MOST_TIMES = 64
# Rules and types whose right side is never computed: an 8- or 16-bit rotation costs more than two shifts and an or.
NEVER = {
    (rule, type_): "a rotation of this width costs more than what it would replace"
    for rule in ("rotated_by_or", "rotated_by_xor", "rotated_by_sum")
    for type_ in ("u8", "u16")
}
# How many instances of those are grown all the same.
_INSTANCES_OF_NEVER = 256


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

    def add(self, grown: vc.Program, met: set[int], found: np.ndarray, expected: np.ndarray, many: int) -> None:
        """What a device and the interpreter gave for a kernel with so many instances."""
        unlike = (found.view(f"u{found.itemsize}") != expected.view(f"u{found.itemsize}")).reshape(-1, many)
        self.instances += many
        self.fired += len(met)
        self.compared += len(met) * len(unlike)
        self.different += int(unlike.sum())
        if unlike.any() and not self.example:
            k = int(np.flatnonzero(unlike.any(axis=0))[0])
            self.example = grown.text().splitlines()[-many:][k]


def compared(
    device: vc.Device, rule: Rule, type_: Type, wanted: int, *, many: int = IN_A_KERNEL, first: int = 0
) -> Row:
    """Kernels are grown until the rule has fired in so many instances."""
    row = Row(rule.name, str(type_))
    most = _INSTANCES_OF_NEVER if (row.rule, row.type) in NEVER else wanted * _MOST_TIMES
    seed = first
    while row.fired < wanted and row.instances < most:
        grown, arrays = program(rule, type_, seed, many), operands(rule, type_, seed)
        row.add(grown, fired(rule, grown), device.compile(grown)(*arrays), vc.evaluate(grown, *arrays), many)
        seed += 1
    return row


def pairs() -> Iterator[tuple[int, Type]]:
    """Every rule, by its place in the table, with each of its types."""
    return ((at, type_) for at, rule in enumerate(RULES) for type_ in rule.types)


_device: vc.Device | None = None


def _row(task: tuple[str, int, Type, int, int]) -> Row:
    """In a process of its own, which keeps its device."""
    global _device
    name, at, type_, wanted, first = task
    if _device is None:
        _device = vc.Device(int(name) if name.isdigit() else name)
    return compared(_device, RULES[at], type_, wanted, first=first)


def table(rows: list[Row]) -> str:
    """The rows as text, and their sums."""
    lines = [f"{'rule':<38}{'type':<6}{'instances':>10}{'fired':>8}{'compared':>10}{'different':>10}"]
    lines += [
        f"{row.rule:<38}{row.type:<6}{row.instances:>10}{row.fired:>8}{row.compared:>10}{row.different:>10}"
        for row in rows
    ]
    sums = [sum(getattr(row, name) for row in rows) for name in ("instances", "fired", "compared", "different")]
    return "\n".join(
        [*lines, f"{'all':<44}" + "".join(f"{n:>{w}}" for n, w in zip(sums, (10, 8, 10, 10), strict=True))]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Instances of rewriting rules against the interpreter.")
    parser.add_argument("--device", default="emulator")
    parser.add_argument("--fired", type=int, default=320, help="in so many instances of each type a rule must fire")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    begin = time.monotonic()
    tasks = [(options.device, at, type_, options.fired, options.seed << 32) for at, type_ in pairs()]
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        rows = pool.map(_row, tasks, chunksize=1)
    print(table(rows))
    for (rule, name), why in NEVER.items():
        print(f"{rule} {name}: {why}")
    few = [row for row in rows if row.fired < options.fired and (row.rule, row.type) not in NEVER]
    for row in rows:
        if row.different:
            print(f"{row.rule} {row.type}: {row.different} results differ, as in {row.example}")
    for row in few:
        print(f"{row.rule} {row.type}: fired in {row.fired} of {row.instances} instances")
    seconds = time.monotonic() - begin
    instances = sum(row.instances for row in rows)
    print(f"{instances} instances of {ELEMENTS} results each, {seconds:.0f} s in {options.processes} processes")
    if options.output is not None:
        report = {"device": options.device, "seed": options.seed, "seconds": round(seconds, 1), "elements": ELEMENTS}
        report["never"] = [{"rule": rule, "type": name, "why": why} for (rule, name), why in NEVER.items()]
        options.output.write_text(json.dumps({**report, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    return int(bool(few) or any(row.different for row in rows))


if __name__ == "__main__":
    os.environ["VYRE_CUDA_CACHE_DIR"] = "off"  # programs come once
    sys.exit(main())
