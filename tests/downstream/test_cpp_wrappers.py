"""`vyre-cuda bundle --cpp`: the classes that it writes compile without a warning and give Python's bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from launched_programs import TYPES, blend, held, positive, saxpy, twice

import vyre_cuda as vc
from vyre_cuda.bundles.cpp import KernelFacts, class_name, header
from vyre_cuda.cli.command import main

from .test_cpp_header import COMPILERS, CPP, INCLUDE, STRICT, build
from .tools import EMULATOR, attempt, call


def transpose() -> vc.Program:
    """Arrays with two axes; the shape of the result follows."""
    b = vc.Builder("transpose_in_blocks", block=(8, 8))
    x = b.input("x", vc.f32, ndim=2)
    out = b.output("out", vc.f32, shape=(x.shape[1], x.shape[0]))
    b.work(x.shape[1], x.shape[0])
    i, j = b.let("i", vc.global_id.x), b.let("j", vc.global_id.y)
    with b.if_(i < x.shape[1]), b.if_(j < x.shape[0]):
        out[i, j] = x[j, i]
    return b.build()


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wrapped") / "models.vyre"
    programs = [saxpy(), positive(), transpose(), *map(blend, TYPES)]
    with vc.Device("emulator") as device:
        graphs = {"twice": twice(device), "held": held(device)}
        vc.bundle(programs, path, targets=["sm_80"], cubins=False, graphs=graphs)
    return path


@pytest.mark.slow
def test_classes_give_pythons_bytes(bundle: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((2, 4), np.float32)
    matrix = rng.standard_normal((30, 50), np.float32)
    mask = rng.integers(0, 2, 40).astype(np.bool_)
    given = {"x": x, "y": y, "matrix": matrix, "mask": mask}
    expected = {"saxpy": vc.evaluate(saxpy(), x, y, 2.5), "turned": matrix.T}
    for kind in TYPES:
        values = rng.integers(0, 2 if kind == vc.bool_ else 100, 41).astype(kind.dtype)
        given[kind.name.rstrip("_")] = values
        expected[kind.name.rstrip("_")] = np.where(mask, values[40], values[:40])
    constant = np.array([1, 2, 3, 4], np.float32)
    for name, a in (("given", 2.5), ("defaults", 2.0)):
        expected[name] = np.float32(a) * (np.float32(a) * x + constant) + constant
    for name, values in given.items():
        values.tofile(tmp_path / f"{name}.bin")

    assert main(["bundle", str(bundle), "--cpp", str(tmp_path / "models.hpp")]) == 0
    done = attempt([build(tmp_path, CPP / "wrapped.cpp", f"-I{tmp_path}"), EMULATOR, bundle], folder=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    for name, values in expected.items():
        assert (tmp_path / f"{name}.out").read_bytes() == values.tobytes(), name
    lines = done.stdout.splitlines()
    assert "out" in lines[0]
    assert "50" in lines[0]
    assert lines[1].startswith("positive: thread 2: not positive (")
    assert "out" in lines[2]
    assert len(lines) == 3


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("-fno-exceptions", "-fno-rtti")], ids=["exceptions", "no-exceptions"])
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_they_compile_in_each_dialect(
    bundle: Path, tmp_path: Path, compiler: str, standard: str, flags: tuple[str, ...]
) -> None:
    assert main(["bundle", str(bundle), "--cpp", str(tmp_path / "models.hpp")]) == 0
    (tmp_path / "host.cpp").write_text('#include "models.hpp"\nint main() { return vyc_version() == 0; }\n')

    words = [f"-std={standard}", *STRICT, *flags, INCLUDE, f"-I{tmp_path}", "-fsyntax-only"]
    call([compiler, *words, tmp_path / "host.cpp"])


def test_names_of_classes() -> None:
    assert [class_name(name) for name in ("saxpy", "tone_map", "f.g", "2d")] == ["Saxpy", "ToneMap", "FG", "K2d"]


def test_two_kernels_with_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a_b and aB would both be the class AB: rename"):
        header("models", [KernelFacts("a_b", ()), KernelFacts("aB", ())], [])


@pytest.mark.parametrize("stem", ["int", "1st-try", "vyre", "std", "saxpy", "..."])
def test_any_name_of_a_file_is_a_namespace(stem: str) -> None:
    line = next(line for line in header(stem, [], []).splitlines() if line.startswith("namespace"))

    assert line.split()[1] not in ("int", "vyre", "std")
    assert line.split()[1].isidentifier()


def test_a_command_without_a_place_for_the_header_is_refused(bundle: Path, tmp_path: Path) -> None:
    assert main(["bundle", str(bundle), "--cpp", str(tmp_path / "nowhere" / "models.hpp")]) != 0
