"""Launches of bundled graphs from C allocate nothing once the graph is made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import host_faults_library
import pytest
from bundled_rows import PLACED, N, chain, placed

import vyre_cuda as vc

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

ROOT = Path(__file__).parents[3]


@pytest.mark.thin(4)
@pytest.mark.parametrize(("factors", "given"), [(0, 0), (20, 18), (13, 5), (14, 0)])  # 3 symbols more
@pytest.mark.parametrize("defaults", [True, False])
def test_arrays_of_merged_steps_change_without_allocations(
    shared_device: vc.Device, tmp_path: Path, defaults: bool, factors: int, given: int
) -> None:
    graph = chain(shared_device, defaults=defaults, factors=factors)
    two = 2 if given else 1

    said = replayed(graph, "out", given, tmp_path)

    assert said == ["True", "0", *(f"{3 * two * (2 * x + 1) + 1:.1f}" for x in range(3))]


@pytest.mark.parametrize("kinds", [1, 3])
def test_arrays_of_rows_change_without_allocations(shared_device: vc.Device, tmp_path: Path, kinds: int) -> None:
    said = replayed(placed(shared_device, kinds, 48), "z", 0, tmp_path)

    assert said == ["True", "0", *(f"{2 * (PLACED * N + x) + PLACED % kinds:.1f}" for x in range(3))]


def replayed(graph: vc.Graph, result: str, given: int, folder: Path) -> list[str]:
    """What `replays_in_c` says."""
    library, bundle = host_faults_library.build(folder), folder / "it.vyre"
    vc.bundle([], bundle, graphs={"it": graph}, targets=[str(graph.device.target)], cubins=False)
    words = map(str, (library, bundle, "it", result, given))
    command = [sys.executable, "-m", "tests.device.faults.replays_in_c", *words]
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
