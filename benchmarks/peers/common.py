"""What every peer script does: read its options, print its version, measure its ways, report what fails and go on."""

from __future__ import annotations

import argparse
import json
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from harness.counts import PEER, QUICK, Counts
from harness.inputs import Floats, InputSet, chain_sets, saxpy_sets, scale_sets
from harness.timing import Line, Task, measure_blocks

# For the peers that compile CUDA C++; n is the number of elements.
KERNEL = """
extern "C" __global__ void scale(const float *x, float *out, float a, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i];
}
extern "C" __global__ void saxpy(const float *x, const float *y, float *out, float a, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}
"""


@dataclass(frozen=True, slots=True)
class Run:
    """What the parent asks for."""

    seed: int
    sets: list[InputSet]
    counts: Counts

    @property
    def elements(self) -> int:
        return int(self.sets[0].x.size)

    def chain(self) -> list[InputSet]:
        """The input sets of the recorded graphs."""
        return chain_sets(self.seed, self.counts)

    def large(self) -> list[InputSet]:
        """The input sets of 16 MiB arrays: out = a * x."""
        return scale_sets(self.seed, self.counts)

    @property
    def order(self) -> list[int]:
        """The number of the set of each call of a block."""
        return [i % len(self.sets) for i in range(self.counts.block_calls)]


@dataclass(frozen=True, slots=True)
class Way:
    """One way of doing a task; `measure` gets the id of the series."""

    task: str
    what: str
    measure: Callable[[str], Line]


def allocation(
    counts: Counts,
    id: str,
    round_trip: Callable[[Floats], Floats],
    allocate: Callable[[int], object],
    drain: Callable[[], object],
) -> Line:
    """Blocks of `allocate(elements)`, whose result is dropped at once; sizes rotate. A round trip checks the memory."""
    nothing = np.zeros(0, np.float32)
    values = [np.full(counts.elements << (i % 4), i, np.float32) for i in range(16)]
    sets = [InputSet(nothing, nothing, 1.0, v, nothing, nothing) for v in values]
    order = [values[i % len(values)].size for i in range(counts.block_calls)]

    def block() -> None:
        for size in order:
            allocate(size)

    return measure_blocks(Task(id, sets, lambda i: round_trip(values[i]), lambda i: None), block, drain, counts)


def read_options() -> Run:
    """The command line that the parent gives."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    counts = QUICK if options.quick else PEER
    return Run(options.seed, saxpy_sets(options.seed, counts), counts)


def report(version: str, ways: Sequence[Way]) -> None:
    """Measure each way; one that raises is printed as failed and does not stop the others."""
    print(json.dumps({"version": version}), flush=True)
    for way in ways:
        row: dict[str, object] = {"id": f"{way.task}, {way.what}", "task": way.task, "what": way.what}
        try:
            row |= {name: value for name, value in asdict(way.measure(str(row["id"]))).items() if name != "id"}
        except Exception as error:  # whatever another package raises is its result here
            row["error"] = traceback.format_exception_only(error)[-1].strip()
        print(json.dumps(row), flush=True)
