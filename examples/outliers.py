"""Which measurements stand out: mean and spread, the places of those far away, and the largest, on the device.

Run it: `python examples/outliers.py --count 100000 --device auto`. The same functions on NumPy arrays check the result.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda import algorithms


@vc.vectorize
def distance(x: vc.f32, mean: vc.f32) -> vc.f32:
    return (x - mean) * (x - mean)


@vc.vectorize
def is_far(square: vc.f32, variance: vc.f32) -> vc.bool_:
    return square > 9 * variance


def outliers(x: Any) -> tuple[Any, Any]:
    """The places of values more than three deviations from the mean, and these values in ascending order.

    `x` is a device array or a NumPy array; so are the results.
    """
    mean = _number(algorithms.mean(x))
    squares = distance(x, mean)
    far = is_far(squares, _number(algorithms.mean(squares)))
    (places,) = algorithms.nonzero(far)
    return places, algorithms.sort(algorithms.compress(far, x))


def _number(result: Any) -> float:
    return float(result.numpy() if isinstance(result, vc.DeviceArray) else result)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="measurements that stand out, checked against NumPy arrays")
    parser.add_argument("--count", type=int, default=100_000, help="how many measurements (default: 100000)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)

    rng = np.random.default_rng(1)
    x = rng.standard_normal(options.count).astype(np.float32)
    x[rng.integers(0, options.count, 5)] += 20
    with vc.Device(options.device) as device:
        places, values = (each.numpy() for each in outliers(device.array(x)))
    print(f"{places.size} of {x.size:,} stand out, up to {values[-1]:.2f}")

    # The same bits, whatever computed them: places and values are equal, not only close.
    mean = algorithms.mean(x)
    squares = (x - mean) * (x - mean)
    expected = np.nonzero(squares > np.float32(9) * algorithms.mean(squares))[0]
    if not (np.array_equal(places, expected) and np.array_equal(values, np.sort(x[expected]))):
        print("differs from NumPy", file=sys.stderr)
        return 1
    print("the same as in NumPy")
    return 0


if __name__ == "__main__":
    sys.exit(main())
