"""A program is compiled once: what is in memory or on disk is used, and what cannot be used is made anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.cache import entry
from vyre_cuda.testing.emulator import Emulator

from . import programs

X = np.arange(300, dtype=np.float32)
INVALID_IMAGE, OUT_OF_MEMORY, UNKNOWN = 200, 2, 999


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache directory of the devices that a test opens."""
    root = tmp_path / "cache"
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", str(root))
    return root


@pytest.fixture
def opened(device_name: int | str, root: Path) -> Iterator[Callable[[], vc.Device]]:
    """Opens devices that the test need not close."""
    devices = []

    def open_one() -> vc.Device:
        devices.append(vc.Device(device_name))
        return devices[-1]

    yield open_one
    for device in devices:
        device.close()


def counted(device: vc.Device) -> dict[str, int]:
    """The counters that are not 0."""
    return {name: value for name, value in asdict(device.stats()).items() if value}


def moved(device: vc.Device, *names: str) -> list[int]:
    found = counted(device)
    return [found.get(name, 0) for name in names]


def entries(root: Path) -> list[Path]:
    return sorted((root / "kernels").iterdir())


def check_saxpy(kernel: vc.Kernel) -> None:
    np.testing.assert_array_equal(kernel(X, X, 2.0), X * 3)


# ---- hits ------------------------------------------------------------------------------------------------------------


def test_a_program_is_compiled_once_in_the_life_of_a_machine(opened, root):
    first, second = opened(), opened()
    made = first.compile(programs.saxpy())
    found = second.compile(programs.saxpy())

    assert moved(first, "compiles", "kernel_cache_misses", "disk_cache_misses", "disk_cache_hits") == [1, 1, 1, 0]
    assert moved(second, "compiles", "kernel_cache_misses", "disk_cache_misses", "disk_cache_hits") == [0, 1, 0, 1]
    size = sum(path.stat().st_size for path in entries(root))
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


def test_every_option_has_a_file_of_its_own(opened, root):
    for device in (opened(), opened()):
        kernels = {
            (precision, bounds): device.compile(programs.saxpy(), precision=precision, bounds=bounds)
            for precision in ("ieee", "fast")
            for bounds in ("check", "trap", "off")
        }
        for kernel in kernels.values():
            check_saxpy(kernel)

    assert len(entries(root)) == 6
    assert moved(device, "disk_cache_hits", "compiles") == [6, 0]


def test_an_unknown_option_is_refused_with_any_cache(opened, root):
    device = opened()
    device.compile(programs.saxpy())

    with pytest.raises(ValueError, match="precision"):
        device.compile(programs.saxpy(), precision="sloppy")
    assert len(entries(root)) == 1


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
def test_a_device_that_looks_for_races_keeps_nothing(root):
    with vc.Device("emulator", check="races") as device:
        check_saxpy(device.compile(programs.saxpy()))

    assert not root.exists()


# ---- one at a time ---------------------------------------------------------------------------------------------------


def test_threads_that_ask_for_one_program_compile_it_once(opened):
    device, count = opened(), 8
    gate = threading.Barrier(count)
    kernels: list[vc.Kernel] = []

    def ask() -> None:
        program = programs.saxpy()
        gate.wait()
        kernels.append(device.compile(program))

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(kernels) == count
    assert all(kernel is kernels[0] for kernel in kernels)
    assert moved(device, "compiles", "kernel_cache_misses") == [1, 1]


def test_kernels_used_longest_ago_are_dropped(opened, monkeypatch):
    monkeypatch.setattr("vyre_cuda.runtime.kernels._KEPT", 2)
    device = opened()
    for block in (32, 64, 96):
        device.compile(programs.saxpy(block))

    assert moved(device, "kernel_cache_evictions") == [1]
    assert moved(device, "kernel_cache_entries") == [2]
    check_saxpy(device.compile(programs.saxpy(32)))
    assert moved(device, "compiles", "disk_cache_hits") == [3, 1]


def test_kernels_that_are_too_many_bytes_are_dropped(opened, monkeypatch):
    sizes = [opened().compile(programs.saxpy(block)).nbytes for block in (32, 64)]
    monkeypatch.setattr("vyre_cuda.runtime.kernels._BYTES_KEPT", sum(sizes) - 1)
    device = opened()
    for block in (32, 64):
        device.compile(programs.saxpy(block))

    assert moved(device, "kernel_cache_entries", "kernel_cache_bytes") == [1, sizes[1]]


# ---- what cannot be used ---------------------------------------------------------------------------------------------


def _cut(data: bytes) -> bytes:
    return data[:-1]


def _flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _nothing(data: bytes) -> bytes:
    return b""


def _rewritten(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    """Somebody else's sections, with a digest that matches them."""

    def rewrite(data: bytes) -> bytes:
        key = data[24:56]
        return entry.encode(key, change(list(entry.decode(data, key))))

    return rewrite


def _facts(change: Callable[[dict[str, Any]], None]) -> Callable[[bytes], bytes]:
    def changed(sections: list[bytes]) -> list[bytes]:
        facts = json.loads(sections[0])
        change(facts)
        return [json.dumps(facts).encode(), *sections[1:]]

    return _rewritten(changed)


DAMAGE = {
    "cut": _cut,
    "flipped": _flipped,
    "empty": _nothing,
    "two sections": _rewritten(lambda sections: sections[:2]),
    "four sections": _rewritten(lambda sections: [*sections, b""]),
    "no facts": _rewritten(lambda sections: [b"{}", *sections[1:]]),
    "no image": _rewritten(lambda sections: [*sections[:2], b""]),
    "text of nothing": _rewritten(lambda sections: [*sections[:2], b"nonsense"]),
    "another kernel": _facts(lambda facts: facts.__setitem__("entry", "other")),
    "offsets out of the block": _facts(lambda facts: facts["parameters"][0].__setitem__(3, 10**6)),
    "offsets beyond 32 bits": _facts(lambda facts: facts["parameters"][0].__setitem__(3, 10**12)),
    "no parameters": _facts(lambda facts: facts.__setitem__("parameters", [])),
    "a negative size": _facts(lambda facts: facts.__setitem__("parameter_bytes", -1)),
    "shared memory of no device": _facts(lambda facts: facts.__setitem__("dynamic_shared_bytes", 2**31)),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_file_that_cannot_be_used_is_made_anew(damage, opened, root):
    opened().compile(programs.saxpy())
    (path,) = entries(root)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    device = opened()
    check_saxpy(device.compile(programs.saxpy()))

    assert moved(device, "compiles") == [1]
    assert counted(device)["disk_cache_errors"] >= 1
    assert path.read_bytes() == whole


@pytest.mark.emulator
def test_an_image_that_the_driver_refuses_is_made_anew(opened, root, emulator: Emulator):
    opened().compile(programs.saxpy())
    device = opened()
    emulator.fail("cuModuleLoadDataEx", result=INVALID_IMAGE)
    check_saxpy(device.compile(programs.saxpy()))

    assert moved(device, "compiles", "disk_cache_hits", "disk_cache_errors") == [1, 1, 1]
    check_saxpy(opened().compile(programs.saxpy()))


@pytest.mark.emulator
@pytest.mark.parametrize("result, error", [(UNKNOWN, vc.DriverError), (OUT_OF_MEMORY, vc.ResourceError)])
@pytest.mark.parametrize("function", ["cuLinkCreate", "cuLinkAddData", "cuLinkComplete", "cuModuleLoadDataEx"])
def test_a_failed_compilation_leaves_nothing_behind(function, result, error, opened, root, emulator, leak_check):
    device = opened()
    emulator.fail(function, result=result)

    with pytest.raises(error):
        device.compile(programs.saxpy())
    assert not (root / "kernels").exists() or entries(root) == []
    check_saxpy(device.compile(programs.saxpy()))
    device.close()


@pytest.mark.emulator
@pytest.mark.parametrize("function", ["cuLinkAddData", "cuLinkComplete"])
def test_a_text_that_the_linker_refuses_is_a_compile_error_with_the_text(function, opened, emulator):
    device = opened()
    emulator.fail(function, result=218)

    with pytest.raises(vc.CompileError) as caught:
        device.compile(programs.saxpy())
    assert caught.value.op == function
    assert ".visible .entry" in caught.value.ptx


@pytest.mark.emulator
def test_a_linked_text_that_is_wrong_carries_the_log(device):
    from vyre_cuda._native.module import link

    with pytest.raises(vc.CompileError) as caught:
        link(device.context, b".version 8.0\n.target sm_90\n.address_size 64\nnonsense;\n")

    assert "line 4" in caught.value.log
    assert "nonsense" in caught.value.ptx


@pytest.mark.emulator
def test_a_failure_to_load_a_file_for_lack_of_memory_is_told(opened, root, emulator):
    """The file is well: it is not made anew."""
    opened().compile(programs.saxpy())
    device = opened()
    emulator.fail("cuModuleLoadDataEx", result=OUT_OF_MEMORY)

    with pytest.raises(vc.ResourceError):
        device.compile(programs.saxpy())
    assert len(entries(root)) == 1
    check_saxpy(device.compile(programs.saxpy()))
    assert moved(device, "compiles") == [0]


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


def test_a_home_that_cannot_be_written_is_one_warning(opened, root):
    root.write_text("a file in its place")
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


@pytest.mark.slow
def test_processes_at_once_and_one_after_them_share_what_they_compile(device_name, root):
    count = 12
    together = [finish(process) for process in [run(device_name, count) for _ in range(3)]]
    afterwards = finish(run(device_name, count))

    assert all(compiles + hits == count and errors == 0 for compiles, hits, errors in together)
    assert afterwards == [0, count, 0]
    assert len(entries(root)) == count
