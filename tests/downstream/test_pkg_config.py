"""pkg-config names the flags that a host in C needs, and nothing else."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from installed import program

import vyre_cuda as vc
from vyre_cuda.locations import get_pkgconfig_dir

from .tools import EMULATOR, HOST, VERSION_NUMBER, attempt, call

ENVIRONMENT = {"PKG_CONFIG_PATH": get_pkgconfig_dir()}


def ask(*words: str) -> str:
    return call([program("pkg-config"), *words, "vyre_cuda"], environment=ENVIRONMENT).strip()


@pytest.mark.slow
def test_a_host_in_c_builds_and_runs(tmp_path: Path) -> None:
    flags = shlex.split(ask("--cflags", "--libs"))
    rpath = f"-Wl,-rpath,{ask('--variable=libdir')}"
    call(["cc", "-std=c11", "-Wall", "-Werror", HOST / "host.c", *flags, rpath, "-o", tmp_path / "host"])

    assert call([tmp_path / "host", ask("--variable=emulator")]) == f"{VERSION_NUMBER}\n"


@pytest.mark.slow
def test_version_and_directories_are_those_of_the_package() -> None:
    assert ask("--modversion") == vc.__version__
    assert Path(ask("--variable=libdir")).samefile(vc.get_library_dir())
    assert Path(ask("--variable=includedir")).samefile(vc.get_include())
    assert Path(ask("--variable=emulator")).samefile(EMULATOR)
    assert attempt([program("pkg-config"), "--exists", "vyre_cuda >= 0.2"], environment=ENVIRONMENT).returncode != 0
