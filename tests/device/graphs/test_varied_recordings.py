"""Random recordings in which each kind of merge and each refusal comes up: the same bytes with fusing and without."""

from __future__ import annotations

import gc
import weakref

import pytest

import vyre_cuda as vc

from .varied_programs import Kernels
from .varied_recordings import KINDS, Varied, compare, kind_of, some_of_each

SLICE = 500
PLAIN = 100
LONG = [pytest.param(slice_, marks=[pytest.mark.long, pytest.mark.timeout(1200)]) for slice_ in range(41)]
# What 500 recordings have at least: 20,000 have 500 of each.
LEAST = {
    "own elements": 60,
    "blocks": 60,
    "loops of own elements": 13,
    "loops of blocks": 13,
    "tables": 13,
    "loops that arrays end": 13,
    "tables of several kernels": 13,
    "temporaries without memory": 13,
    "temporaries in shared memory": 13,
    "refused: options": 13,
    "refused: launch": 13,
    "refused: statement": 13,
    "refused: return": 13,
    "refused: overlap": 13,
    "refused: view": 13,
    "refused: element": 13,
    "refused: unknown": 13,
    "refused: clear": 13,
    "refused: precision": 13,
    "refused: size": 13,
    "refused: not a row of a table": 13,
    "refused: never merged": 13,
}


@pytest.fixture(scope="module")
def kernels(shared_device: vc.Device) -> Kernels:
    return Kernels(shared_device)


def check(shared_device: vc.Device, kernels: Kernels, seeds: range) -> None:
    counts = compare(shared_device, kernels, seeds)
    print(dict(sorted(counts.items())))

    assert counts["recordings"] == len(seeds)
    few = {what: counts[what] for what, least in LEAST.items() if counts[what] < least * len(seeds) // SLICE}
    assert not few


@pytest.mark.slow
def test_recordings_of_all_kinds_leave_the_same_bytes(shared_device: vc.Device, kernels: Kernels) -> None:
    check(shared_device, kernels, range(PLAIN))


@pytest.mark.parametrize("fuse", [False, True])
def test_graphs_end_with_their_last_reference(shared_device: vc.Device, kernels: Kernels, fuse: bool) -> None:
    """Not when cycles are collected next: until then the driver would keep what it needs for their nodes."""
    seeds = {kind_of(seed): seed for seed in range(200, 0, -1)}
    assert {*seeds} == {*KINDS}
    left = []
    gc.collect()
    gc.disable()
    try:
        for kind, seed in seeds.items():
            recording = Varied(shared_device, kernels, seed)
            graph = recording.record(fuse=fuse)
            graph.replay()
            graph.explain()
            ends = weakref.ref(graph)
            del recording, graph
            left += [kind] if ends() is not None else []
    finally:
        gc.enable()
    assert left == []


@pytest.mark.slow
@pytest.mark.emulator
def test_recordings_of_all_kinds_have_no_races() -> None:
    with vc.Device("emulator", check="races") as device:
        kernels = Kernels(device)
        for seed in some_of_each(5):
            graph = Varied(device, kernels, seed).record(fuse=True)
            graph.replay()
            device.synchronize()


@pytest.mark.parametrize("slice_", LONG)
def test_many_recordings_leave_the_same_bytes(shared_device: vc.Device, kernels: Kernels, slice_: int) -> None:
    check(shared_device, kernels, range(SLICE * slice_, SLICE * (slice_ + 1)))
