"""A program is compiled once: what is in memory or on disk is used, in one process and in many."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from side_by_side import side_by_side

import vyre_cuda as vc

from .. import programs
from ..cached_kernels import check_saxpy, counted, entries, moved

# ---- hits ------------------------------------------------------------------------------------------------------------


def test_a_program_is_compiled_once_in_the_life_of_a_machine(opened, cache_root):
    first, second = opened(), opened()
    made = first.compile(programs.saxpy())
    found = second.compile(programs.saxpy())

    assert moved(first, "compiles", "kernel_cache_misses", "disk_cache_misses", "disk_cache_hits") == [1, 1, 1, 0]
    assert moved(second, "compiles", "kernel_cache_misses", "disk_cache_misses", "disk_cache_hits") == [0, 1, 0, 1]
    size = sum(path.stat().st_size for path in entries(cache_root))
    assert moved(first, "disk_cache_written_bytes") == moved(second, "disk_cache_read_bytes") == [size]
    assert counted(first)["compile_ns_total"] > 0
    assert found.ptx == made.ptx
    assert found.attributes == made.attributes
    check_saxpy(made)
    check_saxpy(found)


def test_a_kernel_in_memory_is_the_same_kernel(opened):
    device = opened()
    kernel = device.compile(programs.saxpy())

    assert device.compile(programs.saxpy()) is kernel
    assert moved(device, "kernel_cache_hits", "kernel_cache_misses", "disk_cache_misses") == [1, 1, 1]


def test_every_option_has_a_file_of_its_own(opened, cache_root):
    for device in (opened(), opened()):
        kernels = {
            (precision, bounds): device.compile(programs.saxpy(), precision=precision, bounds=bounds)
            for precision in ("ieee", "fast")
            for bounds in ("check", "trap", "off")
        }
        for kernel in kernels.values():
            check_saxpy(kernel)

    assert len(entries(cache_root)) == 6
    assert moved(device, "disk_cache_hits", "compiles") == [6, 0]


def test_an_unknown_option_is_refused_with_any_cache(opened, cache_root):
    device = opened()
    device.compile(programs.saxpy())

    with pytest.raises(ValueError, match="precision"):
        device.compile(programs.saxpy(), precision="sloppy")
    assert len(entries(cache_root)) == 1


@pytest.mark.parametrize("make", [programs.add_to, programs.divmod_of, programs.every_second, programs.histogram])
def test_a_kernel_from_disk_computes_the_same(make, opened):
    program = make()
    arguments: list[Any] = [
        np.arange(1, 200).astype(p.type.dtype) if p.is_buffer else p.type.dtype.type(7)
        for p in program.parameters
        if p.kind != "out"
    ]
    expected = vc.evaluate(program, *arguments)
    for device in (opened(), opened()):
        np.testing.assert_array_equal(device.run(program, *arguments), expected)

    assert moved(device, "disk_cache_hits") == [1]


def asserting(message: str = "too large") -> vc.Program:
    b = vc.Builder("asserting", block=32)
    x, out = b.input("x", vc.u32), b.output("out", vc.u32, size=4)
    i = b.let("i", vc.global_id.x)
    b.assert_(x[i] < 100, message)
    out[i] = x[i]
    return b.build()


def test_a_failed_assertion_names_the_line_of_the_program_that_runs(opened):
    opened().compile(vc.parse(asserting().text()))
    kernel = opened().compile(asserting())

    with pytest.raises(vc.KernelAssertionError) as caught:
        kernel(np.array([1, 2, 300, 4], np.uint32))
    assert caught.value.message == "too large"
    assert caught.value.thread == 2
    assert caught.value.source is not None
    assert caught.value.source[0] == __file__


def test_a_failed_bounds_check_names_its_line(opened):
    b = vc.Builder("leaving", block=32)
    x, out = b.input("x", vc.u32), b.output("out", vc.u32, size=4)
    out[vc.global_id.x] = x[vc.global_id.x + 3]
    program = b.build()
    opened().compile(program, bounds="trap")
    device = opened()
    kernel = device.compile(program, bounds="trap")

    with pytest.raises(vc.KernelAssertionError) as caught:
        kernel(np.arange(4, dtype=np.uint32))
    assert moved(device, "disk_cache_hits") == [1]
    assert caught.value.index is not None
    assert caught.value.source is not None
    assert caught.value.source[0] == __file__


@pytest.mark.emulator
def test_a_device_that_looks_for_races_keeps_nothing(cache_root):
    with vc.Device("emulator", check="races") as device:
        check_saxpy(device.compile(programs.saxpy()))

    assert not cache_root.exists()


# ---- one at a time ---------------------------------------------------------------------------------------------------


def test_threads_that_ask_for_one_program_compile_it_once(opened):
    device, count = opened(), 8
    gate = threading.Barrier(count)
    kernels: list[vc.Kernel] = []

    def ask() -> None:
        program = programs.saxpy()
        gate.wait()
        kernels.append(device.compile(program))

    side_by_side([ask] * count)

    assert len(kernels) == count
    assert all(kernel is kernels[0] for kernel in kernels)
    assert moved(device, "compiles", "kernel_cache_misses") == [1, 1]


def test_kernels_used_longest_ago_are_dropped(opened, monkeypatch):
    monkeypatch.setattr("vyre_cuda.runtime.kernel.kernels._KEPT", 2)
    device = opened()
    for block in (32, 64, 96):
        device.compile(programs.saxpy(block))

    assert moved(device, "kernel_cache_evictions") == [1]
    assert moved(device, "kernel_cache_entries") == [2]
    check_saxpy(device.compile(programs.saxpy(32)))
    assert moved(device, "compiles", "disk_cache_hits") == [3, 1]


def test_kernels_that_are_too_many_bytes_are_dropped(opened, monkeypatch):
    sizes = [opened().compile(programs.saxpy(block)).nbytes for block in (32, 64)]
    monkeypatch.setattr("vyre_cuda.runtime.kernel.kernels._BYTES_KEPT", sum(sizes) - 1)
    device = opened()
    for block in (32, 64):
        device.compile(programs.saxpy(block))

    assert moved(device, "kernel_cache_entries", "kernel_cache_bytes") == [1, sizes[1]]


# ---- where it is -----------------------------------------------------------------------------------------------------


def test_the_cache_can_be_turned_off(opened, tmp_path, monkeypatch):
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    device = opened()
    check_saxpy(device.compile(programs.saxpy()))

    assert moved(device, "compiles", "disk_cache_misses") == [1, 0]
    assert not (tmp_path / "xdg").exists()


def test_the_cache_is_in_the_users_cache_directory(opened, tmp_path, monkeypatch):
    monkeypatch.delenv("VYRE_CUDA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    opened().compile(programs.saxpy())

    assert len(entries(tmp_path / "xdg" / "vyre-cuda")) == 1


def test_a_home_that_cannot_be_written_is_one_warning(opened, cache_root):
    cache_root.write_text("a file in its place")
    device = opened()
    with pytest.warns(RuntimeWarning, match="not cached on disk") as caught:
        kernels = [device.compile(programs.saxpy(block)) for block in (32, 64)]

    assert len(caught) == 1
    for kernel in kernels:
        check_saxpy(kernel)


def test_no_home_is_a_warning(device_name, monkeypatch):
    for name in ("VYRE_CUDA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.warns(RuntimeWarning, match="VYRE_CUDA_CACHE_DIR"):
        device = vc.Device(device_name)
    with device:
        check_saxpy(device.compile(programs.saxpy()))


# ---- many processes --------------------------------------------------------------------------------------------------


RUN = """
import sys
import numpy as np
import vyre_cuda as vc
name = sys.argv[1]
x = np.arange(300, dtype=np.float32)
with vc.Device(int(name) if name.isdigit() else name) as device:
    for factor in range(int(sys.argv[2])):
        b = vc.Builder("scaled")
        given = b.input("given", vc.f32)
        out = b.output("out", vc.f32, size=given.size)
        with b.if_(vc.global_id.x < out.size):
            out[vc.global_id.x] = given[vc.global_id.x] * float(factor)
        assert (device.run(b.build(), x) == x * factor).all()
    values = device.stats()
print(values.compiles, values.disk_cache_hits, values.disk_cache_errors)
"""


def run(device_name: int | str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", RUN, str(device_name), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy())


def finish(process: subprocess.Popen[str]) -> list[int]:
    out, complaint = process.communicate()
    assert process.returncode == 0, complaint
    return [int(word) for word in out.split()]


@pytest.mark.thin
@pytest.mark.slow
def test_processes_at_once_and_one_after_them_share_what_they_compile(device_name, cache_root):
    count = 6
    together = [finish(process) for process in [run(device_name, count) for _ in range(3)]]
    afterwards = finish(run(device_name, count))

    assert all(compiles + hits == count and errors == 0 for compiles, hits, errors in together)
    assert afterwards == [0, count, 0]
    assert len(entries(cache_root)) == count
