"""A filter over a stream of samples: a low pass with 65 taps that keeps every fourth sample.

Each block of samples is one replay of a graph, which keeps the last samples of the block before on the device.

Run it: `python examples/fir.py --blocks 50 --device auto`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import vyre_cuda as vc

SAMPLES, STEP, TAPS = 1024, 4, 65
CUTOFF = 0.1  # cycles per sample; what is kept has 0.125 at most
# Tones of the check: cycles per sample.
TONES = (0.01, 0.05, 0.09, 0.11, 0.17, 0.25, 0.4)


def low_pass(count: int, cutoff: float) -> tuple[float, ...]:
    """The taps of a windowed sinc, as float32 numbers; their sum is 1."""
    ideal = np.sinc(2 * cutoff * (np.arange(count) - (count - 1) / 2)) * np.hamming(count)
    return tuple((ideal / ideal.sum()).astype(np.float32).tolist())


@vc.kernel(block=128)
def decimate(line: vc.In[vc.f32], taps: vc.const, step: vc.const):
    out = vc.output(vc.f32, (line.size - len(taps)) // step + 1)
    i = vc.global_id.x
    out[i] = sum(tap * line[i * step + k] for k, tap in enumerate(reversed(taps)))  # past the end nothing is written


def filtered(device: vc.Device, blocks: Iterable[npt.NDArray[Any]]) -> Iterator[npt.NDArray[Any]]:
    """The filtered samples of each block. The stream before the first block is silence."""
    kernel = decimate.on(device, taps=low_pass(TAPS, CUTOFF), step=STEP)
    line = device.zeros(TAPS - 1 + SAMPLES, vc.f32)
    out = device.empty((SAMPLES - 1) // STEP + 1, vc.f32)
    samples, result = device.pinned_empty(SAMPLES, vc.f32), device.pinned_empty(out.size, vc.f32)
    with device.record() as graph:
        line[: TAPS - 1].copy_from(line[SAMPLES:])
        line[TAPS - 1 :].copy_from(samples)
        kernel.launch(line, out)
        graph.download(out, result)
    for block in blocks:
        samples[:] = block
        graph.replay()
        device.synchronize()
        yield result.copy()


def numpy_filtered(stream: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same in float64."""
    taps = np.array(low_pass(TAPS, CUTOFF))
    return np.convolve(stream.astype(np.float64), taps)[: stream.size : STEP]


def tones(count: int) -> npt.NDArray[Any]:
    """The sum of all tones."""
    time = np.arange(count)
    return np.sum([np.sin(2 * np.pi * tone * time) for tone in TONES], axis=0).astype(np.float32)


def level(samples: npt.NDArray[Any], cycles: float) -> float:
    """The amplitude of a tone in the later part of a stream, in dB."""
    later = samples[samples.size // 4 :]
    wave = np.exp(-2j * np.pi * cycles * np.arange(later.size)) * np.hanning(later.size)
    amplitude = 4 * abs(np.sum(later * wave)) / later.size
    return round(float(20 * np.log10(amplitude + 1e-12)), 1) + 0.0  # without -0.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="a low pass over a stream of tones, checked against NumPy")
    parser.add_argument("--blocks", type=int, default=50, help=f"blocks of {SAMPLES} samples (default: 50)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)
    if options.blocks < 1:
        parser.error("--blocks is at least 1")

    stream = tones(options.blocks * SAMPLES)
    with vc.Device(options.device) as device:
        out = np.concatenate(list(filtered(device, stream.reshape(-1, SAMPLES))))
        print(f"{stream.size:,} samples to {out.size:,} on {device.properties.name}")
    print("cycles per sample   before     after")
    for tone in TONES:
        # At the new rate a tone has `STEP` times as many cycles per sample; whole cycles do not show.
        print(f"{tone:17}{level(stream, tone):8.1f} dB{level(out, tone * STEP):7.1f} dB")

    error = float(np.max(np.abs(out - numpy_filtered(stream))))
    if error > 1e-5:
        print(f"differs from NumPy by {error:.1e}", file=sys.stderr)
        return 1
    print(f"within {error:.1e} of np.convolve in float64")
    return 0


if __name__ == "__main__":
    sys.exit(main())
