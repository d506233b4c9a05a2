"""How often each byte value occurs in a file: shared-memory bins, merged by global atomics.

Run it: `python examples/histogram.py README.md --device auto`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import vyre_cuda as vc

VALUES = 256
# Words that a thread counts before its block merges its bins: 256 global atomics per 16 KiB of file.
WORDS_PER_THREAD = 16
# Positions of bytes are u32 in the program.
MOST_BYTES = 2**32 - 4


def build() -> vc.Program:
    b = vc.Builder("byte_histogram", block=VALUES)
    words = b.input("words", vc.u32)
    counts = b.output("counts", vc.u32, size=VALUES)
    length = b.scalar("length", vc.u32)  # of the file, in bytes; the last word may hold padding
    b.work(words.size // WORDS_PER_THREAD + vc.u32(words.size % WORDS_PER_THREAD != 0))
    bins = b.shared("bins", vc.u32, VALUES)  # zero when the block starts

    # Threads side by side read words side by side, then all jump by the whole grid.
    with b.for_(vc.global_id.x, words.size, step=vc.grid_dim.x * vc.block_dim.x) as i:
        word = b.let("word", words[i])
        for k in range(4):
            with b.if_(i * 4 + k < length):
                b.atomic_add(bins, (word >> (8 * k)) & 0xFF, 1, scope="block")
    b.barrier()

    value = b.let("value", vc.thread_id.x)  # one thread per bin
    count = b.let("count", bins[value])
    with b.if_(count != 0):
        b.atomic_add(counts, value, count)
    return b.build()


HISTOGRAM = build()


def byte_histogram(device: vc.Device, data: bytes) -> npt.NDArray[Any]:
    """How often each of the 256 byte values occurs in `data`."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"{len(data)} bytes; this example counts at most {MOST_BYTES}")
    padded = data + bytes(-len(data) % 4)
    counts: npt.NDArray[Any] = device.run(HISTOGRAM, np.frombuffer(padded, np.uint32), len(data))
    return counts


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="byte histogram of a file, checked against NumPy")
    parser.add_argument("file", type=Path, help="the file to read")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    parser.add_argument("--top", type=int, default=8, help="how many of the commonest bytes to show (default: 8)")
    options = parser.parse_args(argv)

    data = options.file.read_bytes()
    with vc.Device(options.device) as device:
        counts = byte_histogram(device, data)
        print(f"{options.file}: {len(data):,} bytes on {device.properties.name}")
    commonest = np.argsort(-counts.astype(np.int64), kind="stable")
    for value in commonest[: min(options.top, np.count_nonzero(counts))]:
        print(f"  {bytes([value])!r:8}{counts[value]:12,}")

    if not np.array_equal(counts, np.bincount(np.frombuffer(data, np.uint8), minlength=VALUES)):
        print("differs from np.bincount", file=sys.stderr)
        return 1
    print("the same as np.bincount")
    return 0


if __name__ == "__main__":
    sys.exit(main())
