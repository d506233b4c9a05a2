"""Passes and lowering are imported while a driver makes a context; with kernels on disk, no longer than that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

# A process on a device that says that it is no emulator, which would take long to make its context.
OPENED = """
import json, os, sys
import vyre_cuda as vc
from vyre_cuda._native.core.context import Driver
from vyre_cuda.runtime.base import device_selection
from vyre_cuda.runtime.device import device as devices

class Gpu(Driver):
    def info(self):
        return (*super().info()[:2], False)

path = os.path.join(device_selection.get_library_dir(), device_selection.EMULATOR_LIBRARY)
if sys.argv[1] == "gpu":
    devices.open_driver = lambda which, check: (Gpu(path), 0, frozenset())

def loaded():
    rooms = ("passes", "codegen.emit", "codegen.forms", "codegen.lower", "codegen.ssa", "codegen.terms")
    return [name for name in sys.modules if name.startswith(tuple("vyre_cuda." + room for room in rooms))]

@vc.kernel
def scaled(x: vc.In[vc.f32], a: vc.f32):
    out = vc.output(vc.f32, x.size)
    i = vc.global_id.x
    if i < out.size:
        out[i] = a * x[i] + x[i]

scaled.program()
"""
IMPORTED = """
device = vc.Device("emulator")
begun = getattr(sys.modules.get("vyre_cuda.runtime.kernel.preloading"), "_begun", [])
for thread in begun:
    thread.join()
before = loaded()
kernel = scaled.on(device)
print(json.dumps([len(begun), before, sorted(set(loaded()) - set(before))]))
"""
# A driver that works until the imports are done.
LONG = """
def long(driver, ordinal, made=devices.Context):
    for thread in sys.modules["vyre_cuda.runtime.kernel.preloading"]._begun:
        thread.join()
    return made(driver, ordinal)

devices.Context = long
"""
# A driver that is done while the first module is imported.
SHORT = """
import threading
from vyre_cuda.runtime.kernel import preloading
begun, opened, steps = threading.Event(), threading.Event(), []

def slow(name, found=preloading.import_module):
    begun.set()
    opened.wait()
    steps.append(name)
    return found(name)

def short(driver, ordinal, made=devices.Context):
    begun.wait()
    return made(driver, ordinal)

preloading.import_module, devices.Context = slow, short
device = vc.Device("emulator")
opened.set()
for thread in preloading._begun:
    thread.join()
print(json.dumps([len(preloading._begun), len(steps), loaded()]))
"""
MORE_CORES = """
from vyre_cuda.runtime.kernel import preloading
preloading._cores = lambda: 2
"""
ONE_CORE = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
# What each step of the imports brings.
STEPS = """
from importlib import import_module
from vyre_cuda.runtime.kernel import preloading
vc.Device("emulator")
counts = []
for step in preloading._STEPS:
    before = len(sys.modules)
    import_module("vyre_cuda." + step)
    counts.append(len(sys.modules) - before)
before = loaded()
vc.ptx(scaled)
print(json.dumps([max(counts), [name for name in loaded() if name not in before]]))
"""
# Lowers the same beside the thread, which is interrupted as often as possible.
BESIDE = """
sys.setswitchinterval(1e-6)
device = vc.Device("emulator")
found = vc.ptx(scaled)
kernel = scaled.on(device)
print(json.dumps([len(sys.modules["vyre_cuda.runtime.kernel.preloading"]._begun), found]))
"""
FORKED = """
from vyre_cuda.runtime.kernel import preloading
with preloading.beside_a_driver():
    pass
child = os.fork()
if child == 0:
    vc.ptx(scaled)
    os._exit(0)
print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]))
"""


def run(tmp_path: Path, rest: str, which: str = "gpu", cache: str | None = None) -> list[Any]:
    script = tmp_path / "script.py"
    script.write_text(OPENED + rest)
    environment = {**os.environ, "VYRE_CUDA_CACHE_DIR": str(tmp_path / "cache") if cache is None else cache}
    done = subprocess.run(
        [sys.executable, str(script), which], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def test_with_an_empty_cache_a_first_kernel_imports_neither_passes_nor_lowering(tmp_path: Path) -> None:
    begun, before, then = run(tmp_path, IMPORTED)

    assert (begun, then) == (1, [])
    assert {"vyre_cuda.passes.pipeline", "vyre_cuda.codegen.lower"} <= set(before)


@pytest.mark.thin
def test_without_a_cache_it_is_the_same(tmp_path: Path) -> None:
    begun, _, then = run(tmp_path, IMPORTED, cache="off")

    assert (begun, then) == (1, [])


@pytest.mark.thin
def test_with_kernels_in_the_cache_another_kernel_finds_them_imported_while_the_driver_worked(tmp_path: Path) -> None:
    run(tmp_path, IMPORTED)
    begun, before, then = run(tmp_path, MORE_CORES + LONG + IMPORTED)

    assert (begun, then) == (1, [])
    assert {"vyre_cuda.passes.pipeline", "vyre_cuda.codegen.lower"} <= set(before)


def test_with_kernels_in_the_cache_the_imports_end_with_the_work_of_the_driver(tmp_path: Path) -> None:
    run(tmp_path, IMPORTED)

    assert run(tmp_path, MORE_CORES + SHORT) == [1, 1, []]


@pytest.mark.thin
def test_with_an_empty_cache_the_imports_go_on_until_they_are_done(tmp_path: Path) -> None:
    begun, steps, found = run(tmp_path, SHORT)

    assert begun == 1
    assert steps > 10
    assert "vyre_cuda.codegen.lower" in found


@pytest.mark.thin
def test_with_kernels_in_the_cache_a_single_core_imports_nothing_ahead(tmp_path: Path) -> None:
    run(tmp_path, IMPORTED)

    assert run(tmp_path, ONE_CORE + LONG + IMPORTED) == [0, [], []]


def test_what_is_imported_between_two_looks_at_the_driver_is_little_and_in_sum_all(tmp_path: Path) -> None:
    most, left = run(tmp_path, STEPS, "emulator")

    assert most <= 8
    assert left == []


def test_for_an_emulator_which_opens_at_once_nothing_is_imported_ahead(tmp_path: Path) -> None:
    begun, before, _ = run(tmp_path, IMPORTED, "emulator")

    assert (begun, before) == (0, [])


@pytest.mark.thin
def test_who_compiles_in_the_meantime_gets_the_same_text(tmp_path: Path) -> None:
    beside = [run(tmp_path, BESIDE, cache="off") for _ in range(3)]
    alone = run(tmp_path, "print(json.dumps([vc.ptx(scaled)]))", cache="off")

    assert beside == [[1, *alone]] * 3


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_that_is_forked_in_the_meantime_can_lower(tmp_path: Path) -> None:
    assert run(tmp_path, FORKED) == [0]
