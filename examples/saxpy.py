"""saxpy: out = a * x + y, the smallest whole program.

Run it: `python examples/saxpy.py --size 1000000 --device auto`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np

import vyre_cuda as vc


def build() -> vc.Program:
    b = vc.Builder("saxpy", block=256)
    x = b.input("x", vc.f32)
    y = b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):  # the last block has threads past the end
        out[i] = a * x[i] + y[i]
    return b.build()


SAXPY = build()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="a * x + y on random arrays, checked against NumPy")
    parser.add_argument("--size", type=int, default=1_000_000, help="elements of x and y (default: 1000000)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)

    rng = np.random.default_rng(0)
    x = rng.standard_normal(options.size, dtype=np.float32)
    y = rng.standard_normal(options.size, dtype=np.float32)
    with vc.Device(options.device) as device:
        saxpy = device.compile(SAXPY)
        out = saxpy(x, y, 2.5)
        print(f"saxpy of {x.size:,} elements on {device.properties.name}: {out}")

    # One rounding per operation: NumPy gives the same bits.
    if not np.array_equal(out.view(np.uint32), (np.float32(2.5) * x + y).view(np.uint32)):
        print("differs from NumPy", file=sys.stderr)
        return 1
    print("the same as NumPy, bit for bit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
