"""What the rewriting of expressions saves: machine code of programs with it and without it (`as_written.py`).

    python tests/machine_code/rewriting.py [--sets corpus examples algorithms random] [--programs 300] [--seed 0]
        [--ptxas PATH] [--output FILE.json]

Counts instructions without padding, the same with those of loops counted eightfold for each loop around them, and
registers up to the last one that is named. Each kernel is listed for which one of the first two is greater with
rewriting. It needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from as_written import without_rewriting
from disassembly import ARCHITECTURE, CompilerRefused, Kernel, compile_kernels, ptxas_version
from gathered import SETS, Source

from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.errors import UnsupportedError

# How often the body of a loop is taken to run.
_TRIPS = 8
_MOST_NESTED = 4
_REGISTER = re.compile(r"\bR(\d+)\b")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of the machine code of one kernel."""

    instructions: int
    weighted: int
    registers: int


@dataclass(frozen=True, slots=True)
class Compared:
    """One program, and whether its PTX is another one."""

    name: str
    rewritten: Cost
    written: Cost
    differs: bool

    @property
    def is_worse(self) -> bool:
        return (
            self.rewritten.instructions > self.written.instructions or self.rewritten.weighted > self.written.weighted
        )


def cost_of(ptx: str, ptxas: Path | None = None) -> Cost:
    """Of the one kernel of a text."""
    (kernel,) = compile_kernels(ptx, ptxas).values()
    depth = _depths(kernel)
    real = [at for at, instruction in enumerate(kernel.instructions) if instruction.opcode != "NOP"]
    weighted = sum(_TRIPS ** min(depth[at], _MOST_NESTED) for at in real)
    named = (int(number) for instruction in kernel.instructions for number in _REGISTER.findall(instruction.text))
    return Cost(len(real), weighted, max(named, default=0) + 1)


def _depths(kernel: Kernel) -> list[int]:
    """How many loops are around each instruction, by branches that go back."""
    depth = [0] * len(kernel.instructions)
    last: dict[int, int] = {}  # the end of each loop by its begin
    for at, instruction in enumerate(kernel.instructions):
        for operand in instruction.operands:
            begin = kernel.labels.get(operand.name) if operand.kind == "label" else None
            if begin is not None and begin < at:
                last[begin] = at
    for begin, end in last.items():
        for at in range(begin, end + 1):
            depth[at] += 1
    return depth


def compared(source: Source, ptxas: Path | None = None) -> Compared:
    """The program with rewriting and without."""
    rewritten = _text(source)
    with without_rewriting():
        written = _text(source)
    cost = cost_of(rewritten, ptxas)
    return Compared(source.name, cost, cost if written == rewritten else cost_of(written, ptxas), written != rewritten)


def _text(source: Source) -> str:
    options: dict[str, Any] = {"precision": source.precision, "bounds": source.bounds, "max_ulp": source.max_ulp}
    return lower(source.program, Target.parse(ARCHITECTURE), **options).ptx


def summary(name: str, rows: list[Compared]) -> str:
    """How many kernels of a set differ, and all together."""
    other = [row for row in rows if row.differs]
    better = [row for row in other if not row.is_worse and row.rewritten != row.written]
    lines = [
        f"{name}: {len(rows)} kernels, {len(other)} with another text,"
        f" {len(better)} better, {sum(row.is_worse for row in rows)} worse"
    ]
    for field in ("instructions", "weighted", "registers"):
        sums = [
            sum(getattr(cost, field) for cost in costs)
            for costs in ([r.rewritten for r in rows], [r.written for r in rows])
        ]
        lines.append(f"  {field:13}{sums[0]:10,} with, {sums[1]:10,} without, {sums[0] / sums[1] - 1:+.2%}")
    return "\n".join(lines)


def main() -> int:
    """Command line; the exit status is 1 where a kernel is worse."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--programs", type=int, default=300, help="how many random ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ptxas", type=Path)
    parser.add_argument("--output", type=Path, help="a file for all rows")
    options = parser.parse_args()
    found: dict[str, list[Compared]] = {}
    for name in options.sets:
        rows = found[name] = []
        for source in SETS[name](options.programs, options.seed):
            try:
                row = compared(source, options.ptxas)
            except (CompilerRefused, UnsupportedError) as error:
                print(f"  {source.name}: {str(error).splitlines()[0]}")
                continue
            rows.append(row)
            if row.is_worse:
                print(f"  {row.name}: {_told(row.rewritten)} with, {_told(row.written)} without", flush=True)
        print(summary(name, rows), flush=True)
    if options.output is not None:
        document = {
            "schema": 1,
            "date": time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime()),
            "ptxas": ptxas_version(options.ptxas),
            "architecture": ARCHITECTURE,
            "seed": options.seed,
            "sets": {name: [asdict(row) for row in rows] for name, rows in found.items()},
        }
        options.output.write_text(json.dumps(document) + "\n", encoding="utf-8")
    return int(any(row.is_worse for rows in found.values() for row in rows))


def _told(cost: Cost) -> str:
    return f"{cost.instructions} ({cost.weighted}, {cost.registers} registers)"


if __name__ == "__main__":
    os.environ["VYRE_CUDA_CACHE_DIR"] = "off"
    sys.exit(main())
