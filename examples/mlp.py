"""A network with two layers tells three spirals apart, with weights of f32 and f16 (and bf16 with ml_dtypes).

Many points go through tiles in shared memory, a single one through a graph of three kernels, one warp for each row.

Run it: `python examples/mlp.py --device auto`.
With `--picture spirals.png` it draws the plane as the network sees it (needs Pillow: `pip install pillow`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

import vyre_cuda as vc

WT = TypeVar("WT")
TILE = 16
HIDDEN, CLASSES = 192, 3
# Points that are classified one by one too.
ALONE = 20
COLORS = np.array([[230, 120, 60], [70, 150, 220], [110, 190, 90]])
Array = npt.NDArray[Any]


def relu(v):
    return vc.maximum(v, 0.0)


@vc.kernel(block=(TILE, TILE))
def layer(x: vc.In[vc.f32, 2], weights: vc.In[WT, 2], bias: vc.In[vc.f32], act: vc.const = vc.f32):
    """act(x @ weights.T + bias); vc.f32 leaves the sums as they are."""
    y = vc.output(vc.f32, (x.shape[0], weights.shape[0]))
    # The odd width keeps columns in different banks.
    x_tile, weight_tile = vc.shared(vc.f32, (TILE, TILE + 1)), vc.shared(vc.f32, (TILE, TILE + 1))
    (row, column), (i, j), total = vc.global_id.yx, vc.thread_id.yx, vc.f32(0)
    for first in range(0, x.shape[1], TILE):
        x_tile[i, j] = x[row, first + j]
        weight_tile[i, j] = vc.f32(weights[vc.block_id.x * TILE + i, first + j])
        vc.barrier()
        total = vc.dot(x_tile[i, :TILE], weight_tile[j, :TILE], total)
        vc.barrier()
    y[row, column] = act(total + bias[column])


@vc.kernel(block=128)
def layer_of_one(x: vc.In[vc.f32], weights: vc.In[WT, 2], bias: vc.In[vc.f32], act: vc.const = vc.f32):
    """`layer` for a single point."""
    y = vc.output(vc.f32, weights.shape[0])
    row, total = vc.work(weights.shape[0] * 32) // 32, vc.f32(0)
    for k in range(vc.lane_id, x.size, 32):
        total = vc.fma(x[k], vc.f32(weights[row, k]), total)
    total = vc.warp_reduce(total, "add")
    if vc.lane_id == 0:
        y[row] = act(total + bias[row])


@vc.kernel(block=128)
def softmax(x: vc.In[vc.f32, 2]):
    """exp(x) divided by its sum in each row, of at most 32 elements."""
    y = vc.output(vc.f32, x.shape)
    row, lane = vc.work(x.shape[0] * 32) // 32, vc.lane_id
    assert x.shape[1] <= 32, "a warp has 32 lanes"
    value = x[row, lane] if lane < x.shape[1] else vc.f32(-np.inf)
    power = vc.exp(value - vc.warp_reduce(value, "max"))
    y[row, lane] = power / vc.warp_reduce(power, "add")


class Network(NamedTuple):
    """Weights of shape (outputs, inputs) and biases of both layers."""

    hidden: Array
    hidden_bias: Array
    output: Array
    output_bias: Array

    def rounded(self, type: vc.Type) -> Network:
        """With weights of this type."""
        return self._replace(hidden=self.hidden.astype(type.dtype), output=self.output.astype(type.dtype))


def spirals(count: int) -> tuple[Array, Array]:
    """Points in the plane, and the spiral on which each lies."""
    rng = np.random.default_rng(5)
    label = np.arange(count) % CLASSES
    radius = rng.random(count)
    angle = 4 * radius + 2 * np.pi / CLASSES * label + 0.12 * rng.standard_normal(count)
    points = radius * np.array([np.cos(angle), np.sin(angle)])
    return np.ascontiguousarray(points.T, np.float32), label


def trained(points: Array, label: Array) -> Network:
    """The first layer is random; the second is a least-squares fit."""
    rng = np.random.default_rng(6)
    hidden, bias = rng.standard_normal((HIDDEN, 2)), rng.uniform(-1, 1, HIDDEN)
    features = np.maximum(points @ hidden.T + bias, 0)
    features = np.concatenate([features, np.ones((len(points), 1))], axis=1)
    squares = features.T @ features + 0.01 * np.eye(HIDDEN + 1)
    output = 12 * np.linalg.solve(squares, features.T @ np.eye(CLASSES)[label]).T
    return Network(*(each.astype(np.float32) for each in (hidden, bias, output[:, :-1], output[:, -1])))


def classified(device: vc.Device, network: Network, points: Array) -> Array:
    """The probability of each class for each point, all points in one go."""
    hidden = layer.on(device, act=relu)(points, network.hidden, network.hidden_bias)
    found: Array = softmax.on(device)(layer.on(device)(hidden, network.output, network.output_bias))
    return found


def classified_one_by_one(device: vc.Device, network: Network, points: Array) -> Array:
    """The same, each point by a replay of a graph, as it would be asked for by a service."""
    hidden, hidden_bias, output, output_bias = map(device.array, network)
    x, y = device.empty(points.shape[1], vc.f32), device.empty(HIDDEN, vc.f32)
    z, probability = device.empty((1, CLASSES), vc.f32), device.empty((1, CLASSES), vc.f32)
    point, result = device.pinned_empty(x.size, vc.f32), device.pinned_empty((1, CLASSES), vc.f32)
    first = layer_of_one.on(device, WT=hidden.type, act=relu)
    second = layer_of_one.on(device, WT=hidden.type, act=vc.f32)
    with device.record() as graph:
        x.copy_from(point)
        first.launch(x, hidden, hidden_bias, y)
        second.launch(y, output, output_bias, z)
        softmax.on(device).launch(z, probability)
        graph.download(probability, result)
    found = []
    for each in points:
        point[:] = each
        graph.replay()
        device.synchronize()
        found.append(result.copy())
    return np.concatenate(found)


def numpy_classified(network: Network, points: Array) -> Array:
    """The same in float64."""
    hidden, hidden_bias, output, output_bias = (each.astype(np.float64) for each in network)
    z = np.maximum(points @ hidden.T + hidden_bias, 0) @ output.T + output_bias
    power = np.exp(z - z.max(axis=1, keepdims=True))
    found: Array = power / power.sum(axis=1, keepdims=True)
    return found


def draw(path: Path, device: vc.Device, network: Network, size: int) -> None:
    """The plane in the colors of the classes."""
    from PIL import Image

    y, x = np.mgrid[1 : -1 : size * 1j, -1 : 1 : size * 1j]
    points = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32)
    colors = classified(device, network, points) @ COLORS
    Image.fromarray(colors.reshape(size, size, 3).astype(np.uint8)).save(path, format="PNG")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="a network with two layers, checked against NumPy")
    parser.add_argument("--points", type=int, default=600, help="points on the spirals (default: 600)")
    parser.add_argument("--picture", type=Path, help="a PNG file to write")
    parser.add_argument("--size", type=int, default=128, help="width of the picture (default: 128)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)
    if min(options.points, options.size) < 1:
        parser.error("points and size are at least 1")

    points, label = spirals(options.points)
    network = trained(points, label)
    types = [vc.f32, vc.f16, *([vc.bf16] if vc.bf16.dtype != np.uint16 else [])]
    wrong = False
    with vc.Device(options.device) as device:
        print(f"{options.points} points on {device.properties.name}")
        print("weights   right   error of all   error of one by one")
        for type in types:
            rounded = network.rounded(type)
            expected = numpy_classified(rounded, points)
            found = classified(device, rounded, points)
            errors = [
                float(np.max(np.abs(expected - found))),
                float(np.max(np.abs(expected[:ALONE] - classified_one_by_one(device, rounded, points[:ALONE])))),
            ]
            wrong |= max(errors) > 1e-4
            right = np.mean(np.argmax(found, axis=1) == label)
            print(f"{type!s:7}{right:8.1%}{errors[0]:15.1e}{errors[1]:22.1e}")
        if options.picture is not None:
            draw(options.picture, device, network, options.size)

    if wrong:
        print("differs from NumPy", file=sys.stderr)
        return 1
    print("within 1e-4 of NumPy in float64")
    return 0


if __name__ == "__main__":
    sys.exit(main())
