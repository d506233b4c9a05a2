"""A recurrent network (GRU) on a device: many small kernels in one graph, in which neighbors become one kernel.

Each time step has a product of a matrix with the state, and five element-wise steps behind it, as one would write them.
Recorded with `fuse=True` the five become one kernel; the product stays apart: it reads what other threads wrote.

Run it: `python examples/rnn.py --units 64 --steps 20 --device auto`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import vyre_cuda as vc

BLOCK = 64
Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]


@vc.kernel(block=BLOCK)
def product(w: vc.In[vc.f32, 2], h: vc.In[vc.f32], out: vc.Out[vc.f32]):
    vc.work(out.size)
    i = vc.global_id.x
    total = vc.f32(0)
    for k in range(h.size):
        total += w[i, k] * h[k]
    out[i] = total


@vc.kernel(block=BLOCK)
def gate(x: vc.In[vc.f32], inner: vc.In[vc.f32], out: vc.Out[vc.f32]):
    i = vc.global_id.x
    out[i] = vc.sigmoid(x[i] + inner[i])


@vc.kernel(block=BLOCK)
def multiply(a: vc.In[vc.f32], b: vc.In[vc.f32], out: vc.Out[vc.f32]):
    i = vc.global_id.x
    out[i] = a[i] * b[i]


@vc.kernel(block=BLOCK)
def candidate(x: vc.In[vc.f32], inner: vc.In[vc.f32], out: vc.Out[vc.f32]):
    i = vc.global_id.x
    out[i] = vc.tanh(x[i] + inner[i])


@vc.kernel(block=BLOCK)
def blend(z: vc.In[vc.f32], n: vc.In[vc.f32], h: vc.InOut[vc.f32]):
    i = vc.global_id.x
    h[i] = n[i] + z[i] * (h[i] - n[i])


def start(units: int, steps: int) -> Arrays:
    """The weights of shape (3 * units, units), what comes in at each step, and the first state."""
    rng = np.random.default_rng(1)
    w = rng.standard_normal((3 * units, units), dtype=np.float32) / np.float32(np.sqrt(units))
    return w, rng.standard_normal((steps, 3 * units), dtype=np.float32), np.zeros(units, np.float32)


def recorded(device: vc.Device, arrays: Arrays, *, fuse: bool) -> tuple[vc.Graph, vc.DeviceArray]:
    """A graph that takes the state through all steps, and the state."""
    w, x, h = map(device.array, arrays)
    units = h.size
    with device.record(fuse=fuse) as graph:
        inner = graph.temporary((3, units), vc.f32)
        r, z, n = (graph.temporary(units, vc.f32) for _ in range(3))
        for step in range(x.shape[0]):
            row = x[step].reshape(3, units)
            product.on(device).launch(w, h, inner.reshape(3 * units))
            gate.on(device).launch(row[0], inner[0], r)
            gate.on(device).launch(row[1], inner[1], z)
            multiply.on(device).launch(r, inner[2], n)
            candidate.on(device).launch(row[2], n, r)
            blend.on(device).launch(z, r, h)
    return graph, h


def numpy_state(arrays: Arrays) -> npt.NDArray[Any]:
    """The last state, in float64."""
    w, x, h = (each.astype(np.float64) for each in arrays)
    for row in x.reshape(len(x), 3, -1):
        inner = (w @ h).reshape(3, -1)
        r, z = 1 / (1 + np.exp(-(row[:2] + inner[:2])))
        n = np.tanh(row[2] + r * inner[2])
        h = n + z * (h - n)
    return h


def microseconds(graph: vc.Graph) -> float:
    """The median of some replays on the device."""
    return statistics.median(graph.timed().device_ns for _ in range(21)) / 1e3


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="a recurrent network in one graph, checked against NumPy")
    parser.add_argument("--units", type=int, default=64, help="numbers of the state (default: 64)")
    parser.add_argument("--steps", type=int, default=20, help="time steps (default: 20)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)
    if min(options.units, options.steps) < 1:
        parser.error("units and steps are at least 1")

    arrays = start(options.units, options.steps)
    with vc.Device(options.device) as device:
        print(f"{options.units} units, {options.steps} steps on {device.properties.name}")
        states, times = [], []
        for fuse in (False, True):
            graph, h = recorded(device, arrays, fuse=fuse)
            graph.replay()
            states.append(h.numpy())
            times.append(microseconds(graph))
            what = f"{len(graph)} steps, {graph.node_count} nodes, {times[-1]:.1f} us a replay"
            print(f"{'fused' if fuse else 'as recorded':12}{what}")
        print(f"fusing makes a replay {times[0] / times[1]:.1f} times as fast")
        print("\n".join(graph.explain().splitlines()[1:5]))
    error = np.max(np.abs(states[1] - numpy_state(arrays)))
    same = states[0].tobytes() == states[1].tobytes()
    print(f"both states {'have the same bits' if same else 'DIFFER'}; NumPy in float64 differs by at most {error:.1e}")
    return 0 if same and error < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
