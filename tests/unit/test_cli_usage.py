"""What the command line refuses before a device is opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import SAXPY, TWO_PROGRAMS, usage_error, write

import vyre_cuda as vc
from vyre_cuda.cli import main


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["fly"],
        ["check"],
        ["check", "nowhere.vir"],
        ["check", str(SAXPY), "more"],
        ["check", str(SAXPY), "--device", "emulator"],
        ["--device", "emulator", "ptx", str(SAXPY)],
        ["check", str(SAXPY), "--program", "other"],
        ["ptx", str(SAXPY), "--target", "90"],
        ["ptx", str(SAXPY), "--target", "sm_12"],
        ["ptx", str(SAXPY), "--max-ulp", "0.4"],
        ["ptx", str(SAXPY), "--max-ulp", "nan"],
        ["ptx", str(SAXPY), "--max-ulp", "few"],
        ["info", "--device", "gpu"],
        ["demo", "--seed", "-1"],
        ["run", str(SAXPY)],
        ["run", str(SAXPY), "1,2", "3,4"],
        ["run", str(SAXPY), "1,2", "3,4", "2", "5"],
        ["run", str(SAXPY), "1,2", "3,4", "2", "--frobnicate"],
        ["run", str(SAXPY), "1,2", "3,4", "2", "a=3"],
        ["run", str(SAXPY), "1,2", "3,4", "2", "b=3"],
        ["run", str(SAXPY), "1,two", "3,4", "2"],
        ["run", str(SAXPY), "1,,2", "3,4", "2"],
        ["run", str(SAXPY), "1,2", "3,4", "1e99"],
        ["run", str(SAXPY), "1,2", "3,4", "2", "--out", "y=y.npy"],
        ["run", str(SAXPY), "1,2", "3,4", "2", "--out", "out=out.txt"],
        ["run", str(SAXPY), "1,2", "3,4", "2", "--grid", "0"],
        ["explain", str(SAXPY), "--grid", "1,0"],
        ["run", str(SAXPY), "1,2", "3,4", "2", "--grid", "1,2,3,4"],
    ],
    ids=" ".join,
)
def test_bad_usage_is_one_paragraph_and_exit_code_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    err = usage_error(capsys, *argv)

    assert "error: " in err
    assert "Traceback" not in err


def test_a_variable_of_the_environment_that_is_wrong_is_bad_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VYRE_CUDA_DEVICE", "gpu")

    expected = "error: VYRE_CUDA_DEVICE='gpu'; it must be an ordinal, "
    assert expected in usage_error(capsys, "run", str(SAXPY), "1,2", "3,4", "2")
    assert expected in usage_error(capsys, "info")
    assert main(["doctor", "--no-figures"]) == 1
    assert "FAIL  device          VYRE_CUDA_DEVICE='gpu'; it must be" in capsys.readouterr().out
    monkeypatch.setenv("VYRE_CUDA_EMULATOR_DEVICES", "9")
    assert "error: VYRE_CUDA_EMULATOR_DEVICES='9'; it must be" in usage_error(capsys, "info", "--device", "emulator")


def test_two_results_in_one_file_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "program two\nout a: f32[u32:1]\nout b: f32[u32:1]\nstore a[u32:0], f32:1.0\nstore b[u32:0], f32:2.0\n"
    path, file = write(tmp_path, "two.vir", text), tmp_path / "a.npy"

    err = usage_error(capsys, "run", path, "--out", f"a={file}", "--out", f"b={tmp_path}/./a.npy")

    assert "a goes to this file; give each result a file of its own" in err
    assert not file.exists()


def test_a_bundle_in_place_of_a_program_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "saxpy.vyre"
    vc.bundle(vc.parse(SAXPY.read_text()), path, targets=["sm_90"], cubins=False)

    assert f"error: {path} is a bundle: this command takes the programs" in usage_error(capsys, "check", str(path))


def test_the_arguments_of_a_program_are_shown_with_their_axes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "rows.vir", "program rows\nblock 32\nindex u32\nin x: f32[:, :]\nout out: f32\n")

    assert "its arguments are x=f32[:, :] out=f32[]" in usage_error(capsys, "run", path)


def test_a_program_behind_a_colon_is_told_to_be_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "two.py", TWO_PROGRAMS)

    assert f"(to choose a program, write {path} --program first)" in usage_error(capsys, "ptx", f"{path}:first")


def test_a_directory_that_does_not_exist_is_named_as_it_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nowhere" / "out.vyre"

    assert main(["bundle", str(SAXPY), "-o", str(path), "--no-cubins"]) == 1
    assert f"error: {path}: No such file or directory" in capsys.readouterr().err


def test_several_programs_need_a_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err = usage_error(capsys, "ptx", write(tmp_path, "two.py", TWO_PROGRAMS))

    assert "first, second" in err
    assert "--program" in err


@pytest.mark.parametrize(
    ("text", "line"),
    [("import vyre_cuda\n\nvyre_cuda.nothing\n", 3), ("x = 1\nx +\n", 2), ("import sys\nsys.exit(0)\n", 2), ("", None)],
    ids=["raises", "syntax", "exits", "no program"],
)
def test_python_file_that_fails_is_named_with_its_line(
    text: str, line: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "script.py", text)

    err = usage_error(capsys, "check", path)

    assert (path if line is None else f"{path}:{line}") in err


def test_binary_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "binary.vir"
    path.write_bytes(b"\xff\xfe\x00")

    assert str(path) in usage_error(capsys, "check", str(path))


def test_info_prints_one_directory_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--cmake-dir" in usage_error(capsys, "info", "--include-dir", "--cmake-dir")
