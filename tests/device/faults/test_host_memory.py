"""Host memory that runs out at every allocation of the C layer and of the extensions, by `host_memory_sweep`.

tests/native/test_host_memory.c does the same of the C interface alone, under the sanitizers, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import host_faults_library
import pytest

import vyre_cuda as vc

from .fault_scenarios import SCENARIOS

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What stands before the allocator."""
    return host_faults_library.build(tmp_path_factory.mktemp("host_faults"))


@pytest.mark.thin
@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 0))])
@pytest.mark.parametrize("name", SCENARIOS)
def test_memory_of_the_host_may_run_out_at_every_allocation(
    library: Path, tmp_path: Path, name: str, count: int
) -> None:
    environment = {**os.environ, "LD_PRELOAD": str(library), "VYRE_CUDA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "tests.device.faults.host_memory_sweep", str(library), name, str(count)]

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) > 20


def test_shortages_of_memory_are_memory_errors(device: vc.Device) -> None:
    with pytest.raises(MemoryError) as caught:
        device.empty(1 << 60, vc.u8)

    assert type(caught.value) is vc.ResourceError
