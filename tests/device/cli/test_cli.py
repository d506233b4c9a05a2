"""The command line with a device: info, run, demo."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.cli import main

EXAMPLES = Path(__file__).parents[3] / "examples"
SAXPY = str(EXAMPLES / "saxpy.vir")
COLLATZ = str(EXAMPLES / "collatz.vir")
ASSERTING = 'program small\nin x: u32\nout y: u32[size(x)]\n\nlet i = global_id.x\nassert less(i, u32:2), "too many"\n'
GROWING = """\
program growing
block 32
inout x: f32
out y: i32

let i = global_id.x
let v = load(x[i])
store x[i], add(v, f32:1.0)
store y[i], cast.i32(v)
"""


def data_of(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    """The JSON document that a good command prints, alone on stdout."""
    code = main([*argv, "--json"])
    assert code == 0
    return json.loads(capsys.readouterr().out)


# ---- info --------------------------------------------------------------------------------------------------------


def test_info_tells_all_properties(device: vc.Device, on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    expected = {**asdict(device.properties), "uuid": device.properties.uuid.hex()}

    document = data_of(capsys, "info", *on)

    assert json.loads(json.dumps(expected)) == document["device"]
    assert document["version"] == vc.__version__
    assert [found.name for found in vc.devices()] == [found["name"] for found in document["devices"]]


def test_info_tells_where_the_cache_is(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    document = data_of(capsys, "info", *on)

    assert document["environment"]["VYRE_CUDA_CACHE_DIR"] == os.environ["VYRE_CUDA_CACHE_DIR"]


def test_info_names_the_device(device: vc.Device, on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", *on]) == 0

    out, err = capsys.readouterr()
    assert device.properties.name in out
    assert f"device: {device.properties.name}" in err


def test_info_without_a_driver_says_so_and_is_good(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VYRE_CUDA_DRIVER", "/nonexistent/libcuda.so.1")
    monkeypatch.delenv("VYRE_CUDA_DEVICE", raising=False)
    monkeypatch.delenv("VYRE_CUDA_REQUIRE_GPU", raising=False)

    document = data_of(capsys, "info")

    assert "/nonexistent/libcuda.so.1" in document["cuda_missing"]
    assert document["device"]["is_emulator"]


# ---- run ---------------------------------------------------------------------------------------------------------


def test_run_prints_results(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", SAXPY, "1,2,3", "-1,0.5,-3", "-2", *on]) == 0

    assert capsys.readouterr().out == "out: f32[3] = [-3.  -3.5 -9. ]\n"


def test_run_gives_exact_results_as_json(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([0.1, 1e-40, 3e38, np.inf, np.nan], np.float32)
    expected = np.float32(2) * x[:2]

    document = data_of(capsys, "run", SAXPY, ",".join(map(str, x)), "zeros:5", "a=2", *on)

    values = document["results"]["out"]["values"]
    np.testing.assert_array_equal(expected, np.array(values[:2], np.float32))
    assert values[2:] == ["inf", "inf", "nan"]


def test_arguments_may_follow_options(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *on, SAXPY, "--seed", "3", "1,2", "--json", "3,4", "1"]) == 0

    assert json.loads(capsys.readouterr().out)["results"]["out"]["values"] == [4.0, 6.0]


def test_files_go_in_and_come_out(tmp_path: Path, on: tuple[str, str]) -> None:
    start = np.arange(1, 300, dtype=np.uint32)
    np.save(tmp_path / "start.npy", start)

    code = main(["run", COLLATZ, str(tmp_path / "start.npy"), "--out", f"steps={tmp_path / 'steps.npy'}", *on])

    expected = vc.evaluate(vc.parse(Path(COLLATZ).read_text()), start)
    assert code == 0
    np.testing.assert_array_equal(expected, np.load(tmp_path / "steps.npy"))


def test_results_come_by_name_also_outs_that_the_call_brings(
    tmp_path: Path, on: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "growing.vir"
    path.write_text(GROWING)

    results = data_of(capsys, "run", str(path), "1.5,-2.5", "y=zeros:2", *on)["results"]

    assert results["x"]["values"] == [2.5, -1.5]
    assert results["y"]["values"] == [1, -2]


def test_grid_limits_the_launch(tmp_path: Path, on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "growing.vir"
    path.write_text(GROWING)

    results = data_of(capsys, "run", str(path), "zeros:64", "y=zeros:64", "--grid", "1", *on)["results"]

    assert results["x"]["values"] == [1.0] * 32 + [0.0] * 32


def test_time_measures_that_many_calls(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    document = data_of(capsys, "run", SAXPY, "ones:9", "ones:9", "1", "--time", "--repeats", "3", *on)

    assert [timing["repeats"] for timing in document["timings_ns"].values()] == [3] * 4
    assert all(0 < timing["median"] <= timing["p99"] for timing in document["timings_ns"].values())


def test_times_of_an_emulator_are_called_that(
    device: vc.Device, on: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", SAXPY, "ones:9", "ones:9", "1", "--time", "--repeats", "1", *on]) == 0

    assert ("emulator" in capsys.readouterr().out) == device.properties.is_emulator


def test_failed_assertion_is_the_programs_failure(
    tmp_path: Path, on: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.vir"
    path.write_text(ASSERTING)

    assert main(["run", str(path), "zeros:3", *on]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert "too many" in err
    assert "Traceback" not in err


def test_device_that_is_not_there_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", SAXPY, "1", "1", "1", "--device", "999"]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert "--device emulator" in err


def test_result_that_cannot_be_saved_is_a_failure(
    tmp_path: Path, on: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "nowhere" / "out.npy"

    assert main(["run", SAXPY, "1", "1", "1", "--out", f"out={target}", *on]) == 1

    assert str(target) in capsys.readouterr().err


def test_a_full_disk_is_named_with_the_file(
    tmp_path: Path, on: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.npy"
    target.symlink_to("/dev/full")

    assert main(["run", SAXPY, "1", "1", "1", "--out", f"out={target}", *on]) == 1

    assert f"{target}: No space left on device" in capsys.readouterr().err


# ---- demo --------------------------------------------------------------------------------------------------------


def test_demo_agrees_with_the_reference(
    device: vc.Device, on: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    document = data_of(capsys, "demo", *on)

    assert document["differing_elements"] == 0
    assert document["elements"] >= 1 << 16
    assert document["is_emulator"] == device.properties.is_emulator
    assert device.compile(vc.parse(document["program"])).ptx == document["ptx"]
    assert set(document["timings_ns"]) == {"host dispatch", "launch, enqueue only", "launch and synchronize"}


def test_demo_is_for_people(device: vc.Device, on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *on]) == 0

    out, err = capsys.readouterr()
    assert "bit for bit" in out
    assert ".visible .entry" in out
    assert device.properties.name in err


def test_arrays_with_axes_come_from_files_and_are_shown_with_their_shape(
    tmp_path: Path, on: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "program twice\nblock 4 4\nwork size(x, 1), size(x, 0)\nin x: f32[:, :]\nout o: f32[size(x, 0), size(x, 1)]\n"
    )
    text += "store o[global_id.y, global_id.x], multiply(load(x[global_id.y, global_id.x]), f32:2.0)\n"
    (tmp_path / "twice.vir").write_text(text)
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    command = ["run", str(tmp_path / "twice.vir"), str(tmp_path / "x.npy"), *on]

    assert main(command) == 0
    assert capsys.readouterr().out.startswith("o: f32[2, 3] = [[ 0.")
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["results"]["o"]
    assert found == {"type": "f32", "size": 6, "shape": [2, 3], "values": [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]}
