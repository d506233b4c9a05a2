"""Random recordings: with fusing and without they leave the same bytes, whatever their symbols are."""

from __future__ import annotations

import random

import pytest

import vyre_cuda as vc

from .fused_recordings import compare, program

RECORDINGS = pytest.mark.parametrize(
    "number", [30, pytest.param(10000, marks=[pytest.mark.long, pytest.mark.timeout(7200)])]
)


@RECORDINGS
@pytest.mark.parametrize("precision", ["ieee", "ftz"])
def test_fused_recordings_leave_the_same_bytes(device: vc.Device, precision: str, number: int) -> None:
    rng = random.Random(7)
    kernels = [device.compile(program(rng, f"p{k}"), precision=precision) for k in range(40)]
    counts = compare(device, kernels, range(number))
    print(dict(counts))

    assert counts["recordings"] == number
    assert counts["kernels"] > number // 3
    assert counts["merged"] > 2 * counts["kernels"]
    assert counts["without memory"] > number // 10
    assert counts["as recorded"] > number // 10
    assert counts["as fused"] > 2 * number
    # Arrays as small as these fit into one block, so ELEMENT is left to test_varied_recordings.
    for kind in ("OVERLAP", "LAUNCH", "APART"):
        assert counts[kind] > number // 50, kind


@pytest.mark.thin
@RECORDINGS
def test_recordings_of_one_block_leave_the_same_bytes(device: vc.Device, number: int) -> None:
    rng = random.Random(7)
    kernels = [device.compile(program(rng, f"p{k}", block=128)) for k in range(30)]
    counts = compare(device, kernels, range(number))
    print(dict(counts))

    assert counts["of one block"] > number // 15
    assert counts["kernels"] > 2 * counts["of one block"]


@pytest.mark.emulator
def test_merged_kernels_have_no_races() -> None:
    rng = random.Random(9)
    with vc.Device("emulator", check="races") as device:
        kernels = [device.compile(program(rng, f"p{k}", block=None if k % 2 else 128)) for k in range(20)]
        assert compare(device, kernels, range(60))["kernels"] > 20
        device.synchronize()
