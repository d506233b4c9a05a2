"""Executes the machine code that ptxas makes of random programs, and compares with the reference interpreter.

    python tests/machine_code/check.py --programs 100000 --seed 7 --ptxas PATH --processes 4 --output DIR

`--generator independent` takes the straight programs of tests/independent instead of those of random_programs.py.
It needs no GPU: ptxas and nvdisasm (the wheels nvidia-cuda-nvcc and nvidia-cuda-nvdisasm) are enough. Each
difference is written to DIR as program, PTX, machine code and what differs; `--reduce` cuts them down first. The seed
and the number of a batch give its programs again. The exit status is 1 when something differs.
"""

from __future__ import annotations

import argparse
import functools
import os
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from comparison import DIFFERENT, NOT_EXECUTED, Verdict, compare
from disassembly import CompilerRefused
from random_programs import ELEMENTS, draw_program
from reduction import reduced

BATCH = 300
OWN, INDEPENDENT = "own", "independent"
# Ops of subroutines and approximations that the machine does not know.
_UNKNOWN = ("divide", "remainder", "fmod", "sqrt")
# How many elements the arrays have that programs of a generator read.
_ELEMENTS = {OWN: ELEMENTS, INDEPENDENT: 4}
_REDUCTION_INPUTS = 40
_PROGRESS_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Job:
    """A batch of programs, and with what it is compiled."""

    seed: int
    number: int
    programs: int
    ptxas: Path | None
    nvdisasm: Path | None
    reduce: bool = False
    generator: str = OWN


@dataclass(slots=True)
class Findings:
    """What batches have shown."""

    programs: int = 0
    executed: int = 0
    different: list[tuple[str, Verdict]] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, other: Findings) -> None:
        """Take in what another batch has shown."""
        self.programs += other.programs
        self.executed += other.executed
        self.different += other.different
        self.unknown += other.unknown

    def summary(self) -> str:
        """Counts, and what was not known, the most frequent first."""
        share = self.executed / max(self.programs, 1)
        lines = [f"{self.programs:,} programs, {share:.1%} executed, {len(self.different)} differ"]
        lines += [f"  not executed: {count} {reason}" for reason, count in self.unknown.most_common(20)]
        return "\n".join(lines)


def run(job: Job) -> Findings:
    """Draw and compare one batch."""
    rng = random.Random(f"{job.seed} {job.number}")
    draw = draw_program if job.generator == OWN else _independent_program
    texts = [draw(rng, f"t{place}") for place in range(job.programs)]
    ask = _asking(job)
    findings = Findings(programs=len(texts))
    for place, verdict in enumerate(ask(texts, job.seed)):
        if verdict.state == NOT_EXECUTED:
            findings.unknown[verdict.reason] += 1
            continue
        findings.executed += 1
        if verdict.state == DIFFERENT:
            shown = _cut_down(verdict, job) if job.reduce else verdict
            findings.different.append((f"{job.seed}-{job.number}-{place}", shown))
    return findings


def _independent_program(rng: random.Random, name: str) -> str:
    sys.path.insert(0, str(Path(__file__).parent.parent / "independent"))
    from draw_folding import draw_folding
    from program_text import program_text

    while True:
        program = draw_folding(rng)
        program.name = name
        text = program_text(program)
        if not any(op in text for op in _UNKNOWN):
            return text


def _asking(job: Job) -> Callable[..., list[Verdict]]:
    return functools.partial(compare, elements=_ELEMENTS[job.generator], ptxas=job.ptxas, nvdisasm=job.nvdisasm)


def _cut_down(verdict: Verdict, job: Job) -> Verdict:
    ask = functools.partial(_asking(job), seed=0, inputs=_REDUCTION_INPUTS)

    def differs(texts: Sequence[str]) -> list[bool]:
        return [each.state == DIFFERENT for each in ask(texts)]

    (again,) = ask([reduced(verdict.text, differs)])
    return again if again.state == DIFFERENT else verdict


def write(directory: Path, name: str, verdict: Verdict) -> None:
    """A difference as files: program, PTX, machine code, and what differs."""
    directory.mkdir(parents=True, exist_ok=True)
    told = verdict.reason if verdict.reason.endswith("\n") else verdict.reason + "\n"
    for suffix, text in (
        ("vir", verdict.text),
        ("ptx", verdict.ptx),
        ("sass", verdict.machine_code),
        ("txt", told),
    ):
        (directory / f"difference-{name}.{suffix}").write_text(text, encoding="utf-8")


def main() -> int:
    """Command line; the exit status."""
    options = _options()
    begin = told = time.monotonic()
    total = Findings()
    print(f"seed {options.seed}, {options.processes} processes", flush=True)
    try:
        for findings in _results(options):
            for name, verdict in findings.different:
                write(options.output, name, verdict)
                print(f"difference {name}: {verdict.reason.splitlines()[-1]}", flush=True)
            total.add(findings)
            if time.monotonic() - told > _PROGRESS_SECONDS:
                told = time.monotonic()
                print(f"{told - begin:6.0f} s: {total.programs:,} programs, {len(total.different)} differ", flush=True)
    except CompilerRefused as error:
        print(error)
        return 1
    print(total.summary())
    return 1 if total.different else 0


def _results(options: argparse.Namespace) -> Iterator[Findings]:
    sizes = [min(BATCH, options.programs - first) for first in range(0, options.programs, BATCH)]
    jobs = [
        Job(options.seed, number, size, options.ptxas, options.nvdisasm, options.reduce, options.generator)
        for number, size in enumerate(sizes)
    ]
    if options.processes == 1:
        yield from map(run, jobs)
        return
    with ProcessPoolExecutor(options.processes) as pool:
        yield from pool.map(run, jobs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed when not given")
    parser.add_argument("--ptxas", type=Path, default=None, help="else that of the wheel, or of PATH")
    parser.add_argument("--nvdisasm", type=Path, default=None, help="else that beside ptxas, or of PATH")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--generator", choices=(OWN, INDEPENDENT), default=OWN, help="whose programs")
    parser.add_argument("--reduce", action="store_true", help="cut what differs down")
    parser.add_argument("--output", type=Path, default=Path("machine-code"))
    options = parser.parse_args()
    if options.seed is None:
        options.seed = secrets.randbits(40)
    return options


if __name__ == "__main__":
    sys.exit(main())
