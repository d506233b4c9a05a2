"""Kernels of bundles on a device: what they compute, also with known values."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.bundles.layout import sealed
from vyre_cuda.testing.compilers import c_compiler
from vyre_cuda.testing.emulator import Emulator

from ..bundle_programs import TARGETS, checked, saxpy

# ---- running ---------------------------------------------------------------------------------------------------------


@pytest.mark.device
@pytest.mark.parametrize("source", [True, False])
def test_a_kernel_of_a_bundle_gives_what_a_compiled_one_gives(path: Path, source: bool, device: vc.Device) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 1000), np.float32)
    vc.bundle(saxpy(), path, targets=TARGETS, source=source)
    expected = device.run(saxpy(), x, y, 2.5)

    kernel = vc.load_bundle(path).on(device)["saxpy"]

    np.testing.assert_array_equal(kernel(x, y, 2.5), expected)
    np.testing.assert_array_equal(kernel(x=x, y=y, a=2.5), expected)
    dx, dy, out = device.array(x), device.array(y), device.empty(1000, vc.f32)
    kernel.launch(dx, dy, out, 2.5)
    np.testing.assert_array_equal(out.numpy(), expected)
    call = kernel.bind(dx, dy, out, 1.0)
    call(dx, dy, out, 2.5)
    np.testing.assert_array_equal(out.numpy(), expected)


@pytest.mark.device
def test_kernels_are_loaded_once_and_by_name(bundle: vc.Bundle, device: vc.Device) -> None:
    loaded = bundle.on(device)

    assert loaded["saxpy"] is loaded["saxpy"]
    assert set(loaded) == {"checked", "saxpy"}
    assert len(loaded) == 2
    with pytest.raises(KeyError):
        loaded["nothing"]


@pytest.mark.device
def test_what_only_a_worker_needs_is_not_among_the_kernels(tmp_path: Path, device: vc.Device) -> None:
    vc.bundle([saxpy()], tmp_path / "w.vyre", targets=TARGETS, cubins=False, workers={"w": ["saxpy"]})
    loaded = vc.load_bundle(tmp_path / "w.vyre").on(device)

    assert list(loaded) == ["saxpy"]
    assert len(loaded) == 1
    assert "w" not in loaded
    assert "w_clear_bytes" not in loaded


@pytest.mark.parametrize("other", [3, None, "emulator"])
def test_a_bundle_is_loaded_on_a_device(bundle: vc.Bundle, other: Any) -> None:
    with pytest.raises(TypeError, match=r"Bundle\.on takes a device, not "):
        bundle.on(other)


@pytest.mark.device
@pytest.mark.parametrize("source", [True, False])
def test_a_failed_check_is_explained_as_that_of_a_compiled_kernel(path: Path, source: bool, device: vc.Device) -> None:
    vc.bundle(checked(), path, targets=["sm_80"], source=source)
    kernel = vc.load_bundle(path).on(device)["checked"]
    data = np.array([5, 1, 7], np.int32)

    with pytest.raises(vc.KernelAssertionError) as failure:
        kernel(data, 3)

    with pytest.raises(vc.KernelAssertionError) as expected:
        device.run(checked(), data, 3)
    for field in ("message", "program", "thread", "statement", "source", "index"):
        assert getattr(failure.value, field) == getattr(expected.value, field)
    on_device = device.array(data)
    kernel.launch(on_device, 3)
    with pytest.raises(vc.KernelAssertionError) as later:
        device.synchronize()
    assert later.value.statement == expected.value.statement


@pytest.mark.device
def test_a_kernel_exports_itself_with_its_options(path: Path, device: vc.Device) -> None:
    device.compile(saxpy(), precision="ftz", bounds="off", max_ulp=2.0).export(path)

    kernel = vc.load_bundle(path).kernels["saxpy"]
    assert (kernel.precision, kernel.bounds, kernel.max_ulp) == ("ftz", "off", 2.0)
    assert kernel.targets == (str(device.target),)
    vc.bundle(saxpy(), path, source=False, cubins=False)
    with pytest.raises(vc.UnsupportedError):
        vc.load_bundle(path).on(device)["saxpy"].export(path)


@pytest.mark.device
def test_a_device_older_than_every_target_is_told(path: Path, device: vc.Device) -> None:
    vc.bundle(saxpy(), path, targets=["sm_121"], cubins=False)

    with pytest.raises(vc.UnsupportedError) as failure:
        vc.load_bundle(path).on(device)["saxpy"]
    assert failure.value.capability == "sm_121"


@pytest.mark.emulator
def test_code_that_the_driver_refuses_gives_way_to_older_code(path: Path, device: vc.Device) -> None:
    vc.bundle(saxpy(), path, targets=TARGETS, cubins=False)
    ones = np.ones(10, np.float32)
    with Emulator().steered() as emulator:
        emulator.fail("cuModuleLoadDataEx", nth=1, result=218)  # CUDA_ERROR_INVALID_PTX
        kernel = vc.load_bundle(path).on(device)["saxpy"]

    assert ".target sm_80" in kernel.ptx
    np.testing.assert_array_equal(kernel(ones, ones, 2.0), np.full(10, 3, np.float32))


# ---- known values ----------------------------------------------------------------------------------------------------


def test_known_values_are_in_the_bundle(path: Path) -> None:
    known = {"a": 2.5, "x.size": 64}
    vc.bundle(saxpy(), path, targets=TARGETS, specialize=known, source=False, cubins=False)

    bundle = vc.load_bundle(path)
    assert bundle.format_version == 3
    assert bundle.kernels["saxpy"].specialize == known
    assert "ld.param.f32" not in bundle.ptx("saxpy", "sm_80")


def test_a_bundle_without_known_values_keeps_its_format(bundle: vc.Bundle) -> None:
    assert bundle.format_version == 1
    assert bundle.kernels["saxpy"].specialize == {}


def test_a_loaded_kernel_has_its_known_values_and_exports_them(path: Path, device: vc.Device) -> None:
    x = np.arange(64, dtype=np.float32)
    vc.bundle([saxpy()], path, targets=TARGETS, specialize={"a": 2.5}, cubins=False)
    loaded = vc.load_bundle(path).on(device)["saxpy"]

    loaded.export(path, cubins=False)

    again = vc.load_bundle(path).on(device)["saxpy"]
    for kernel in (loaded, again):
        assert kernel.specialize == {"a": 2.5}
        np.testing.assert_array_equal(kernel(x, x, 2.5), 3.5 * x)
        with pytest.raises(ValueError, match=r"a is 2\.0, but the kernel was compiled for 2\.5"):
            kernel(x, x, 2.0)


def test_a_bundle_holds_one_set_of_known_values_per_program(path: Path, device: vc.Device) -> None:
    x = device.zeros(64, vc.f32)
    with device.record() as graph:
        device.compile(saxpy(), specialize={"a": 2.0}).launch(x, x.copy(), device.zeros(64, vc.f32), 2.0)

    vc.bundle(saxpy(), path, graphs={"g": graph}, targets=TARGETS, specialize={"a": 2.0}, cubins=False)
    assert vc.load_bundle(path).kernels["saxpy"].specialize == {"a": 2.0}
    with pytest.raises(vc.UnsupportedError, match=r"specialize=\{'a': 3\.0\}.*specialize=\{'a': 2\.0\}.*or leave"):
        vc.bundle(saxpy(), path, graphs={"g": graph}, targets=TARGETS, specialize={"a": 3.0}, cubins=False)

    vc.bundle([], path, graphs={"g": graph}, targets=TARGETS, cubins=False)
    assert vc.load_bundle(path).kernels["saxpy"].specialize == {"a": 2.0}


def test_what_no_program_has_is_refused_and_nothing_is_written(path: Path) -> None:
    with pytest.raises(ValueError, match="saxpy: specialize: there is no 'b'"):
        vc.bundle(saxpy(), path, specialize={"b": 1}, cubins=False)
    assert not path.exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [(0, 2**32 - 1), (1, 0), (1, 5000), (2, 1), (3, 4), (3, 0), (4, 2**32)],
    ids=["no name", "empty name", "long name", "another kernel", "no parameter", "twice", "too large"],
)
def test_known_values_that_do_not_fit_are_refused(path: Path, field: int, value: int) -> None:
    vc.bundle(saxpy(), path, targets=TARGETS, specialize={"a": 2.5, "x.size": 64}, cubins=False)
    data = bytearray(path.read_bytes())
    sections = [struct.unpack_from("<IIQQ", data, 96 + 32 * i) for i in range(struct.unpack_from("<I", data, 24)[0])]
    _, row_bytes, offset, _ = next(section for section in sections if section[0] == 16)
    rows = [list(struct.unpack_from("<4IQ", data, offset + row_bytes * i)) for i in range(2)]
    assert [row[2:] for row in rows] == [[0, 0, 64], [0, 3, struct.unpack("<I", struct.pack("<f", 2.5))[0]]]
    rows[1][field] = value
    struct.pack_into("<4IQ", data, offset + row_bytes, *rows[1])

    with pytest.raises(vc.BundleError, match=r"known value|section 16"):
        vc.load_bundle(sealed(bytes(data)))


@pytest.mark.emulator
def test_a_host_in_c_is_refused_other_values(path: Path, tmp_path: Path) -> None:
    vc.bundle(saxpy(), path, targets=TARGETS, specialize={"a": 2.5, "x.size": 64}, cubins=False)
    host, library = tmp_path / "host", Path(vc.get_library_dir())
    source = Path(__file__).parent / "known_host.c"
    words = [*c_compiler(), "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{vc.get_include()}", str(source)]
    subprocess.run([*words, "-o", str(host), f"-L{library}", f"-Wl,-rpath,{library}", "-lvyre_cuda"], check=True)

    done = subprocess.run(
        [str(host), str(library / "libvyre_cuda_emulator.so"), str(path)], capture_output=True, text=True, check=False
    )

    size, a = "x.size is 63, but the kernel was compiled for 64", "a is 3.0, but the kernel was compiled for 2.5"
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.rstrip() for line in done.stdout.splitlines()] == [
        *("known x.size 64", "known a 1075838976"),
        "past the last 1 required: index < range.count",
        *("run 0", "submit 0"),
        *(f"{way} 1 kernel saxpy: {words}" for words in (a, size) for way in ("run", "submit")),
    ]
