"""Driver calls that fail while a recording of any kind is fused: its replays leave the same bytes all the same."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

import vyre_cuda as vc
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.emulator import Emulator

from .varied_programs import Kernels
from .varied_recordings import KINDS, Varied, kind_of

pytestmark = pytest.mark.emulator

UNKNOWN, OUT_OF_MEMORY = 999, 2


@pytest.fixture
def device(leak_check: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[vc.Device]:
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", "off")
    with vc.Device("emulator") as device:
        yield device
        gc.collect()


def one_that_is_fused(device: vc.Device, kind: str) -> Varied:
    kernels = Kernels(device)
    some = (Varied(device, kernels, seed) for seed in range(1000) if kind_of(seed) == kind)
    return next(each for each in some if " one kernel" in each.record(fuse=True).explain())


def calls_of_compile(graph: vc.Graph, emulator: Emulator) -> Counter[str]:
    before = Counter({name: emulator.count(name) for name in emulator.functions()})
    graph.compile()
    return Counter({name: emulator.count(name) for name in before}) - before


@pytest.mark.thin(4)
@pytest.mark.parametrize("result", [UNKNOWN, OUT_OF_MEMORY])
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_fails_leaves_recordings_of_every_kind(
    device: vc.Device, emulator: Emulator, kind: str, result: int
) -> None:
    """The first call of each function, one in the middle and the last one."""
    recording = one_that_is_fused(device, kind)
    recording.record(fuse=False).replay()
    expected = recording.contents()
    ways: Counter[str] = Counter()
    for name, count in calls_of_compile(recording.record(fuse=True), emulator).items():
        for nth in sorted({1, (count + 1) // 2, count}):
            graph = recording.record(fuse=True)
            emulator.fail(name, nth=nth, result=result)
            with suppress(vc.DriverError, vc.ResourceError):
                graph.compile()
            emulator.reset()
            graph.replay()
            for one, other in zip(expected, recording.contents(), strict=True):
                assert_same(one, other)
            ways["as recorded" if "as recorded: fusing failed" in graph.explain() else "fused"] += 1
    assert sum(ways.values()) > 10
    assert ways["as recorded"] > 0 or result == OUT_OF_MEMORY  # after which it is tried again
