"""The examples: each runs on the device as a person would run it, and each answer is NumPy's."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

import vyre_cuda as vc

EXAMPLES = Path(__file__).parents[3] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(EXAMPLES))  # as for a script
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(EXAMPLES))
    return module


THREE_PASSES = pytest.param(2048**2 + 1, marks=pytest.mark.slow, id="three passes")

saxpy, histogram, reduction, mandelbrot = map(load, ("saxpy", "histogram", "reduction", "mandelbrot"))
control = load("control")
SUPERVISED = EXAMPLES / "supervised.py"


# ---- from the command line ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 100_003])
def test_saxpy_runs(size: int, on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert saxpy.main(["--size", str(size), *on]) == 0
    assert "bit for bit" in capsys.readouterr().out


def test_histogram_runs_on_a_file(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__)
    spaces = f"{path.read_bytes().count(b' '):,}"

    assert histogram.main([str(path), "--top", "1", *on]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["b'", "'", spaces]


def test_outliers_runs(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert load("outliers").main(["--count", "5000", *on]) == 0
    assert "the same as in NumPy" in capsys.readouterr().out


def test_reduction_runs(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert reduction.main(["--size", "100003", *on]) == 0
    assert "bit for bit" in capsys.readouterr().out


@pytest.mark.parametrize(("springs", "steps"), [(1, 3), (700, 40)])
def test_control_runs(springs: int, steps: int, on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert control.main(["--springs", str(springs), "--steps", str(steps), *on]) == 0
    assert "bit for bit" in capsys.readouterr().out


@pytest.mark.thin
@pytest.mark.slow
def test_a_supervised_service_loses_no_request_to_faults(on: tuple[str, str]) -> None:
    words = [sys.executable, str(SUPERVISED), "--requests", "60", "--faults", "2", *on]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=True)

    assert done.stdout == "60 requests: 58 answered, 2 ended the device twice each; 4 restarts\n"
    assert done.stderr == ""


@pytest.mark.slow
def test_a_supervised_service_without_a_device_is_an_error() -> None:
    words = [sys.executable, str(SUPERVISED), "--requests", "2", "--device", "4095"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)

    assert done.returncode == 1
    assert "0 answered" in done.stdout
    assert done.stderr.count("\n") == 1


def test_mandelbrot_draws_a_picture(tmp_path: Path, on: tuple[str, str], device: vc.Device) -> None:
    path = tmp_path / "set.png"

    assert mandelbrot.main([str(path), "--width", "90", "--height", "50", "--limit", "40", *on]) == 0

    inside = mandelbrot.escape_counts(device, 90, 50, 40) == 40
    with Image.open(path) as image:
        black = np.asarray(image).sum(axis=-1) == 0
    assert 0 < np.count_nonzero(inside) < inside.size
    np.testing.assert_array_equal(inside, black)


# ---- against NumPy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 1023, 16384, 100_001])
def test_histogram_counts_every_byte(device: vc.Device, length: int) -> None:
    data = np.random.default_rng(length).integers(0, 256, length, dtype=np.uint8)

    np.testing.assert_array_equal(np.bincount(data, minlength=256), histogram.byte_histogram(device, data.tobytes()))


def test_histogram_of_one_value_counts_no_padding(device: vc.Device) -> None:
    counts = histogram.byte_histogram(device, bytes(4099))

    assert counts[0] == 4099
    assert counts.sum() == 4099


@pytest.mark.thin
@pytest.mark.parametrize("size", [1, 2, 255, 2047, 2048, 2049, 300_001, THREE_PASSES])
def test_reduction_adds_in_the_documented_order(device: vc.Device, size: int) -> None:
    x = np.random.default_rng(size).standard_normal(size, dtype=np.float32)

    assert reduction.same_tree(x).tobytes() == reduction.device_sum(device, x).tobytes()


def test_reduction_is_a_sum(device: vc.Device) -> None:
    x = np.random.default_rng(1).integers(-8, 8, 10_000).astype(np.float32)

    assert np.sum(x, dtype=np.float64) == reduction.device_sum(device, x)


@pytest.mark.parametrize(("width", "height", "limit"), [(1, 1, 1), (16, 16, 30), (33, 17, 100), (120, 80, 60)])
def test_mandelbrot_counts_are_numpys(device: vc.Device, width: int, height: int, limit: int) -> None:
    np.testing.assert_array_equal(
        mandelbrot.numpy_counts(width, height, limit), mandelbrot.escape_counts(device, width, height, limit)
    )


# ---- program texts -----------------------------------------------------------------------------------------------


def parsed(name: str) -> vc.Program:
    return vc.parse((EXAMPLES / name).read_text(), filename=name)


def collatz_steps(n: int) -> int:
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        if n >= 2**32:
            return 0
        steps += 1
    return steps


def test_saxpy_text_is_the_program_of_saxpy_py() -> None:
    assert parsed("saxpy.vir") == saxpy.SAXPY


def test_collatz_counts_steps(device: vc.Device) -> None:
    start = np.concatenate([np.arange(1000), 2**32 - np.arange(1, 50)]).astype(np.uint32)
    expected = np.array([collatz_steps(int(n)) for n in start], np.uint32)

    np.testing.assert_array_equal(expected, device.run(parsed("collatz.vir"), start))
