"""The host in Rust builds with cargo alone, runs a bundle, and says what the library says; it declares what C has."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import vyre_cuda as vc

from .test_cpp_header import bundle  # noqa: F401
from .tools import EMULATOR, ROOT, attempt, call


@pytest.mark.thin
@pytest.mark.cargo
@pytest.mark.slow
def test_a_host_in_rust_builds_and_runs(tmp_path: Path, bundle: Path) -> None:  # noqa: F811
    host = tmp_path / "rust_host"
    shutil.copytree(ROOT / "examples" / "rust_host", host)
    words = {"VYRE_CUDA_LIBRARY_DIR": vc.get_library_dir(), "RUSTFLAGS": "-D warnings"}
    call(["cargo", "build", "--offline", "--quiet"], folder=host, environment=words)
    program = host / "target" / "debug" / "rust_host"

    assert call([program, bundle, EMULATOR]) == "1000\n1999\n2998\n3997\n"
    done = attempt([program, "/nowhere.vyre", EMULATOR])
    assert done.returncode == 1
    assert "/nowhere.vyre cannot be opened" in done.stderr


RUST = (ROOT / "examples" / "rust_host" / "src" / "vyre.rs").read_text()
C = json.loads((ROOT / "tests" / "binding" / "abi.json").read_text())
BYTES = {"u32": 4, "i32": 4, "u64": 8, "i64": 8, "usize": 8}
LIKE_C = {"u32": {"uint32_t", "vyc_status"}, "i32": {"int32_t"}, "u64": {"uint64_t"}, "i64": {"int64_t"}}
LIKE_C |= {"usize": {"size_t", "unsigned long"}}


def size_of(declared: str) -> int:
    """Of a field of Rust."""
    array = re.fullmatch(r"\[(\w+); (\d+)\]", declared)
    if array is not None:
        return BYTES[array[1]] * int(array[2])
    return 8 if declared.startswith("*") else BYTES[declared]


def is_like(declared: str, in_c: str) -> bool:
    """Whether a parameter of Rust has the type of the one of C: pointers of as many levels, else the same number."""
    if declared.startswith("*"):
        return len(re.findall(r"\*(?:mut|const) ", declared)) == in_c.count("*")
    return in_c.replace("const ", "") in LIKE_C[declared]


@pytest.mark.parametrize(("name", "in_c"), [("Argument", "vyc_argument"), ("Run", "vyc_run")])
def test_structs_of_rust_are_those_of_c(name: str, in_c: str) -> None:
    body = re.search(rf"#\[repr\(C\)\]\nstruct {name} {{\n(.*?)\n}}", RUST, re.DOTALL)
    assert body is not None
    fields = re.findall(r"^    (\w+): (.*),$", body[1], re.MULTILINE)
    place, found = 0, []
    for field, declared in fields:
        size = size_of(declared)
        place += -place % min(size, 4 if declared.startswith("[u32") else size)
        found.append((field, place, size))
        place += size

    expected = C["structs"][in_c]
    assert found == [(field, row["offset"], row["size"]) for field, row in expected["fields"].items()]
    assert place + -place % 8 == expected["size"]


def test_functions_of_rust_are_those_of_c() -> None:
    functions = re.findall(r"fn (vyc_\w+)\(([^)]*)\) -> ([^;]+);", RUST)
    released = re.findall(r"Raw\w+ \w+ (vyc_\w+_release)", RUST)

    assert (len(functions), len(released)) == (6, 4)
    for name in released:
        assert re.fullmatch(r"void \(vyc_\w+ \*\)", C["functions"][name])
    for name, parameters, result in functions:
        types = [each.partition(": ")[2].strip() for each in parameters.split(",") if ":" in each]
        in_c = re.fullmatch(r"(.*?) ?\((.*)\)", C["functions"][name])
        assert in_c is not None
        expected = [each for each in in_c[2].split(", ") if each != "void"]
        assert len(types) == len(expected), name
        for declared, wanted in zip((result, *types), (in_c[1], *expected), strict=True):
            assert is_like(declared, wanted), f"{name}: {declared} for {wanted}"


def test_constants_of_rust_are_those_of_c() -> None:
    found = re.findall(r"const (\w+): u32 = (\d+);", RUST)

    assert found == [("ARGUMENT_HOST", str(C["constants"]["VYC_ARGUMENT_HOST"]))]
