"""Schedules of two and three threads on the C layer, explored as README.md beside this says.

A failure prints the schedule and the command that runs it again.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

pytestmark = [pytest.mark.slow, pytest.mark.emulator, pytest.mark.timeout(1200)]  # builds on a busy core


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs, by CMake, which knows what they are made of."""
    folder = tmp_path_factory.mktemp("explorer")
    options = ["-G", "Ninja", "-DVYC_NATIVE_TESTS=ON", "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run(["cmake", "-S", str(ROOT), "-B", str(folder), *options], check=True, capture_output=True)
    targets = ["--target", "explorer", "test_planted"]
    subprocess.run(["cmake", "--build", str(folder), *targets], check=True, capture_output=True)
    return folder / "tests" / "explorer"


def run(program: Path, *words: str) -> str:
    done = subprocess.run([str(program), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_was_planted_is_found_within_two_preemptions(built: Path) -> None:
    printed = run(built / "test_planted")

    assert printed.endswith(" 0 failed\n")


@pytest.mark.parametrize(
    "words",
    [
        ["--budget", "12", "--random", "60000"],
        pytest.param(["--budget", "130", "--random", "250000"], marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
    ids=["some", "a_million"],
)
def test_no_schedule_breaks_the_order_that_the_header_promises(built: Path, words: list[str]) -> None:
    printed = run(built / "explorer", *words)

    assert "ordered pairs" in printed
