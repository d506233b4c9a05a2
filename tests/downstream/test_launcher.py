"""The program that is written around a bundle builds as it is, and computes what Python computes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from launched_programs import saxpy

import vyre_cuda as vc
from vyre_cuda.bundles.launcher import target_name, write_launcher

from .tools import EMULATOR, attempt, call

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def launch(launcher: Path, kernel: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return attempt([launcher, "--driver", EMULATOR, "--kernel", kernel, "--repeats", "3", *words])


def good(launcher: Path, kernel: str, *words: str | Path) -> list[str]:
    done = launch(launcher, kernel, *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("device: ")
    return done.stdout.splitlines()


def save(folder: Path, arrays: Sequence[np.ndarray]) -> list[Path]:
    paths = [folder / f"{number}.npy" for number in range(len(arrays))]
    for path, array in zip(paths, arrays, strict=True):
        np.save(path, array)
    return paths


@pytest.mark.thin
@pytest.mark.slow
def test_a_launcher_gives_pythons_bytes_and_prints_timings(launcher: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal((2, 1000), np.float32)
    expected = vc.evaluate(saxpy(), x, y, 2.5)

    paths = save(tmp_path, [x.reshape(10, 100), y])
    lines = good(launcher, "saxpy", *paths, "2.5", "--save", f"out={tmp_path / 'out.npy'}")

    assert np.load(tmp_path / "out.npy").tobytes() == expected.tobytes()
    assert lines[0].startswith("out: f32[1000] = ")
    shown = [np.float32(word) for word in lines[0].split(" = ")[1].removesuffix(", ...").split(", ")]
    np.testing.assert_array_equal(shown, expected[:8])
    assert lines[1] == "calls: 3"
    least, median, most = map(float, re.findall(r" (\d\S*)", lines[2].split(":")[1]))
    assert 0 < least <= median <= most
    assert lines[3].startswith("of one, enqueue, wait, on the device: ")


F16 = ("0.1", "-65504", "65519", "65520", "6e-8", "2.9e-8", "2.99e-8", "nan")
BF16 = ("0.1", "-1.00390625", "1.01171875", "3.4e38", "1e-40", "-inf", "-0.0")
NUMBERS = [
    (vc.bool_, np.bool_(True), "1"),
    (vc.u8, np.uint8(255), "255"),
    (vc.i8, np.int8(-128), "-128"),
    (vc.u16, np.uint16(65535), "65535"),
    (vc.i16, np.int16(-32768), "-32768"),
    (vc.u32, np.uint32(4294967295), "4294967295"),
    (vc.i32, np.int32(-2147483648), "-2147483648"),
    (vc.u64, np.uint64(18446744073709551615), "18446744073709551615"),
    (vc.i64, np.int64(-9223372036854775808), "-9223372036854775808"),
    *((vc.f16, text, text) for text in F16),
    *((vc.bf16, text, text) for text in BF16),
    (vc.f32, np.float32(0.1), "0.1"),
    # Rounded once: by way of f64 it would be 1.
    (vc.f32, np.nextafter(np.float32(1), np.float32(2)), "1.000000059604644775390625000001"),
    (vc.f64, np.float64(0.1), "0.1"),
]


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "value", "text"), NUMBERS, ids=[f"{kind} {text}" for kind, _, text in NUMBERS])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_scalars_of_every_type_are_rounded_as_numpy_does(
    launcher: Path, tmp_path: Path, kind: vc.Type, value: np.generic | str, text: str
) -> None:
    if isinstance(value, str):
        value = np.array(float(text)).astype(np.float16 if kind == vc.f16 else BFLOAT16)[()]
    mask = np.array([True, False, True])
    expected = np.where(mask, value, value.dtype.type(0))
    (tmp_path / "x.bin").write_bytes(np.zeros(3, value.dtype).tobytes())

    words = [*save(tmp_path, [mask]), tmp_path / "x.bin", f"value={text}", "--save", f"x={tmp_path / 'out.npy'}"]
    good(launcher, f"blend_{kind}", *words)

    found = np.load(tmp_path / "out.npy")
    assert found.dtype == (np.uint16 if kind == vc.bf16 else value.dtype)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "text"), [(vc.u8, "256"), (vc.u8, "-1"), (vc.i8, "128"), (vc.bool_, "2"), (vc.i64, "1.5"), (vc.f32, "1x")]
)
def test_a_scalar_that_is_not_of_its_type_is_refused(launcher: Path, kind: vc.Type, text: str) -> None:
    done = launch(launcher, f"blend_{kind}", "mask=1,", "x=1,", f"value={text}")

    assert done.returncode == 1
    assert f'"{text}" is not a value of type {kind}' in done.stderr


@pytest.mark.slow
def test_numbers_with_commas_are_arrays_and_an_out_can_bring_its_size(launcher: Path) -> None:
    assert good(launcher, "positive", "1,2,3", "out=2")[0] == "out: i32[2] = 1, 2"
    assert good(launcher, "saxpy", "1,", "y=2,", "a=3")[0] == "out: f32[1] = 5"


@pytest.mark.slow
def test_a_graph_is_launched_with_values_for_its_symbols(launcher: Path, tmp_path: Path) -> None:
    words = [launcher, "--driver", EMULATOR, "--graph", "twice", "--repeats", "2"]

    with_defaults = call([*words, "x=1,1,1,1"]).splitlines()
    assert with_defaults[0] == "out: f32[4] = 7, 10, 13, 16"
    assert with_defaults[1] == "calls: 2"
    given = ["x=1,2,3,4", "y=0,0,0,1", "a=3", "--save", f"out={tmp_path / 'out.npy'}"]
    assert call([*words, *given]).startswith("out: f32[4] = 9, 18, 27, 40\n")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), np.array([9, 18, 27, 40], np.float32))


@pytest.mark.slow
def test_an_array_that_a_graph_writes_may_be_a_count(launcher: Path) -> None:
    words = [launcher, "--driver", EMULATOR, "--graph", "held", "--repeats", "0"]

    assert call([*words, "x=1,2,3", "out=3"]) == "out: i32[3] = 1, 2, 3\n"
    done = attempt([*words, "x=3", "out=3"])  # which is read, and so is a file
    assert done.returncode == 1
    assert "3: No such file" in done.stderr


@pytest.mark.slow
def test_a_failed_assertion_of_a_graph_is_told_with_its_thread(launcher: Path) -> None:
    done = attempt([launcher, "--driver", EMULATOR, "--graph", "held", "x=1,-2,3", "out=3"])

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("thread 1: not positive")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--graph", "thrice"], 2, "no graph thrice; there are held twice"),
        (["--graph", "twice"], 2, "no value for x"),
        (["--graph", "twice", "1,2"], 2, "1,2 has no name"),
        (["--graph", "twice", "x=1,2,3,4", "b=1"], 2, "no symbol b"),
        (["--graph", "twice", "x=1,2"], 1, "x"),
    ],
)
def test_values_that_do_not_fit_a_graph_are_told(launcher: Path, words: list[str], code: int, said: str) -> None:
    done = attempt([launcher, "--driver", EMULATOR, *words])

    assert done.returncode == code
    assert said in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_failed_assertion_is_told_with_its_thread(launcher: Path) -> None:
    done = launch(launcher, "positive", "1,2,-3", "out=3")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("thread 2: not positive")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonsense", "1,2"], "no kernel nonsense; there are blend_"),
        (["positive", "1,2"], "no value for out, which is a count"),
        (["positive", "1,2", "3,4", "out=1"], "too many values"),
        (["positive", "1,2", "out=1", "z=1"], "no parameter z"),
        (["positive", "1,2", "out=1", "--save", "z=/dev/null"], "no result z"),
        (["positive", "1,2", "out=1", "--grid", "1,1,1,1"], "more than three axes"),
        (["positive", "1,2", "out=1", "--grid", "1,"], "is not a count"),
        (["positive", "1,2", "out=1", "--nonsense"], "unknown option --nonsense"),
        (["positive", "1,2", "out=1", "--repeats"], "--repeats needs a value"),
    ],
)
def test_bad_usage_is_told(launcher: Path, words: list[str], said: str) -> None:
    done = launch(launcher, *words)

    assert done.returncode == 2
    assert said in done.stderr


def npy(shape: str, nbytes: int) -> bytes:
    """A .npy file of f32 that says of itself that it has this shape."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(nbytes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"12345", "5 bytes are not a whole number of f32"),
        (b"\x93NUMPY", "truncated"),
        (b"\x93NUMPY\x01\x00\xff\xff" + b" " * 20, "truncated"),
        (b"\x93NUMPY\x01\x00\x04\x00" + b"{'a'}   ", "no descr"),
        (npy("(5x,)", 20), "its shape is not understood: 5x"),
        (npy("(-5,)", 20), "its shape is not understood: -5"),
        (npy(",", 20), "its shape is not understood"),
        (npy("(4294967296, 4294967296)", 0), "its shape is too large"),
        (npy("(6,)", 20), "20 bytes for 6 elements"),
    ],
)
def test_a_file_that_is_no_array_is_told(launcher: Path, tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "x"
    if content is not None:
        path.write_bytes(content)

    done = launch(launcher, "saxpy", path, "1,", "1")

    assert done.returncode == 1
    assert f"{path}: " in done.stderr
    assert said in done.stderr


@pytest.mark.slow
def test_an_array_of_another_type_or_order_is_refused(launcher: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    for array, said in (
        (np.zeros(2), "<f8, which is not f32"),
        (np.zeros((2, 3), np.float32, order="F"), "Fortran"),
        (np.zeros(2, ">f4"), ">f4, which is not f32"),
    ):
        np.save(path, array)
        done = launch(launcher, "saxpy", path, "1,", "1")
        assert done.returncode == 1
        assert said in done.stderr
    path.write_bytes(b"no array")
    assert "it is not a .npy file" in launch(launcher, "saxpy", path, "1,", "1").stderr


@pytest.mark.slow
def test_help_names_the_kernels_and_needs_no_device(launcher: Path) -> None:
    output = call([launcher, "--help"])

    kernels, graphs = (line.split() for line in output.splitlines()[-2:])
    assert kernels[0] == "kernels:"
    assert {name for name in kernels[1:] if not name.startswith("blend_")} == {"saxpy", "positive"}
    assert "blend_f16" in kernels
    assert graphs == ["graphs:", "held", "twice"]
    assert attempt([launcher, "--driver", "/nowhere/libcuda.so", "--kernel", "saxpy"]).returncode == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("saxpy", "saxpy"),
        ("my kernels", "my_kernels"),
        ("all", "all_launcher"),
        ("2d", "2d_launcher"),
        ("-", "launcher"),
    ],
)
def test_names_are_those_that_cmake_takes(text: str, name: str) -> None:
    assert target_name(text) == name


def test_another_project_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("project(other)\n")

    with pytest.raises(FileExistsError, match=r"CMakeLists\.txt"):
        write_launcher(tmp_path, b"", name="x", version="0.1.0")

    assert [path.name for path in tmp_path.iterdir()] == ["CMakeLists.txt"]


def test_a_launcher_is_replaced_by_a_newer_one(tmp_path: Path) -> None:
    first = write_launcher(tmp_path, b"old", name="x", version="0.1.0")
    second = write_launcher(tmp_path, b"new", name="x", version="0.1.0")

    assert first == second
    assert (tmp_path / "x.vyre").read_bytes() == b"new"
    assert not any("@" in path.read_text() for path in first if path.suffix == ".txt")
