"""A picture as an array with three axes: blurred, its edges found, and its contrast equalized. Needs Pillow.

Run it: `python examples/image.py edges.png --device auto`, or with `--source photo.jpg`.
The file shows the picture, the blurred one, the edges and the equalized one, side by side.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

import vyre_cuda as vc

_BELL = np.exp(-0.5 * (np.arange(-3, 4) / 1.2) ** 2)
WEIGHTS = tuple((_BELL / _BELL.sum()).astype(np.float32))
LUMINANCE = (0.299, 0.587, 0.114)
VALUES = 256


def nearest(picture, y, x, channel):
    """The pixel at (y, x), or the nearest one that the picture has, as f32."""
    return vc.f32(picture[vc.clip(y, 0, picture.shape[0] - 1), vc.clip(x, 0, picture.shape[1] - 1), channel])


@vc.kernel(block=(3, 64))
def blur(picture: vc.In[vc.u8, 3], dy: vc.const, dx: vc.const):
    out = vc.output(vc.u8, picture.shape)
    y, x, channel = vc.global_id.zyx
    blurred = sum(w * nearest(picture, y + k * dy, x + k * dx, channel) for k, w in enumerate(WEIGHTS, -3))
    out[y, x, channel] = vc.u8(vc.rint(blurred))


@vc.kernel(block=(32, 8))
def edges(picture: vc.In[vc.u8, 3]):
    out = vc.output(vc.f32, picture.shape[:2])
    y, x = vc.global_id.yx

    def light(dy, dx):
        return sum(part * nearest(picture, y + dy, x + dx, channel) for channel, part in enumerate(LUMINANCE))

    gx = sum(w * (light(k, 1) - light(k, -1)) for k, w in ((-1, 1), (0, 2), (1, 1)))
    gy = sum(w * (light(1, k) - light(-1, k)) for k, w in ((-1, 1), (0, 2), (1, 1)))
    out[y, x] = vc.hypot(gx, gy)


@vc.kernel(block=VALUES)
def histogram(picture: vc.In[vc.u8]):
    """How often each value occurs in each channel; a parameter with one axis takes the picture as if it were flat."""
    counts, bins = vc.output(vc.u32, (3, VALUES)), vc.shared(vc.u32, (3, VALUES))
    for at in range(vc.work((picture.size + 15) // 16), picture.size, vc.grid_dim.x * vc.block_dim.x):
        vc.atomic_add(bins, (at % 3, picture[at]), 1, scope="block")
    vc.barrier()
    for channel in vc.unrolled(3):
        vc.atomic_add(counts, (channel, vc.thread_id.x), bins[channel, vc.thread_id.x])


@vc.kernel(block=VALUES)
def levels(counts: vc.In[vc.u32, 2]):
    """What each value becomes, so that values occur equally often."""
    out = vc.output(vc.u8, counts.shape)
    channel, value = vc.global_id.yx
    total, below, lowest = vc.u32(0), vc.u32(0), vc.u32(0)
    for k in range(VALUES):
        total += counts[channel, k]
        below, lowest = total if k <= value else below, total if lowest == 0 else lowest
    out[channel, value] = vc.u8(vc.rint(vc.f32(below - lowest) * 255 / vc.f32(total - lowest)))  # NaN becomes 0


@vc.kernel(block=(3, 64))
def replace(picture: vc.In[vc.u8, 3], table: vc.In[vc.u8, 2]):
    out = vc.output(vc.u8, picture.shape)
    y, x, channel = vc.global_id.zyx
    out[y, x, channel] = table[channel, picture[y, x, channel]]


def processed(device: vc.Device, picture: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    """The blurred picture, its edges, and the equalized picture, of a uint8 picture of shape (height, width, 3)."""
    blurred = blur.on(device, dy=1, dx=0)(blur.on(device, dy=0, dx=1)(picture))
    table = levels.on(device)(histogram.on(device)(picture))
    return blurred, edges.on(device)(blurred), replace.on(device)(picture, table)


def numpy_blurred(picture: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    """`blur`, operation for operation."""
    padded = np.pad(picture, [(3, 3) if each == axis else (0, 0) for each in range(3)], mode="edge")
    total = np.zeros(picture.shape, np.float32)
    for k, weight in enumerate(WEIGHTS):
        total += weight * np.take(padded, range(k, k + picture.shape[axis]), axis).astype(np.float32)
    return np.rint(total).astype(np.uint8)


def numpy_edges(picture: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`edges` in float64."""
    light = np.pad(picture @ np.array(LUMINANCE), 1, mode="edge")
    across = light[:, 2:] - light[:, :-2]
    down = light[2:] - light[:-2]
    gx = across[:-2] + 2 * across[1:-1] + across[2:]
    gy = down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
    found: npt.NDArray[Any] = np.hypot(gx, gy)
    return found


def numpy_equalized(channel: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`histogram`, `levels` and `replace` for one channel."""
    sums = np.bincount(channel.ravel(), minlength=VALUES).cumsum()
    above = np.maximum(sums - sums[sums > 0][0], 0)
    span = np.float32(max(above[-1], 1))  # a channel with one value becomes 0
    return np.rint(above.astype(np.float32) * 255 / span).astype(np.uint8)[channel]


def differences(picture: npt.NDArray[Any], results: tuple[npt.NDArray[Any], ...]) -> list[str]:
    """Which results are not NumPy's."""
    blurred = numpy_blurred(numpy_blurred(picture, 1), 0)
    equalized = np.stack([numpy_equalized(picture[..., channel]) for channel in range(3)], axis=-1)
    same = {
        "blur": np.array_equal(results[0], blurred),
        "edges": np.allclose(results[1], numpy_edges(blurred), rtol=0, atol=1e-3),
        "equalized": np.array_equal(results[2], equalized),
    }
    return [name for name, value in same.items() if not value]


def scene(width: int, height: int) -> npt.NDArray[Any]:
    """A dim picture of disks in front of a slope of colors."""
    y, x = np.mgrid[:height, :width] / max(width, height)
    picture = np.stack([60 + 50 * x, 70 + 40 * y, 110 - 40 * x * y], axis=-1)
    for k in range(12):
        inside = (x - (0.37 * k + 0.1) % 1) ** 2 + (y - (0.23 * k + 0.1) % 0.8) ** 2 < (0.03 + 0.006 * k) ** 2
        picture[inside] = 40 + np.array([37 * k, 61 * k, 89 * k]) % 120
    return picture.astype(np.uint8)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="blur, edges and equalized contrast of a picture, checked with NumPy")
    parser.add_argument("file", type=Path, help="the PNG file to write")
    parser.add_argument("--source", type=Path, help="the picture to read (default: one that is computed)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)

    picture = scene(320, 240)
    if options.source is not None:
        with Image.open(options.source) as image:
            picture = np.asarray(image.convert("RGB"))
    with vc.Device(options.device) as device:
        results = processed(device, picture)
        print(f"{options.file}: {picture.shape[1]} x {picture.shape[0]} pixels on {device.properties.name}")
    shown = np.minimum(results[1], 255).astype(np.uint8)
    beside = [picture, results[0], np.repeat(shown[..., None], 3, axis=-1), results[2]]
    Image.fromarray(np.concatenate(beside, axis=1)).save(options.file, format="PNG")

    wrong = differences(picture, results)
    if wrong:
        print(f"differs from NumPy: {', '.join(wrong)}", file=sys.stderr)
        return 1
    print("the same as NumPy, the edges within 0.001")
    return 0


if __name__ == "__main__":
    sys.exit(main())
