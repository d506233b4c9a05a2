"""Another library on the device under test, devices with a cache directory of their own, the benchmarks as modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import vyre_cuda as vc

from .benchmark_scripts import BENCHMARKS
from .cached_kernels import Open
from .foreign_library import ForeignStream, Library


@pytest.fixture
def on(device_name: int | str) -> tuple[str, str]:
    """The option of the command line that names the device under test."""
    return "--device", str(device_name)


@pytest.fixture
def library(device: vc.Device) -> Iterator[Library]:
    with Library(device.properties.ordinal, is_emulator=device.properties.is_emulator).current() as opened:
        yield opened


@pytest.fixture
def stream(library: Library) -> Iterator[ForeignStream]:
    opened = library.stream()
    yield opened
    opened.destroy()


@pytest.fixture
def cache_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache directory of the devices that a test opens."""
    root = tmp_path / "cache"
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", str(root))
    return root


@pytest.fixture
def opened(device_name: int | str, cache_root: Path) -> Iterator[Open]:
    """Opens devices that the test need not close; `cache_root` is their cache."""
    devices = []

    def open_one() -> vc.Device:
        devices.append(vc.Device(device_name))
        return devices[-1]

    yield open_one
    for device in devices:
        device.close()


@pytest.fixture
def benchmarks_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What benchmark_scripts.harness needs."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
