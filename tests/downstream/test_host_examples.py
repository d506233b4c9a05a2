"""The hosts of examples/: built by CMake and by pkg-config, they load a bundle and give Python's bytes.

On a GPU: `python -m pytest tests/downstream/test_host_examples.py --device=cuda`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from installed import program

import vyre_cuda as vc
from vyre_cuda.locations import get_cmake_dir, get_pkgconfig_dir

from .tools import EMULATOR, ROOT, attempt, call, configure

EXAMPLES = ROOT / "examples"
HOSTS = {"c_host": ("cc", "-std=c11", "host.c"), "cpp_host": ("c++", "-std=c++17", "host.cpp")}
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")

pytestmark = [pytest.mark.slow, pytest.mark.device]


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "saxpy.vyre"
    vc.bundle(vc.parse((EXAMPLES / "saxpy.vir").read_text()), path)
    return path


def built_by_cmake(folder: Path, host: str) -> Path:
    flags = " ".join(STRICT)
    variables = {"CMAKE_C_FLAGS": flags} if host == "c_host" else {"CMAKE_CXX_FLAGS": flags}
    call(configure(EXAMPLES / host, folder, vyre_cuda_DIR=get_cmake_dir(), **variables))
    call([program("cmake"), "--build", folder])
    return folder / host


def built_by_pkg_config(folder: Path, host: str) -> Path:
    compiler, standard, source = HOSTS[host]
    environment = {"PKG_CONFIG_PATH": get_pkgconfig_dir()}
    flags = shlex.split(call([program("pkg-config"), "--cflags", "--libs", "vyre_cuda"], environment=environment))
    words = [compiler, standard, *STRICT, EXAMPLES / host / source, *flags, "-o", folder / host]
    call([*words, f"-Wl,-rpath,{vc.get_library_dir()}"])
    return folder / host


@pytest.mark.thin(5)
@pytest.mark.parametrize("size", [0, 1, 100_003])
@pytest.mark.parametrize("build", [built_by_cmake, built_by_pkg_config])
@pytest.mark.parametrize("host", HOSTS)
def test_a_host_gives_pythons_bytes(
    tmp_path: Path, bundle: Path, device: vc.Device, host: str, build: Callable[[Path, str], Path], size: int
) -> None:
    rng = np.random.default_rng(size)
    x, y = rng.standard_normal((2, size), np.float32)
    kernel = vc.load_bundle(bundle).on(device)["saxpy"]
    expected = kernel(x, y, 2.5)
    dx, dy, values = device.array(x), device.array(y), [device.empty(size, vc.f32) for _ in range(3)]
    with device.record() as graph:
        for source, target in zip([dx, *values], values, strict=False):
            kernel.launch(source, dy, target, 2.5)
    graph.replay()
    expected_of_graph = values[-1].numpy()
    x.tofile(tmp_path / "x.bin")
    y.tofile(tmp_path / "y.bin")

    program_path = build(tmp_path, host)
    driver = [EMULATOR] if device.properties.is_emulator else []
    words = [bundle, "x.bin", "y.bin", "2.5", "out.bin", "graph.bin", *driver]
    printed = call([program_path, *words], folder=tmp_path)

    assert printed == f"{size} elements, twice\n"
    assert (tmp_path / "out.bin").read_bytes() == expected.tobytes()
    assert (tmp_path / "graph.bin").read_bytes() == expected_of_graph.tobytes()


@pytest.mark.thin
@pytest.mark.parametrize("host", HOSTS)
def test_a_host_says_what_is_wrong(tmp_path: Path, bundle: Path, host: str) -> None:
    program_path = built_by_pkg_config(tmp_path, host)
    (tmp_path / "x.bin").write_bytes(bytes(16))
    (tmp_path / "damaged.vyre").write_bytes(bundle.read_bytes()[:-1])
    words = ["x.bin", "x.bin", "1", "out.bin", "graph.bin"]

    for file, driver, said in (
        (bundle, "/nowhere/libcuda.so", "/nowhere/libcuda.so"),
        ("damaged.vyre", EMULATOR, "truncated"),
        ("/nowhere.vyre", EMULATOR, "/nowhere.vyre"),
    ):
        done = attempt([program_path, file, *words, driver], folder=tmp_path)
        assert done.returncode == 1
        assert said in done.stderr
