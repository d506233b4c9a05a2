"""Softmax of the rows of a matrix at the speed of memory: each element is read once and written once.

A block takes a row. Its threads keep the row in registers, from the loads, which are on their way all at once, until
the results are written; only the largest element and the sum go through shared memory. Their order is fixed: in each
thread from left to right, then within warps, then warp by warp. So the result has the same bits on every device.

Run it: `python examples/softmax.py --rows 20 --columns 3000 --device auto`.
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
WARPS = BLOCK // 32
# Of a row: 64 elements for each thread, which has at most 255 registers.
MOST_COLUMNS = 64 * BLOCK


def added(a, b):
    return a + b


@vc.func
def over_block(value, name, function, parts):
    """The values of all threads of a block, combined: each warp leaves its part in shared memory."""
    part = vc.warp_reduce(value, name)
    if vc.lane_id == 0:
        parts[vc.thread_id.x // 32] = part
    vc.barrier()
    combined = parts[0]
    for warp in vc.unrolled(range(1, WARPS)):
        combined = function(combined, parts[warp])
    return combined


@vc.kernel(block=BLOCK)
def softmax_of(x: vc.In[vc.f32, "rows columns"], columns: vc.const):
    """exp(x) divided by its sum, in rows of so many columns."""
    y = vc.output(vc.f32, x.shape, zeroed=False)
    vc.work(x.shape[0] * BLOCK)
    largest, sums = vc.shared(vc.f32, WARPS), vc.shared(vc.f32, WARPS)
    row, thread = vc.block_id.x, vc.thread_id.x
    values = []
    for first in vc.unrolled(range(0, columns, BLOCK)):
        element = x[row, first + thread]
        if first + BLOCK > columns:  # only the last elements of a row need this
            values.append(element if first + thread < columns else vc.f32(-np.inf))
        else:
            values.append(element)
    top = values[0]
    for value in vc.unrolled(values[1:]):
        top = vc.maximum(top, value)
    top = over_block(top, "max", vc.maximum, largest)
    powers = [vc.exp(value - top) for value in values]
    total = powers[0]
    for power in vc.unrolled(powers[1:]):
        total = total + power
    inverse = 1 / over_block(total, "add", added, sums)
    for number, power in vc.unrolled(enumerate(powers)):
        y[row, number * BLOCK + thread] = power * inverse


def softmax(device: vc.Device, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Of a matrix of float32, over its rows."""
    if not 0 < x.shape[1] <= MOST_COLUMNS:
        raise ValueError(f"a row has {x.shape[1]} elements; this program is for 1 to {MOST_COLUMNS}")
    return softmax_of.on(device)(x, x.shape[1])


def numpy_softmax(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same in float64."""
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    result: npt.NDArray[Any] = powers / powers.sum(axis=1, keepdims=True)
    return result


def bound(x: npt.NDArray[Any]) -> float:
    """How far a result may be from the exact one, relative to it, as long as it is not subnormal."""
    spread = float(np.max(np.ptp(x, axis=1)))
    additions = -(-x.shape[1] // BLOCK) - 1 + 5 + WARPS - 1
    # Each is rounded once, the exponential at most by two units. The rounding of x - top is relative to that, and
    # is in the sum, too; so is the exponential.
    return float(2 * (spread + 4) + additions + 2) * 2.0**-24


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="softmax of random rows, checked against NumPy")
    parser.add_argument("--rows", type=int, default=20, help="rows, at least 1 (default: 20)")
    parser.add_argument("--columns", type=int, default=3000, help=f"columns, 1 to {MOST_COLUMNS} (default: 3000)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)
    if options.rows < 1 or not 0 < options.columns <= MOST_COLUMNS:
        parser.error(f"--rows is at least 1, and --columns from 1 to {MOST_COLUMNS}")

    x = np.random.default_rng(0).standard_normal((options.rows, options.columns), dtype=np.float32)
    with vc.Device(options.device) as device:
        y = softmax(device, x)
        print(f"{options.rows} rows of {options.columns} on {device.properties.name}")
    expected = numpy_softmax(x)
    error = np.max(np.abs(y - expected) / expected)
    if not error <= bound(x):
        print(f"differs from NumPy by {error:.1e}", file=sys.stderr)
        return 1
    print(f"within {error:.1e} of NumPy in float64; the roundings allow {bound(x):.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
