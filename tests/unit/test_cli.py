"""The command line without a device: info, check and ptx."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import SAXPY, TWO_PROGRAMS, write

import vyre_cuda as vc
from vyre_cuda.cli import main

BROKEN = "program broken\nin x: f32\nout y: f32[size(z)]\n\nlet i = global_id.x\nstore y[i], add(load(x[i]), i)\n"


# ---- info --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "file"),
    [
        ("--include-dir", "vyre_cuda.h"),
        ("--library-dir", "libvyre_cuda.so"),
        ("--cmake-dir", "vyre_cudaConfig.cmake"),
        ("--pkgconfig-dir", "vyre_cuda.pc"),
    ],
)
def test_info_prints_one_directory(option: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", option]) == 0
    out, err = capsys.readouterr()
    assert (Path(out.rstrip("\n")) / file).is_file()
    assert err == ""

    assert main(["info", option, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {option.strip("-").replace("-", "_"): out.rstrip("\n")}


# ---- check -------------------------------------------------------------------------------------------------------


def test_valid_text_is_summarized(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(SAXPY)]) == 0

    out = capsys.readouterr().out
    assert out.startswith("saxpy is valid: 4 parameters, 3 statements")
    assert vc.parse(SAXPY.read_text()).fingerprint[:16] in out


def test_check_prints_every_finding_inside_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(tmp_path, "broken.vir", BROKEN)]) == 1

    lines = capsys.readouterr().out.splitlines()
    shown = [lines[at - 1].strip() for at, line in enumerate(lines) if line.strip().startswith("^")]
    assert shown == ["out y: f32[size(z)]", "store y[i], add(load(x[i]), i)"]


def test_check_gives_findings_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "broken.vir", BROKEN)

    assert main(["check", path, "--json"]) == 1

    out, err = capsys.readouterr()
    document = json.loads(out)
    assert not document["valid"]
    assert [(d["file"], d["line"]) for d in document["diagnostics"]] == [(path, 3), (path, 6)]
    assert err == ""


def test_check_takes_all_programs_of_a_python_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(tmp_path, "two.py", TWO_PROGRAMS), "--json"]) == 0

    assert [p["name"] for p in json.loads(capsys.readouterr().out)["programs"]] == ["first", "second"]


KERNELS = """
import vyre_cuda as vc

@vc.kernel
def doubled(x: vc.In[vc.f32]):
    out = vc.output(vc.f32, x.size)
    out[vc.global_id.x] = x[vc.global_id.x] * 2

@vc.kernel
def scaled(x: vc.In[vc.f32], by: vc.const = 3):
    out = vc.output(vc.f32, x.size)
    out[vc.global_id.x] = x[vc.global_id.x] * by

@vc.kernel
def still_open(x: vc.In[vc.f32], by: vc.const):
    out = vc.output(vc.f32, x.size)
    out[vc.global_id.x] = x[vc.global_id.x] * by
"""


def test_check_takes_kernel_functions_without_open_parameters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", write(tmp_path, "kernels.py", KERNELS), "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["programs"]] == ["doubled", "scaled"]


def test_error_of_a_kernel_function_has_its_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "mixed.py", KERNELS.replace("* 2", "* vc.global_id.x"))

    assert main(["check", path, "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert (finding["file"], finding["line"], finding["column"]) == (path, 7, 27)
    assert finding["expression"] == "x[vc.global_id.x] * vc.global_id.x"


BROKEN_KERNELS = KERNELS.replace("* 2", "* vc.global_id.x") + KERNELS.split("\n\n")[1].replace(
    "doubled", "whole"
).replace("* 2", "& 2")


def test_check_lists_what_is_wrong_in_all_kernel_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "broken.py", BROKEN_KERNELS)

    assert main(["check", path, "--json"]) == 1
    assert [each["expression"] for each in json.loads(capsys.readouterr().out)["diagnostics"]] == [
        "x[vc.global_id.x] * vc.global_id.x",
        "x[vc.global_id.x] & 2",
    ]


@pytest.mark.parametrize("command", ["check", "ptx"])
def test_a_program_that_is_named_needs_no_others_that_are_right(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "broken.py", BROKEN_KERNELS)

    assert main([command, path, "--program", "scaled"]) == 0
    assert "scaled" in capsys.readouterr().out


def test_builder_error_shows_the_python_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "mixed.py", TWO_PROGRAMS.replace("= x[vc.global_id.x]", "= x[0] + vc.u32(1)"))

    assert main(["check", path]) == 1

    out = capsys.readouterr().out
    assert f"{path}:7" in out
    assert out.splitlines()[-1].strip() == "y[vc.global_id.x] = x[0] + vc.u32(1)"


def test_check_loads_no_extension() -> None:
    code = f"import sys; from vyre_cuda.cli import main; main(['check', {str(SAXPY)!r}]); " + (
        "sys.exit(any(name.startswith('vyre_cuda._native') for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


# ---- ptx ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_120"])
def test_ptx_is_that_of_the_library(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = vc.ptx(vc.parse(SAXPY.read_text()), target=target)

    assert main(["ptx", str(SAXPY), "--target", target]) == 0

    assert capsys.readouterr().out.rstrip("\n") == expected.rstrip("\n")


ROOT_OF = """program root
block 128
in x: f32
out out: f32[size(x)]

store out[global_id.x], sqrt(load(x[global_id.x]))
"""


def test_ptx_within_a_bound_is_that_of_the_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = vc.ptx(vc.parse(ROOT_OF), max_ulp=2)

    assert main(["ptx", write(tmp_path, "root.vir", ROOT_OF), "--max-ulp", "2"]) == 0

    assert capsys.readouterr().out.rstrip("\n") == expected.rstrip("\n")
    assert "sqrt.approx.f32" in expected


def test_ptx_is_given_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "ptx", str(SAXPY)]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document == {"program": "saxpy", "target": "sm_90", "ptx": vc.ptx(vc.parse(SAXPY.read_text()))}


DIVIDED = """program divided
block 128
in x: u32
scalar n: i32
scalar d: u32
out out: u32[size(x)]

store out[global_id.x], floor_divide(load(x[global_id.x]), d)
"""


def test_ptx_for_known_values_computes_less(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, "divided.vir", DIVIDED)

    assert main(["ptx", file]) == 0
    assert "div.u32" in capsys.readouterr().out
    assert main(["ptx", file, "--specialize", "d=8", "--specialize", "n=-1"]) == 0
    assert "div.u32" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("h=1", "there is no 'h'; there are x.size, n, d, out.size"),
        ("d=-1", "d: -1 is out of range of u32"),
        ("d=x", "d: 'x' is not a number"),
        ("d=1.5", "d: '1.5' is not a whole number"),
        ("x.size=1.5", "x.size: '1.5' is not a whole number"),
        ("d", "'d' is not NAME=VALUE"),
    ],
)
def test_known_values_that_a_program_cannot_have_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str, words: str
) -> None:
    file = write(tmp_path, "divided.vir", DIVIDED)
    try:
        code = main(["ptx", file, "--specialize", value])
    except SystemExit as error:
        code = int(error.code or 0)

    assert code == 2
    printed = capsys.readouterr().err
    assert "--specialize" in printed
    assert words in printed


def test_program_is_chosen_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ptx", write(tmp_path, "two.py", TWO_PROGRAMS), "--program", "second", "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["program"] == "second"


def test_invalid_program_has_no_ptx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ptx", write(tmp_path, "broken.vir", BROKEN)]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err


def test_reader_that_goes_away_is_no_error() -> None:
    command = [sys.executable, "-m", "vyre_cuda", "ptx", str(SAXPY)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()

    assert (process.returncode, errors) == (0, b"")
