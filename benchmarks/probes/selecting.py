"""What `compress` spends its time on, and how its programs do with other blocks: one GPU, half a minute.

    python benchmarks/probes/selecting.py [--device 0|emulator] [--elements 28]

Conditions are bytes, elements u32, half of them kept. Each row has the median between two events around one launch,
the speed at which it moves what it must, and that as a share of a plain copy's. A row that keeps elements says whether
the result is NumPy's.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda import algorithms
from vyre_cuda.algorithms.combining import scanning
from vyre_cuda.algorithms.programs import select
from vyre_cuda.algorithms.scans import launches
from vyre_cuda.algorithms.work import Work, index_type
from vyre_cuda.ir.builder.ids import block_id, lane_id, thread_id

ROUNDS, WARM = 15, 3
HOW = select.Selection(vc.u8, vc.u32)
# Threads of a block that keeps, and how many blocks a multiprocessor has at least (0: as the compiler likes).
KEEPING = [(512, 4), (512, 3), (512, 0), (256, 8), (256, 6), (256, 5), (256, 4), (256, 0)]
MARKING = [12, 10, 9, 16, 0]


def copying() -> vc.Program:
    """Four vectors of 16 bytes for each thread."""
    b = vc.Builder("copy", block=256)
    x, out, n = b.input("x", vc.u32), b.output("out", vc.u32, zeroed=False), b.scalar("n", vc.u32)
    first = b.let("first", block_id.x * 4096 + thread_id.x * 4)
    with b.if_(block_id.x * 4096 + 4096 <= n):
        found = [x.vector(first + k * 1024, 4) for k in range(4)]
        for k, values in enumerate([[b.let("value", each) for each in vector] for vector in found]):
            out.vector(first + k * 1024, 4).set(*values)
    b.work(n)
    return b.build()


def direct(threads: int) -> vc.Program:
    """As `select.keep`, but each thread writes what it keeps where that goes: nothing waits in shared memory."""
    b = vc.Builder("select_direct", block=threads)
    x, marks, begins = b.input("x", vc.u32), b.input("marks", vc.u32), b.input("begins", vc.u32)
    b.input("counts", vc.u32)
    starts, out = b.input("starts", vc.u32), b.output("out", vc.u32, zeroed=False)
    b.output("count", vc.u64, zeroed=False)
    n = b.scalar("n", vc.u32)
    rows = select.ROWS * 32 // threads
    tile, first = b.let("tile", block_id.x), b.let("first", thread_id.x // 32 * rows)
    part = select._Part(b, tile, first, rows, n)
    words = marks[tile * select.WORDS + first // select.TOGETHER * 32 + lane_id]
    bits = (1 << select.WIDTH * rows) - 1
    word = b.let("word", words >> first % select.TOGETHER * select.WIDTH & bits)
    elements, own = part.elements(x, word), part.counts(word)
    before = [b.let("before", b.warp_scan(each, "add") - each) for each in own]
    start = b.let("start", starts[tile])
    for k in range(rows):
        target: Any = start + begins[tile * select.ROWS + first + k] + part.count_of(before, k)
        for j in range(select.WIDTH):
            is_kept = b.let("is_kept", word & (1 << k * select.WIDTH + j) != 0)
            target = b.let("target", target)
            with b.if_(is_kept):
                out[target] = elements[k][j]
            target = target + vc.u32(is_kept)
    b.work(n)
    return b.build()


class Probe:
    """Arrays of one size, and what they are measured with."""

    def __init__(self, device: vc.Device, n: int) -> None:
        self.device, self.n = device, n
        self.is_emulator = device.properties.is_emulator
        rng = np.random.default_rng(1)
        self.host = rng.integers(0, 1 << 32, n, np.uint32)
        flags = rng.integers(0, 2, n, np.uint8)
        self.wanted = self.host[flags != 0]
        self.x, self.flags = device.array(self.host), device.array(flags)
        self.out, self.count = device.empty(n, vc.u32), device.empty(1, vc.u64)
        self.tiles = -(-n // select.TILE)
        sizes = (self.tiles * select.WORDS, self.tiles * select.ROWS, self.tiles, self.tiles)
        self.marks, self.begins, self.counts, self.starts = (device.empty(size, vc.u32) for size in sizes)
        self.copied = 0.0

    def row(self, name: str, bytes_: float, launch: Callable[[], Any], *, keeps: bool = False) -> None:
        """Measure a launch or several, between events."""
        if keeps:
            self.out.fill(0)
        stream, times = self.device.stream(), []
        with self.device.record() as graph:
            launch()
        graph.compile()
        for turn in range(1 if self.is_emulator else WARM + ROUNDS):
            begin = stream.record()
            graph.replay(stream=stream)
            end = stream.record()
            end.synchronize()
            if self.is_emulator or turn >= WARM:
                times.append(max(end.elapsed_ms(begin), 1e-6))
        ms = statistics.median(times)
        speed = bytes_ / ms / 1e6
        self.copied = self.copied or speed
        verdict = ""
        if keeps:
            got = self.out[: self.wanted.size].numpy()
            verdict = "right" if got.tobytes() == self.wanted.tobytes() else "WRONG"
        print(f"{name:44} {ms:8.4f} ms {speed:8.1f} GB/s {speed / self.copied:5.2f}  {verdict}", flush=True)

    def launch(self, program: vc.Program, *arguments: Any) -> Callable[[], Any]:
        kernel = self.device.compile(program, bounds="off")
        return lambda: kernel.launch(*arguments, grid=self.tiles)

    def scan(self) -> None:
        how = scanning("sum", vc.u32, vc.u32)
        launches(Work(self.counts), how, self.counts, self.starts, self.tiles, exclusive=True)

    def all(self) -> None:
        n, kept = self.n, self.wanted.size
        index = index_type(n)
        self.row("copy", 8 * n, self.launch(copying(), self.x, self.out, n))
        for blocks in MARKING:
            program = select.mark(HOW, index, blocks)
            launch = self.launch(program, self.flags, self.marks, self.begins, self.counts, n)
            self.row(f"mark, {blocks} blocks", n + n / 8 + n / 32, launch)
        self.row("scan of the tiles' counts", 8 * self.tiles, self.scan)
        given = (self.x, self.marks, self.begins, self.counts, self.starts, self.out, self.count, n)
        moved = 4 * n + n / 8 + n / 32 + 4 * kept
        for threads, blocks in KEEPING:
            program = select.keep(HOW, index, threads, blocks)
            self.row(f"keep, {threads} threads, {blocks} blocks", moved, self.launch(program, *given), keeps=True)
        for threads in (512, 256):
            self.row(f"keep, {threads} threads, direct", moved, self.launch(direct(threads), *given), keeps=True)
        whole = lambda: algorithms.compress(self.flags, self.x, out=self.out, count=self.count)  # noqa: E731
        self.row("compress, as the bytes of elements", 4 * n + 4 * kept, whole, keeps=True)
        print(f"compress counted {int(self.count.numpy()[0])} of {kept}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="0", help="ordinal, or emulator")
    parser.add_argument("--elements", type=int, default=28, help="binary logarithm of their number (default: 28)")
    options = parser.parse_args()
    emulated = options.device == "emulator"
    with vc.Device("emulator" if emulated else int(options.device)) as device:
        print(f"{device.properties.name}, 2^{options.elements} elements; bytes that must move, share of a copy's")
        Probe(device, 1 << options.elements).all()


if __name__ == "__main__":
    main()
