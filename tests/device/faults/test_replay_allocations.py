"""Launches of bundled graphs from C allocate nothing once the graph is made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import host_faults_library
import pytest
from bundled_rows import chain

import vyre_cuda as vc

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

ROOT = Path(__file__).parents[3]


@pytest.mark.thin(4)
@pytest.mark.parametrize(("factors", "given"), [(0, 0), (20, 18), (13, 5), (14, 0)])  # 3 symbols more
@pytest.mark.parametrize("defaults", [True, False])
def test_arrays_of_merged_steps_change_without_allocations(
    shared_device: vc.Device, tmp_path: Path, defaults: bool, factors: int, given: int
) -> None:
    library, bundle = host_faults_library.build(tmp_path), tmp_path / "chain.vyre"
    graph = chain(shared_device, defaults=defaults, factors=factors)
    vc.bundle([], bundle, graphs={"chain": graph}, targets=[str(shared_device.target)], cubins=False)
    command = [sys.executable, "-m", "tests.device.faults.replays_in_c", *map(str, (library, bundle, factors, given))]
    environment = {**os.environ, "LD_PRELOAD": str(library)}

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    two = 2 if given else 1
    assert done.stdout.split() == ["True", "0", *(f"{3 * two * (2 * x + 1) + 1:.1f}" for x in range(3))]
