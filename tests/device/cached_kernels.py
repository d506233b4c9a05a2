"""What the tests of cached kernels look at: counters of a device that was opened, files, and whether saxpy computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

import vyre_cuda as vc

Open = Callable[[], vc.Device]
X = np.arange(300, dtype=np.float32)


def counted(device: vc.Device) -> dict[str, int]:
    """The counters that are not 0."""
    return {name: value for name, value in asdict(device.stats()).items() if value}


def moved(device: vc.Device, *names: str) -> list[int]:
    found = counted(device)
    return [found.get(name, 0) for name in names]


def entries(root: Path) -> list[Path]:
    return sorted((root / "kernels").iterdir())


def check_saxpy(kernel: vc.Kernel) -> None:
    np.testing.assert_array_equal(kernel(X, X, 2.0), X * 3)
