"""Schedules of two and three threads on the C layer, explored as README.md beside this says.

A failure prints the schedule and the command that runs it again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.emulator, pytest.mark.timeout(1200)]  # builds on a busy core


def call(*words: str) -> str:
    """Run a program, of the environment that the tests run in first."""
    places = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)))
    program = shutil.which(words[0], path=places)
    assert program is not None, f"{words[0]} is not installed"
    environment = {**os.environ, "PATH": places}
    done = subprocess.run([program, *words[1:]], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs, by CMake, which knows what they are made of."""
    folder = tmp_path_factory.mktemp("explorer")
    options = ["-DVYC_NATIVE_TESTS=ON", "-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={sys.executable}"]
    call("cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", *options)
    call("cmake", "--build", str(folder), "--target", "explorer", "test_planted")
    return folder / "tests" / "explorer"


def test_what_was_planted_is_found_within_two_preemptions(built: Path) -> None:
    printed = call(str(built / "test_planted"))

    assert printed.endswith(" 0 failed\n")


@pytest.mark.parametrize(
    "words",
    [
        ["--budget", "12", "--random", "60000"],
        pytest.param(["--budget", "100", "--random", "250000"], marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
    ids=["some", "a_million"],
)
def test_no_schedule_breaks_the_order_that_the_header_promises(built: Path, words: list[str]) -> None:
    printed = call(str(built / "explorer"), *words)

    assert "ordered pairs" in printed
