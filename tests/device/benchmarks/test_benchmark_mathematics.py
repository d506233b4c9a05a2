"""The benchmarks of mathematical functions on the emulator: accuracy within bounds, and throughput."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import vyre_cuda as vc

from ..benchmark_scripts import harness, run_script

pytestmark = [
    pytest.mark.device,
    pytest.mark.emulator,
    pytest.mark.slow,
    pytest.mark.usefixtures("benchmarks_are_importable"),
]


def math_rows(folder: Path, benchmark: str) -> Any:
    """The rows of the only result file."""
    (path,) = folder.glob(f"*-{benchmark}.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["emulator"]
    return content["rows"]


@pytest.mark.thin
def test_accuracy_of_functions_is_measured_and_held_to_the_bounds(tmp_path: Path) -> None:
    words = ["--device", "emulator", "--functions", "exp2,hypot", "--host-step", "4000037", "--output", tmp_path]

    child = run_script("math_exhaustive.py", *words)

    assert child.returncode == 0, child.stderr + child.stdout
    rows = math_rows(tmp_path, "math-accuracy")
    assert {(row["function"], row["type"]) for row in rows} >= {("exp2", t) for t in ("f32", "f16", "bf16")}
    assert {row["precision"] for row in rows if row["type"] == "f32" and row["function"] == "exp2"} == {
        "ieee",
        "ftz",
        "fast",
    }
    assert all(0 < row["ulp"] <= row["bound"] for row in rows)


def test_throughput_of_functions_is_measured(tmp_path: Path) -> None:
    child = run_script(
        "bench_math.py", "--device", "emulator", "--functions", "sin,power", "--repeats", "1", "--output", tmp_path
    )

    assert child.returncode == 0, child.stderr + child.stdout
    rows = math_rows(tmp_path, "math-throughput")
    assert rows.keys() == {"sin", "power"}
    assert all(row["ieee"] > 0 and row["fast"] > 0 for row in rows.values())


@pytest.mark.parametrize("script", ["math_exhaustive.py", "bench_math.py"])
def test_an_unknown_function_is_refused(script: str) -> None:
    child = run_script(script, "--device", "emulator", "--functions", "sine")

    assert child.returncode == 2
    assert "sine" in child.stderr


def test_a_result_beyond_its_bound_is_found(tmp_path: Path) -> None:
    functions, checks = harness("mathematics.functions"), harness("mathematics.checks")
    with vc.Device("emulator") as device:
        wrong = device.compile(functions.program("cosh", vc.f32))

        worst = checks.HostCheck(device, 40_000_003).worst(functions.chosen("exp")[0], wrong, flushes=False)

    assert worst.ulp > 1e6
