"""The sum of an array: each block folds a chunk in shared memory, and passes repeat until one element is left.

Two passes sum up to 4,194,304 elements. The arrays between the passes stay on the device.

Run it: `python examples/reduction.py --size 1000000 --device auto`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import vyre_cuda as vc

BLOCK = 256
PER_THREAD = 8
CHUNK = BLOCK * PER_THREAD


def build() -> vc.Program:
    b = vc.Builder("block_sums", block=BLOCK)
    x = b.input("x", vc.f32)
    sums = b.output("sums", vc.f32, size=x.size // CHUNK + vc.u32(x.size % CHUNK != 0))
    b.work(sums.size * BLOCK)
    tile = b.shared("tile", vc.f32, BLOCK)
    thread = b.let("thread", vc.thread_id.x)
    first = b.let("first", vc.block_id.x * CHUNK + thread)

    total = x[first]
    for k in range(1, PER_THREAD):
        total = total + x[first + k * BLOCK]  # past the end a load gives 0
    tile[thread] = total
    b.barrier()
    half = BLOCK // 2
    while half > 0:  # a Python loop: the program has one step per halving
        with b.if_(thread < half):
            tile[thread] = tile[thread] + tile[thread + half]
        b.barrier()
        half //= 2
    with b.if_(thread == 0):
        sums[vc.block_id.x] = tile[0]
    return b.build()


BLOCK_SUMS = build()


def chunks_of(size: int) -> int:
    """The blocks of one pass."""
    return -(-size // CHUNK)


def device_sum(device: vc.Device, x: npt.NDArray[Any]) -> np.float32:
    """The sum of a float32 array with at least one element."""
    block_sums = device.compile(BLOCK_SUMS)
    values = device.array(x)
    while True:
        sums = device.empty(chunks_of(values.size), vc.f32)
        block_sums.launch(values, sums)  # asynchronous: the next pass waits for it on the device
        if sums.size == 1:
            total: np.float32 = sums[0]
            return total
        values = sums


def same_tree(x: npt.NDArray[Any]) -> np.float32:
    """The sum with NumPy, in the order in which the kernels add."""
    while True:
        padded = np.zeros(chunks_of(x.size) * CHUNK, np.float32)
        padded[: x.size] = x
        rows = padded.reshape(-1, PER_THREAD, BLOCK)
        tile = rows[:, 0]
        for k in range(1, PER_THREAD):
            tile = tile + rows[:, k]
        while tile.shape[1] > 1:
            half = tile.shape[1] // 2
            tile = tile[:, :half] + tile[:, half:]
        x = tile[:, 0]
        if x.size == 1:
            total: np.float32 = x[0]
            return total


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="sum of random numbers, checked against NumPy")
    parser.add_argument("--size", type=int, default=1_000_000, help="elements, at least 1 (default: 1000000)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)
    if options.size < 1:
        parser.error("--size is at least 1")

    x = np.random.default_rng(0).random(options.size, dtype=np.float32)
    with vc.Device(options.device) as device:
        total = device_sum(device, x)
        print(f"sum of {x.size:,} elements on {device.properties.name}: {total}")

    exact = float(np.sum(x, dtype=np.float64))
    print(f"np.sum in float64: {exact}; relative difference {abs(float(total) - exact) / exact:.1e}")
    if total.tobytes() != same_tree(x).tobytes() or not np.isclose(total, exact, rtol=1e-5):
        print("differs from NumPy", file=sys.stderr)
        return 1
    print("the same as NumPy adding in the same order, bit for bit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
