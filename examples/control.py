"""A control loop: each step needs the answer of the step before, so a worker takes the calls instead of launches.

Many springs with a mass are driven by a force that the host chooses from how far they are apart; the device moves them.

Run it: `python examples/control.py --springs 1000 --steps 200 --device auto`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

import vyre_cuda as vc

Array = npt.NDArray[Any]
DT = 2.0**-6
SPREAD = 0.5  # beyond it the force turns


def build() -> vc.Program:
    """One step: new places and speeds of all springs under the same force."""
    b = vc.Builder("step", block=256)
    x, v, k = b.input("x", vc.f32), b.input("v", vc.f32), b.input("k", vc.f32)
    force = b.scalar("force", vc.f32)
    x_out, v_out = b.output("x_out", vc.f32, size=x.size), b.output("v_out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        speed = b.let("speed", v[i] + (force - k[i] * x[i]) * DT)
        v_out[i] = speed
        x_out[i] = x[i] + speed * DT
    return b.build()


STEP = build()


def in_numpy(x: Array, v: Array, k: Array, force: float) -> tuple[Array, Array]:
    """What a step gives."""
    f32 = np.float32
    speed = v + (f32(force) - k * x) * f32(DT)
    return x + speed * f32(DT), speed


def simulate(step: Any, springs: int, steps: int) -> tuple[Array, float]:
    """The places after the steps, and seconds per step; `step(x, v, k, force)` does one."""
    k = np.linspace(1, 2, springs, dtype=np.float32)
    x, v = np.zeros_like(k), np.zeros_like(k)
    force = 1.0
    begin = perf_counter()
    for _ in range(steps):
        x, v = step(x, v, k, force)
        if np.ptp(x) > SPREAD:
            force = -force
    return x, (perf_counter() - begin) / max(steps, 1)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--springs", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args(argv)
    expected, _ = simulate(in_numpy, options.springs, options.steps)
    with vc.Device(options.device) as device, device.worker([STEP]) as worker:
        kernel = device.compile(STEP)
        called, by_call = simulate(kernel, options.springs, options.steps)
        found, by_worker = simulate(
            lambda x, v, k, force: worker.call(STEP, x, v, k, force), options.springs, options.steps
        )
    if not (np.array_equal(expected, found) and np.array_equal(expected, called)):
        print("the results differ from NumPy's", file=sys.stderr)
        return 1
    print(f"{options.steps} steps of {options.springs} springs: equal to NumPy bit for bit")
    print(f"a step takes {by_call * 1e6:.1f} us by a call, {by_worker * 1e6:.1f} us by the worker")
    return 0


if __name__ == "__main__":
    sys.exit(main())
