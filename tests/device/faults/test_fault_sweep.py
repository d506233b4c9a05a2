"""The sweep of `fault_sweep` over `fault_scenarios`: a part of it in every run, all of it with --long."""

from __future__ import annotations

import pytest

from vyre_cuda.testing.emulator import STREAM_MODES, Emulator, StreamMode

from .fault_scenarios import SCENARIOS
from .fault_sweep import ILLEGAL_ADDRESS, NOT_INITIALIZED, OUT_OF_MEMORY, UNKNOWN, Sweep

pytestmark = pytest.mark.emulator

MANY_USES = 12  # some are looks in a loop, as many as there is time for


def sweep(emulator: Emulator, name: str, mode: StreamMode, results: tuple[int, ...], most: int) -> None:
    one = Sweep(emulator, SCENARIOS[name], mode)
    problems = [problem for fault in one.faults(results, most) for problem in one.check(fault)]

    assert problems == []


@pytest.mark.thin
@pytest.mark.parametrize("result", [UNKNOWN, OUT_OF_MEMORY, ILLEGAL_ADDRESS])
@pytest.mark.parametrize("name", SCENARIOS)
def test_first_and_last_uses_of_every_call_may_fail(emulator: Emulator, name: str, result: int) -> None:
    sweep(emulator, name, "lazy", (result,), 2)


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_memory_of_the_device_may_run_out_at_every_use(emulator: Emulator, name: str) -> None:
    one = Sweep(emulator, SCENARIOS[name], "lazy")

    assert [problem for fault in one.shortages() for problem in one.check(fault)] == []


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", STREAM_MODES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_many_uses_of_every_call_may_fail(emulator: Emulator, name: str, mode: StreamMode) -> None:
    sweep(emulator, name, mode, (UNKNOWN, OUT_OF_MEMORY, ILLEGAL_ADDRESS, NOT_INITIALIZED), MANY_USES)
