"""`vyre-cuda bundle`: programs of a file into a bundle, and what one has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bundled_rows import gaps

import vyre_cuda as vc
from vyre_cuda.cli import main

from ..bundle_programs import EXAMPLE, saxpy


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "saxpy.vir"
    path.write_text(saxpy().text())
    return path


def test_a_program_is_bundled_for_the_targets_named(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = source.with_name("out.vyre")

    code = main(["bundle", str(source), "-o", str(out), "--targets", "sm_90,sm_80", "--no-cubins", "--json"])

    assert code == 0
    kernel = vc.load_bundle(out).kernels["saxpy"]
    assert (kernel.program, kernel.targets, kernel.cubins) == (saxpy(), ("sm_80", "sm_90"), ())
    told = json.loads(capsys.readouterr().out)
    assert told["bytes"] == out.stat().st_size
    assert [row["name"] for row in told["kernels"]] == ["saxpy"]


def test_options_reach_the_bundle(source: Path) -> None:
    out = source.with_name("out.vyre")

    options = ["--precision", "fast", "--bounds", "off", "--no-source", "--cubins", "--targets", "sm_90"]
    assert main(["bundle", str(source), "-o", str(out), *options]) == 0

    kernel = vc.load_bundle(out).kernels["saxpy"]
    assert (kernel.precision, kernel.bounds, kernel.has_source) == ("fast", "off", False)
    assert kernel.cubins == ("sm_90",)


def test_what_a_bundle_has_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", str(EXAMPLE)]) == 0

    printed = capsys.readouterr().out
    assert "kernel saxpy(in f32 x, in f32 y, out f32 out, scalar f32 a): sm_80, sm_90" in printed
    assert "graph step(a, out, x): 6 steps" in printed


def test_a_launcher_is_written_around_a_bundle(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, folder = source.with_name("my kernels.vyre"), source.with_name("launcher")

    assert main(["bundle", str(source), "-o", str(out), "--launcher", str(folder), "--json"]) == 0
    document, note = capsys.readouterr()
    assert set(json.loads(document)["launcher"]) == {str(path) for path in folder.iterdir()}
    assert f"{folder}/build/my_kernels --help" in note
    assert (folder / "my_kernels.vyre").read_bytes() == out.read_bytes()

    assert main(["bundle", str(EXAMPLE), "--launcher", str(folder)]) == 0
    assert (folder / "example.vyre").read_bytes() == EXAMPLE.read_bytes()


@pytest.mark.parametrize("file", ["CMakeLists.txt", "main.cpp"])
def test_a_launcher_in_another_project_is_refused(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / file).write_text("project(other)\n")

    assert main(["bundle", str(EXAMPLE), "--launcher", str(tmp_path)]) == 1

    assert f"{tmp_path / file}: the folder holds another project" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [file]


def test_a_bundle_and_its_launcher_may_be_in_one_folder(source: Path) -> None:
    folder = source.with_name("both")
    folder.mkdir()
    assert main(["bundle", str(source), "-o", str(folder / "b.vyre"), "--no-cubins", "--launcher", str(folder)]) == 0
    assert (folder / "main.cpp").exists()


def test_bad_usage_and_bad_files_have_their_exit_codes(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.vyre"
    damaged = tmp_path / "damaged.vyre"
    damaged.write_bytes(EXAMPLE.read_bytes()[:-1])

    assert main(["bundle", str(source)]) == 2
    assert main(["bundle", str(source), "-o", str(out), "--targets", "sm_1"]) == 2
    assert main(["bundle", str(source), "-o", str(out), "--targets", "90"]) == 2
    assert main(["bundle", str(source), "-o", str(out), "--targets", ","]) == 2
    assert main(["bundle", str(damaged)]) == 1
    assert main(["bundle", str(tmp_path / "nothing.vyre")]) == 1
    assert not out.exists()


def test_known_values_reach_the_bundle(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = source.with_name("out.vyre")

    options = ["--specialize", "a=2.5", "--specialize", "x.size=64", "--no-cubins", "--targets", "sm_90"]
    assert main(["bundle", str(source), "-o", str(out), *options]) == 0

    assert vc.load_bundle(out).kernels["saxpy"].specialize == {"a": 2.5, "x.size": 64}
    assert "compiled for x.size = 64, a = 2.5" in capsys.readouterr().out
    assert main(["bundle", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"][0]["specialize"] == {"a": 2.5, "x.size": 64}


def test_a_value_that_is_given_twice_is_refused(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ptx", str(source), "--specialize", "a=2", "--specialize", "a=3"]) == 2
    assert "a is given twice" in capsys.readouterr().err


def test_the_file_that_is_read_is_not_replaced(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, bundle = source.read_text(), source.with_name("out.vyre")
    link = source.with_name("link.vyre")
    link.symlink_to(source)
    for options in (["-o", str(source)], ["-o", str(link)], ["-o", str(bundle), "--cpp", str(source)]):
        assert main(["bundle", str(source), *options]) == 2
        assert "which is read" in capsys.readouterr().err
    assert source.read_text() == text
    assert main(["bundle", str(source), "-o", str(bundle), "--no-cubins", "--cpp", str(bundle)]) == 2
    vc.load_bundle(bundle)


def test_a_header_has_no_classes_for_what_only_others_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle, header = tmp_path / "b.vyre", tmp_path / "b.hpp"
    vc.bundle([gaps()], bundle, targets=["sm_90"], cubins=False, workers={"w": ["gaps"]}, many=["gaps"])

    assert main(["bundle", str(bundle), "--cpp", str(header)]) == 0

    assert re.findall(r"^class (\w+)", header.read_text(), re.MULTILINE) == ["Gaps"]
    assert "kernel w_clear_bytes(" in capsys.readouterr().out


def test_a_full_disk_is_reported_with_the_file(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["bundle", str(source), "-o", str(source.with_name("out.vyre")), "--no-cubins", "--cpp", "/dev/full"]) == 1
    )
    assert "/dev/full: No space left on device" in capsys.readouterr().err


def test_known_values_are_for_one_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "two.py"
    text = "import vyre_cuda as vc\n" + "".join(
        f"b = vc.Builder('{name}')\nh, n = b.inout('h', vc.u32), b.scalar('n', vc.u32)\nh[0] = n\n{name} = b.build()\n"
        for name in ("one", "two")
    )
    file.write_text(text)
    out = tmp_path / "out.vyre"
    words = ["bundle", str(file), "-o", str(out), "--no-cubins", "--specialize", "n=3"]

    assert main(words) == 2
    assert "--specialize is for one program" in capsys.readouterr().err
    assert main([*words, "--program", "two"]) == 0
    assert vc.load_bundle(out).kernels["two"].specialize == {"n": 3}
