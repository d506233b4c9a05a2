"""Bodies that attract each other: leapfrog steps, all in one replay of a graph with a loop.

Run it: `python examples/nbody.py --bodies 192 --steps 100 --device auto`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import vyre_cuda as vc

BLOCK = 64
STEP = 0.01
# The square of a distance below which the attraction fades.
EPS2 = 0.0025


def offset(a, b):
    """From one point to another, with the reciprocal of the distance."""
    d = [q - p for p, q in zip(a, b, strict=True)]
    return d, vc.rsqrt(sum(each * each for each in d) + EPS2)


@vc.kernel(block=BLOCK)
def accelerate(pos: vc.In[vc.f32, 2], mass: vc.In[vc.f32]):
    # In `near`, the positions and masses of the bodies that all threads of a block need next.
    acc, near = vc.output(vc.f32, pos.shape), vc.shared(vc.f32, (BLOCK, 4))
    i, t = vc.work(mass.size), vc.thread_id.x
    x, y, z = vc.f32(0), vc.f32(0), vc.f32(0)
    for first in range(0, mass.size, BLOCK):
        near[t, :4] = *pos[first + t, :3], mass[first + t]  # past the end the mass is 0
        vc.barrier()
        for j in range(BLOCK):
            (dx, dy, dz), inverse = offset(pos[i, :3], near[j, :3])
            pull = near[j, 3] * inverse * inverse * inverse
            x, y, z = x + pull * dx, y + pull * dy, z + pull * dz
        vc.barrier()
    acc[i, :3] = x, y, z


@vc.kernel(block=BLOCK)
def advance(y: vc.InOut[vc.f32], rate: vc.In[vc.f32], time: vc.f32):
    i = vc.global_id.x
    y[i] += time * rate[i]  # parameters with one axis take arrays of any shape, element by element


@vc.kernel(block=BLOCK)
def measure(pos: vc.In[vc.f32, 2], velocity: vc.In[vc.f32, 2], mass: vc.In[vc.f32]):
    energy = vc.output(vc.f64, 2)  # kinetic, potential
    i, potential = vc.work(mass.size), vc.f64(0)
    kinetic = vc.f64(mass[i] * sum(v * v for v in velocity[i, :3]) / 2)
    for j in range(i + 1, mass.size):
        potential -= vc.f64(mass[i] * mass[j] * offset(pos[i, :3], pos[j, :3])[1])
    for k, value in vc.unrolled(enumerate((kinetic, potential))):
        total = vc.warp_reduce(value, "add")
        if vc.lane_id == 0:
            vc.atomic_add(energy, k, total)


def start(bodies: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Positions and velocities of shape (bodies, 3), and masses; the sum of the masses is 1."""
    rng = np.random.default_rng(1)
    pos = rng.standard_normal((bodies, 3), dtype=np.float32)
    velocity = np.cross(pos, (0, 0, -0.5)).astype(np.float32)  # a slow turn around the z axis
    return pos, velocity, np.full(bodies, 1 / bodies, np.float32)


def simulate(device: vc.Device, bodies: int, steps: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Positions after `steps` steps, and the kinetic and potential energy before and after."""
    force, move, count = (each.on(device) for each in (accelerate, advance, measure))
    pos, velocity, mass = map(device.array, start(bodies))
    acc = device.empty_like(pos)
    force.launch(pos, mass, acc)
    with device.record() as graph, graph.repeat(steps):
        move.launch(velocity, acc, STEP / 2)
        move.launch(pos, velocity, STEP)
        force.launch(pos, mass, acc)
        move.launch(velocity, acc, STEP / 2)
    before = count(pos, velocity, mass)
    graph.replay()
    return pos.numpy(), np.array([before, count(pos, velocity, mass)])


def numpy_simulate(bodies: int, steps: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The same in float64."""
    pos, velocity, mass = (each.astype(np.float64) for each in start(bodies))

    def offsets() -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        d = pos - pos[:, None]
        return d, 1 / np.sqrt(np.sum(d * d, axis=-1) + EPS2)

    def acceleration() -> npt.NDArray[Any]:
        d, inverse = offsets()
        found: npt.NDArray[Any] = np.einsum("j,ij,ijc->ic", mass, inverse**3, d)
        return found

    def energy() -> tuple[float, float]:
        potential = np.triu(np.outer(mass, mass) * offsets()[1], 1).sum()
        return float(np.sum(mass[:, None] * velocity**2) / 2), -float(potential)

    before = energy()
    acc = acceleration()
    for _ in range(steps):
        velocity += STEP / 2 * acc
        pos += STEP * velocity
        acc = acceleration()
        velocity += STEP / 2 * acc
    return pos, np.array([before, energy()])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="bodies that attract each other, checked against NumPy")
    parser.add_argument("--bodies", type=int, default=192, help="how many (default: 192)")
    parser.add_argument("--steps", type=int, default=100, help=f"steps of {STEP} (default: 100)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)
    if min(options.bodies, options.steps) < 1:
        parser.error("bodies and steps are at least 1")

    with vc.Device(options.device) as device:
        pos, energy = simulate(device, options.bodies, options.steps)
        print(f"{options.bodies} bodies, {options.steps} steps on {device.properties.name}")
    print("energy    kinetic   potential         sum")
    for when, (kinetic, potential) in zip(("before", "after"), energy, strict=True):
        print(f"{when:6}{kinetic:11.6f}{potential:12.6f}{kinetic + potential:12.6f}")

    expected_pos, expected_energy = numpy_simulate(options.bodies, options.steps)
    errors = np.max(np.abs(pos - expected_pos)), np.max(np.abs(energy - expected_energy))
    if max(errors) > 1e-3:
        print(f"differs from NumPy: positions by {errors[0]:.1e}, energies by {errors[1]:.1e}", file=sys.stderr)
        return 1
    print(f"within {errors[0]:.1e} (positions) and {errors[1]:.1e} (energies) of NumPy in float64")
    return 0


if __name__ == "__main__":
    sys.exit(main())
