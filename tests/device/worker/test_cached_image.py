"""The worker's kernel in the disk cache: another process does not compile it again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc

from .. import programs

X = np.arange(300, dtype=np.float32)


def use(device: vc.Device, *, others: bool = False) -> None:
    saxpy = device.compile(programs.saxpy())
    kernels = [saxpy, device.compile(programs.add_to())]
    with device.worker(kernels[::-1] if others else kernels, idle=0.2) as worker:
        np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))


def test_the_second_device_compiles_and_links_nothing(device_name: int | str, cache_root: Path) -> None:
    with vc.Device(device_name) as device:
        use(device)
        first = device.stats()
    with vc.Device(device_name) as device:
        use(device)
        second = device.stats()
    assert first.compiles == first.module_links > 0
    assert (second.compiles, second.module_links) == (0, 0)
    assert second.disk_cache_hits == first.disk_cache_misses


def test_the_order_of_the_kernels_counts(device_name: int | str, cache_root: Path) -> None:
    for others in (False, True, False, True):
        with vc.Device(device_name) as device:
            use(device, others=others)


@pytest.mark.parametrize("facts", [b"no numbers", b"32", b"2048 0"], ids=["words", "too few", "too many threads"])
def test_a_file_that_cannot_be_used_is_made_again(
    device_name: int | str, cache_root: Path, monkeypatch: pytest.MonkeyPatch, facts: bytes
) -> None:
    from vyre_cuda.runtime.worker import compiled

    with vc.Device(device_name) as device, monkeypatch.context() as wrong:
        wrong.setattr(compiled, "_facts", lambda lowered: facts)
        use(device)
    for compiles in (1, 0):
        with vc.Device(device_name) as device:
            use(device)
            assert device.stats().compiles == compiles
