"""The native programs, built by CMake and run by ctest, on the emulator.

Without --long they are given the installed emulator; with it, the emulator is built, too, and so is what looks into it.
The same programs run under the sanitizers: `nox -s sanitizers`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from background_jobs import LABELS
from background_work import Done
from bundled_rows import chain, gaps, placed, scaled, sized, tables

import vyre_cuda as vc

HERE = Path(__file__).parent
EMULATOR = Path(vc.get_library_dir()) / "libvyre_cuda_emulator.so"

pytestmark = pytest.mark.slow


def call(*words: str | Path, **environment: str) -> str:
    """What a program prints, of the environment that the tests run in first. It must not fail."""
    places = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)))
    program = shutil.which(words[0], path=places)
    assert program is not None, f"{words[0]} is not installed"
    done = subprocess.run(
        [program, *words[1:]],
        env={**os.environ, "PATH": places, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(native_build: Path) -> Path:
    """With all programs."""
    call("cmake", "--build", native_build)
    return native_build


@pytest.mark.emulator
@pytest.mark.parametrize("label", LABELS)
def test_native_programs_pass(native_runs: Callable[[str], Done], label: str) -> None:
    done = native_runs(label)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.emulator
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_native_programs_that_take_minutes_pass(built: Path) -> None:
    call("ctest", "--test-dir", built, "-L", "^long$", "-j2", "--output-on-failure", "--no-tests=error")


@pytest.mark.emulator
@pytest.mark.valgrind
@pytest.mark.thin
def test_finishing_a_graph_takes_about_as_long_for_each_launch_however_many_there_are(built: Path) -> None:
    """Instructions within vyc_graph_finish, of outputs at descending addresses."""
    tool = ["valgrind", "--tool=callgrind", "--toggle-collect=vyc_graph_finish", "--callgrind-out-file=/dev/null"]
    used: dict[int, int] = {}
    for count in (500, 4000):
        told = call(*tool, built / "tests" / "native" / "growth", EMULATOR, GROWTH_COUNT=str(count))
        used[count] = int(told.split("Collected : ")[1].split()[0])

    assert used[500] > 500 * 100
    assert used[4000] / 4000 < 2 * used[500] / 500


def on_device(
    folder: Path, name: str, device_name: int | str, *words: str, bundle: Path = HERE / "example.vyre"
) -> str:
    """What a program prints that runs on the emulator or on a GPU: `DRIVER BUNDLE` and more words."""
    call("cmake", "--build", folder, "--target", name)
    driver = EMULATOR if device_name == "emulator" else os.environ.get("VYRE_CUDA_DRIVER", "libcuda.so.1")
    return call(folder / "tests" / "native" / name, driver, bundle, *words)


@pytest.mark.thin
@pytest.mark.device
@pytest.mark.parametrize("context", ["primary", pytest.param("created", marks=pytest.mark.cuda)])
def test_a_host_keeps_its_context_stream_and_memory(native_build: Path, device_name: int | str, context: str) -> None:
    """On a GPU: `python -m pytest tests/native -k host_keeps --device=cuda`. The emulator has no cuCtxCreate."""
    printed = on_device(native_build, "hosted", device_name, context)

    assert printed.endswith(" 0 failed\n")


@pytest.mark.thin
@pytest.mark.device
@pytest.mark.parametrize("seconds", [0, pytest.param(60, marks=pytest.mark.long)])
def test_a_host_that_never_stops_keeps_its_memory_flat(
    native_build: Path, device_name: int | str, seconds: int
) -> None:
    """On a GPU: `python -m pytest tests/native -k never_stops --device=cuda --long`."""
    printed = on_device(native_build, "soak", device_name, str(seconds))

    assert int(printed.split()[0]) >= 6


@pytest.mark.device
def test_a_host_launches_a_graph_with_grid_barriers(
    native_build: Path, tmp_path: Path, device: vc.Device, device_name: int | str
) -> None:
    b = vc.Builder("turn", block=64)
    h = b.inout("h", vc.u32)
    i = b.let("i", vc.global_id.x)
    value = b.let("value", h[(i + 1) % h.size])
    b.grid_barrier()
    h[i] = value + 1
    kernel = device.compile(b.build())
    array = device.array(np.arange(256, dtype=np.uint32))
    with device.record() as graph, graph.repeat(2):
        kernel.launch(vc.symbol("h", array))
    graph.export(tmp_path / "turns.vyre", "turns")

    on_device(native_build, "turns", device_name, bundle=tmp_path / "turns.vyre")


@pytest.mark.thin
@pytest.mark.device
def test_a_host_does_many_launches_of_a_bundle_as_one(
    native_build: Path, tmp_path: Path, device: vc.Device, device_name: int | str
) -> None:
    """On a GPU: `python -m pytest tests/native -k many_launches_of_a_bundle --device=cuda`."""
    programs = [scaled(), gaps(), sized()]
    table, _ = tables(device, 3, 16)
    table.compile()
    graphs = {"table": table, "chain": chain(device, defaults=False), "placed": placed(device, 3, 48)}
    path = tmp_path / "rows.vyre"
    many = [program.name for program in programs]
    vc.bundle(programs, path, graphs=graphs, targets=[str(device.target)], source=False, many=many)

    on_device(native_build, "bundled_rows", device_name, bundle=path)
