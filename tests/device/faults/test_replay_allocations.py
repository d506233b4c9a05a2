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


@pytest.mark.parametrize("defaults", [True, False])
def test_arrays_of_merged_steps_change_without_allocations(
    shared_device: vc.Device, tmp_path: Path, defaults: bool
) -> None:
    library, bundle = host_faults_library.build(tmp_path), tmp_path / "chain.vyre"
    graph = chain(shared_device, defaults=defaults)
    vc.bundle([], bundle, graphs={"chain": graph}, targets=[str(shared_device.target)], cubins=False)
    command = [sys.executable, "-m", "tests.device.faults.replays_in_c", str(library), str(bundle)]
    environment = {**os.environ, "LD_PRELOAD": str(library)}

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "0", "4.0", "10.0", "16.0"]  # 3 * (2 * x + 1) + 1
