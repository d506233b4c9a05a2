"""The transpose of a matrix at the speed of memory: blocks move tiles through shared memory.

A warp reads 32 neighbors of a row and writes 32 neighbors of a row, and no load waits for another. Each row of the tile
in shared memory is one element longer than needed, so a column of four-byte elements is in 32 different banks.

Run it: `python examples/transpose.py --rows 1000 --columns 700 --device auto`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

import vyre_cuda as vc

T = TypeVar("T")
LANES, ROWS = 32, 8


@vc.kernel(block=(LANES, ROWS))
def transpose(x: vc.In[T, 2], tile: vc.const = 32):
    """x.T; the tile is a multiple of 32 elements on a side."""
    y = vc.output(T, (x.shape[1], x.shape[0]), zeroed=False)
    part = vc.shared(T, (tile, tile + 1))
    vc.work((x.shape[1] + tile - 1) // tile * LANES, (x.shape[0] + tile - 1) // tile * ROWS)
    row, column = vc.block_id.y * tile, vc.block_id.x * tile
    i, j = vc.thread_id.yx
    places = [(r, c) for r in range(0, tile, ROWS) for c in range(0, tile, LANES)]
    values = [x[row + i + r, column + j + c] for r, c in places]
    for (r, c), value in vc.unrolled(zip(places, values, strict=True)):
        part[i + r, j + c] = value
    vc.barrier()
    for r, c in vc.unrolled(places):
        y[column + i + r, row + j + c] = part[j + c, i + r]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="transpose of random numbers, checked against NumPy")
    parser.add_argument("--rows", type=int, default=1000, help="rows, at least 1 (default: 1000)")
    parser.add_argument("--columns", type=int, default=700, help="columns, at least 1 (default: 700)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)
    if min(options.rows, options.columns) < 1:
        parser.error("--rows and --columns are at least 1")

    x = np.random.default_rng(0).random((options.rows, options.columns), dtype=np.float32)
    with vc.Device(options.device) as device:
        y = transpose.on(device)(x)
        print(f"{x.shape} to {y.shape} on {device.properties.name}")
    if not np.array_equal(y, x.T):
        print("differs from NumPy", file=sys.stderr)
        return 1
    print("the same as NumPy, bit for bit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
