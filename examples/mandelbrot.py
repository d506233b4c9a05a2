"""A picture of the Mandelbrot set, written as PNG. Needs Pillow (`pip install pillow`).

Run it: `python examples/mandelbrot.py mandelbrot.png --width 640 --height 480 --device auto`.
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

# The corner of the picture in the complex plane, and how much of it the picture's width shows.
LEFT, TOP, ACROSS = -2.25, -1.125, 3.0


def build() -> vc.Program:
    b = vc.Builder("mandelbrot", block=(16, 16))
    width = b.scalar("width", vc.u32)
    height = b.scalar("height", vc.u32)
    step = b.scalar("step", vc.f32)
    limit = b.scalar("limit", vc.u32)
    counts = b.output("counts", vc.u32, shape=(height, width))
    b.work(width, height)
    column = b.let("column", vc.global_id.x)
    row = b.let("row", vc.global_id.y)
    with b.if_((column < width) & (row < height)):
        cr = b.let("cr", LEFT + vc.f32(column) * step)
        ci = b.let("ci", TOP + vc.f32(row) * step)
        re = b.var("re", vc.f32(0))
        im = b.var("im", vc.f32(0))
        n = b.var("n", vc.u32(0))
        with b.while_(lambda: (re * re + im * im <= 4) & (n < limit)):
            next_re = re * re - im * im + cr  # read before re changes
            im.set(2 * re * im + ci)
            re.set(next_re)
            n.set(n + 1)
        counts[row, column] = n
    return b.build()


MANDELBROT = build()


def pixel_step(width: int) -> float:
    """The width of a pixel in the complex plane, as a float32 number."""
    return float(np.float32(ACROSS / width))


def escape_counts(device: vc.Device, width: int, height: int, limit: int) -> npt.NDArray[Any]:
    """Iterations until each point escapes, at most `limit`; shape (height, width), uint32."""
    counts: npt.NDArray[Any] = device.run(MANDELBROT, width, height, pixel_step(width), limit)
    return counts


def numpy_counts(width: int, height: int, limit: int) -> npt.NDArray[Any]:
    """The same with NumPy, operation for operation."""
    step = np.float32(pixel_step(width))
    cr = np.broadcast_to(np.float32(LEFT) + np.arange(width, dtype=np.float32) * step, (height, width)).reshape(-1)
    rows = np.float32(TOP) + np.arange(height, dtype=np.float32) * step
    ci = np.repeat(rows, width)
    counts = np.zeros(width * height, np.uint32)
    alive = np.arange(counts.size)
    re, im = np.zeros(counts.size, np.float32), np.zeros(counts.size, np.float32)
    for _ in range(limit):
        inside = re * re + im * im <= 4
        alive, re, im = alive[inside], re[inside], im[inside]
        counts[alive] += 1
        re, im = re * re - im * im + cr[alive], 2 * re * im + ci[alive]
    return counts.reshape(height, width)


def picture(counts: npt.NDArray[Any], limit: int) -> Image.Image:
    """Points that never escape are black, the others run from blue over white to orange."""
    shade = np.sqrt(counts / limit)
    stops = [0.0, 0.15, 0.4, 0.7, 1.0]
    colors = np.array([[0, 7, 100], [32, 107, 203], [237, 255, 255], [255, 170, 0], [80, 20, 0]])
    rgb = np.stack([np.interp(shade, stops, colors[:, channel]) for channel in range(3)], axis=-1)
    rgb[counts == limit] = 0
    return Image.fromarray(rgb.astype(np.uint8))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="the Mandelbrot set as PNG, checked against NumPy")
    parser.add_argument("file", type=Path, help="the PNG file to write")
    parser.add_argument("--width", type=int, default=640, help="pixels (default: 640)")
    parser.add_argument("--height", type=int, default=480, help="pixels (default: 480)")
    parser.add_argument("--limit", type=int, default=200, help="most iterations (default: 200)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)

    size = (options.width, options.height, options.limit)
    if min(size) < 1:
        parser.error("width, height and limit are at least 1")
    with vc.Device(options.device) as device:
        counts = escape_counts(device, *size)
        where = device.properties.name
    picture(counts, options.limit).save(options.file, format="PNG")
    print(f"{options.file}: {options.width} x {options.height} pixels, {int(counts.sum()):,} iterations on {where}")

    if not np.array_equal(counts, numpy_counts(*size)):
        print("differs from NumPy", file=sys.stderr)
        return 1
    print("the same as NumPy, count for count")
    return 0


if __name__ == "__main__":
    sys.exit(main())
