"""Closures of tables on a device, beside a hash-cons in C on one core and the oracle in NumPy.

python bench_egraph.py                                                the first CUDA device, into results/; a minute
python bench_egraph.py --device emulator --quick --output somewhere   small tables: shows that it works

The tables have rows with two children or none. "copies": 1,000 leaves, then random rows of 16 operations, three in ten
of which repeat an earlier one. "depth d": pairs of chains over two equal leaves, so that level k merges in round k;
"backwards": the same with children behind their parents, where a walk through the rows from the first to the last one
gains nothing. "equal": one row over and over. The table is on the device; a figure is the median from the call until
its result can be used. All results are compared with those of the C program.
"""

from __future__ import annotations

import ctypes
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter_ns
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from harness.figures import parsed, written
from harness.processes import BENCHMARKS
from peers import peer_egglog

import vyre_cuda as vc
from vyre_cuda import egraph
from vyre_cuda.testing.compilers import c_compiler

NONE = 0xFFFFFFFF
LEAVES, OPS = 1000, 16
# Beyond so many rows the oracle in NumPy takes too long.
MOST_NUMPY = 10**6
WITH_EGGLOG = (2000, 10**5, 10**6)
Columns: TypeAlias = tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]


@dataclass(frozen=True)
class Figure:
    """Milliseconds of one table; `egglog_ms` is its rebuild, without the loading."""

    table: str
    rows: int
    rounds: int
    rounds_c: int
    device_ms: float
    c_ms: float
    numpy_ms: float | None
    times: float
    egglog_ms: float | None = None
    egglog_load_ms: float | None = None


def copies(rows: int, percent: int = 30) -> Columns:
    rng = np.random.default_rng(rows)
    index = np.arange(rows)
    op = rng.integers(0, OPS, rows).astype(np.uint32)
    left, right = ((rng.random(rows) * index).astype(np.uint32) for _ in range(2))
    leaves = min(LEAVES, rows)
    op[:leaves], left[:leaves], right[:leaves] = OPS + index[:leaves], NONE, NONE
    source = np.where((rng.random(rows) * 100 < percent) & (index >= leaves), rng.random(rows) * index, index)
    source = source.astype(np.int64)
    while (source != source[source]).any():
        source = source[source]
    return op[source], left[source], right[source]


def chains(rows: int, depth: int) -> Columns:
    """Two equal leaves, and over each of them as many chains of `depth` rows as fit, each with its operation."""
    count = max((rows - 2) // (2 * depth), 1)
    side, chain, level = (part.reshape(-1) for part in np.indices((2, count, depth)))
    op = np.concatenate([[0, 0], 1 + chain]).astype(np.uint32)
    here = np.arange(2, op.size)
    left = np.concatenate([[NONE, NONE], np.where(level == 0, side, here - 1)]).astype(np.uint32)
    return op, left, left


def backwards(columns: Columns) -> Columns:
    op, left, right = (each[::-1].copy() for each in columns)
    for side in (left, right):
        side[side != NONE] = op.size - 1 - side[side != NONE]
    return op, left, right


def equal(rows: int) -> Columns:
    op = np.zeros(rows, np.uint32)
    return op, np.full(rows, NONE, np.uint32), np.full(rows, NONE, np.uint32)


def table_of(columns: Columns) -> egraph.Table:
    op, left, right = columns
    inner = left != NONE
    lengths = np.where(inner, 2, 0)
    offsets = np.cumsum(lengths) - lengths
    children = np.stack([left[inner], right[inner]], axis=1).reshape(-1)
    return egraph.Table(op, offsets, lengths, children)


def built(folder: str) -> Any:
    """hashcons.c, compiled with $CC or cc."""
    library = Path(folder) / "hashcons.so"
    source = BENCHMARKS / "raw" / "hashcons.c"
    flags = ["-std=c11", "-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run([*c_compiler(), *flags, "-o", str(library), str(source)], check=True)
    function = ctypes.CDLL(str(library)).hashcons
    function.restype = ctypes.c_uint32
    return function


def median_ms(call: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        begin = perf_counter_ns()
        call()
        times.append(perf_counter_ns() - begin)
    return statistics.median(times) / 1e6


def measured(device: vc.Device, function: Any, name: str, columns: Columns, rounds: int) -> Figure:
    rows = columns[0].size
    table = table_of(columns)
    parent = np.empty(rows, np.uint32)
    pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (*columns, parent)]
    found = egraph.close(table, device)
    rounds_c = function(ctypes.c_uint32(rows), *pointers)
    if not found.converged or found.classes.numpy().tobytes() != parent.tobytes():
        raise SystemExit(f"{name}: the device found other classes")
    device_ms = median_ms(lambda: egraph.close(table, device).rounds, rounds)
    c_ms = median_ms(lambda: function(ctypes.c_uint32(rows), *pointers), 3 if rows <= 10**6 and rounds_c < 20 else 1)
    numpy_ms = median_ms(lambda: egraph.close_numpy(table), 1) if rows <= MOST_NUMPY and found.rounds < 20 else None
    figure = Figure(
        name,
        rows,
        found.rounds,
        rounds_c,
        round(device_ms, 4),
        round(c_ms, 4),
        None if numpy_ms is None else round(numpy_ms, 2),
        round(c_ms / device_ms, 2),
    )
    print(
        f"{name:20s} {rows:11,} rows {figure.rounds:4} rounds {device_ms:10.3f} ms  "
        f"C {c_ms:10.3f} ms ({rounds_c} rounds)  {figure.times:8.2f} x",
        flush=True,
    )
    return figure


def beside_egglog(figure: Figure, columns: Columns, folder: str) -> Figure:
    """The figure with the times of egglog, where it is installed."""
    module = peer_egglog.bindings()
    if module is None:
        return figure
    load, rebuild, terms = peer_egglog.closed(module, folder, *columns)
    if terms != np.unique(egraph.close_numpy(table_of(columns)).classes).size:
        raise SystemExit(f"{figure.table}: egglog found {terms} terms")
    print(f"{'':20s} egglog {rebuild * 1e3:10.1f} ms, and {load * 1e3:10.1f} ms to load the rows", flush=True)
    return replace(figure, egglog_ms=round(rebuild * 1e3, 1), egglog_load_ms=round(load * 1e3, 1))


def run(device: vc.Device, sizes: Sequence[int], depths: Sequence[int], equal_rows: Sequence[int]) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        function = built(folder)
        found = []
        for rows in sizes:
            figure = measured(device, function, "copies", copies(rows), 20 if rows <= 10**6 else 5)
            found.append(beside_egglog(figure, copies(rows), folder) if rows in WITH_EGGLOG else figure)
        most = min(10**6, max(sizes))
        for depth in depths:
            found.append(measured(device, function, f"depth {depth}", chains(most, depth), 5))
            found.append(measured(device, function, f"depth {depth}, backwards", backwards(chains(most, depth)), 5))
        found += [measured(device, function, "equal", equal(rows), 3) for rows in equal_rows]
    return found


def main(words: Sequence[str] | None = None) -> int:
    options = parsed(__doc__, words, quick="small tables")
    with vc.Device(options.device) as device:
        if options.quick:
            found = run(device, [100, 2000], [1, 16], [1000])
        else:
            sizes = [10**3, 3 * 10**3, 10**4, 3 * 10**4, 10**5, 10**6, 10**7]
            found = run(device, sizes, [1, 16, 256], [10**6, 10**7, 10**8])
        written(options, device, "egraph", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
