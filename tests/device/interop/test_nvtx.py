"""Ranges as a profiler gets them: from the package nvtx, by the interface that NVTX has for profilers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vyre_cuda.testing.compilers import c_compiler

pytestmark = [pytest.mark.device, pytest.mark.emulator, pytest.mark.slow]

HERE = Path(__file__).parent / "nvtx"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What NVTX was told in each step of ranges.py: depth, domain and message of a push, "pop" of a pop."""
    library = tmp_path_factory.mktemp("injection") / "injection.so"
    compiler = [*c_compiler(), "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*compiler, str(HERE / "injection.c"), "-o", str(library), "-lpthread"], check=True)
    done = subprocess.run(
        [sys.executable, str(HERE / "ranges.py"), str(library)],
        env={**os.environ, "NVTX_INJECTION64_PATH": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def one(message: str, depth: int = 0) -> list[str]:
    return [f"{depth}|vyre_cuda|{message}", f"{depth}|vyre_cuda|pop"]


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("compile", "vyre.cuda.pipeline.compile: other"),
        ("call", "vyre.cuda.host_dispatch: first"),
        ("submit", "vyre.cuda.host_dispatch: first"),
        ("launch", "vyre.cuda.resident_dispatch: first"),
        ("bound", "vyre.cuda.resident_dispatch: first"),
        ("replay", "vyre.cuda.graph_replay: 1 step"),
        ("upload", "vyre.cuda.upload: 1 range"),
        ("uploads", "vyre.cuda.upload: 2 ranges"),
        ("readback", "vyre.cuda.readback: 1 range"),
        ("item", "vyre.cuda.readback: 1 range"),
    ],
)
def test_work_is_one_range_with_its_name(step: str, message: str, told: dict[str, list[str]]) -> None:
    assert told[step] == one(message)


def test_ranges_nest_in_those_of_the_caller(told: dict[str, list[str]]) -> None:
    assert told["inside"] == [
        "0|theirs|user",
        *one("vyre.cuda.pipeline.compile: third", 1),
        *one("vyre.cuda.host_dispatch: third", 1),
        "0|theirs|pop",
    ]


def test_a_range_ends_with_a_call_that_fails(told: dict[str, list[str]]) -> None:
    assert told["fails"] == [*one("vyre.cuda.host_dispatch: first"), *one("vyre.cuda.resident_dispatch: first")]


def test_nothing_is_told_while_ranges_are_off(told: dict[str, list[str]]) -> None:
    off = {name: lines for name, lines in told.items() if name.startswith("off")}

    assert len(off) > 10
    assert [name for name, lines in off.items() if lines] == []
