"""The public ABI: the header compiles alone in both languages, exactly the listed names are exported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import vyre_cuda as vc
from vyre_cuda.testing.compilers import c_compiler, cpp_compiler

ROOT = Path(__file__).parents[2]
LIBRARY = Path(vc.get_library_dir()) / f"libvyre_cuda.so.{vc.__version__.rpartition('.')[0]}"
HEADER = Path(vc.get_include()) / "vyre_cuda.h"
PARTS = sorted((HEADER.parent / "vyre_cuda").glob("*.h"))
PACKAGE = Path(vc.__file__).parent
CYTHON = (*PACKAGE.glob("_native/*/c_*.pxd"), PACKAGE / "c_api.pxd")
VERSION = LIBRARY.name.replace("libvyre_cuda.so.", "VYRE_CUDA_")
LISTED = (ROOT / "csrc" / "symbols.txt").read_text().split()


def exported(library: Path) -> list[str]:
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return sorted(line.split()[-1] for line in lines if not line.split()[-1].startswith(VERSION))


def test_exactly_the_listed_symbols_are_exported_with_the_version_of_the_soname() -> None:
    assert exported(LIBRARY) == [f"{name}@@{VERSION}" for name in LISTED]
    assert sorted(LISTED) == LISTED


def test_what_is_linked_needs_that_version() -> None:
    extension = next(PACKAGE.glob("_native/core/context*.so"))
    told = subprocess.run(["readelf", "-VW", str(extension)], capture_output=True, text=True, check=True).stdout
    needed = re.search(rf"File: {re.escape(LIBRARY.name)} .*\n.*Name: (\S+)", told)

    assert needed is not None, told
    assert needed[1] == VERSION


def test_the_library_says_its_version_to_the_loader() -> None:
    """A wheel has it once, under that name; hosts and extensions need it by the same."""
    dynamic = subprocess.run(["readelf", "-d", str(LIBRARY)], capture_output=True, text=True, check=True).stdout

    assert f"Library soname: [{LIBRARY.name}]" in dynamic
    assert [path.name for path in LIBRARY.parent.glob("libvyre_cuda.so*") if path.read_bytes()[:4] == b"\x7fELF"] == [
        LIBRARY.name
    ]


def test_every_function_of_the_header_is_exported() -> None:
    text = "".join(part.read_text() for part in PARTS)
    declared = re.findall(r"^VYC_API\s[^;(]*?(\w+)\(", text, re.MULTILINE)

    assert sorted(declared) == LISTED


def test_cython_has_every_function_once() -> None:
    declarations = r"^ +(?:vyc_status |uint32_t |void |const char \*)(vyc_\w+)\("
    declared = [name for path in CYTHON for name in re.findall(declarations, path.read_text(), re.MULTILINE)]

    assert sorted(declared) == LISTED


def test_every_entry_of_the_changelog_tells_about_the_abi() -> None:
    entries = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]

    assert entries
    for entry in entries:
        version, paragraph = entry.split(",")[0], re.split(r"^### ABI\n+", entry, flags=re.MULTILINE)[1:]
        assert [text.strip() != "" for text in paragraph] == [True], version


@pytest.mark.thin
@pytest.mark.parametrize(
    ("compiler", "standard", "suffix"), [(c_compiler, "c11", "c"), (cpp_compiler, "c++17", "cpp")], ids=["c11", "cpp17"]
)
def test_each_header_compiles_alone(
    tmp_path: Path, compiler: Callable[[], list[str]], standard: str, suffix: str
) -> None:
    warnings = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
    for name in ("vyre_cuda.h", *(f"vyre_cuda/{part.name}" for part in PARTS)):
        source = tmp_path / f"host.{suffix}"
        source.write_text(f'#include "{name}"\nint main(void) {{ return (int)vyc_version() == 0; }}\n')
        command = [*compiler(), f"-std={standard}", *warnings, f"-I{HEADER.parent}", "-fsyntax-only", str(source)]

        done = subprocess.run(command, capture_output=True, text=True, check=False)

        assert done.returncode == 0, f"{name}: {done.stderr}"


def test_a_c_host_links_and_runs(tmp_path: Path) -> None:
    source = tmp_path / "host.c"
    source.write_text(
        """
        #include <stdio.h>
        #include "vyre_cuda.h"
        int main(int argc, char **argv) {
          vyc_driver *driver = 0;
          vyc_driver_info info = {.struct_size = sizeof info};
          vyc_error error = {.struct_size = sizeof error};
          if (vyc_driver_open(&driver, "/nowhere/libcuda.so") != VYC_E_UNAVAILABLE) return 1;
          if (vyc_last_error(&error) != VYC_OK || error.status != VYC_E_UNAVAILABLE) return 2;
          if (vyc_driver_open(&driver, argv[argc - 1]) != VYC_OK) return 3;
          if (vyc_driver_info_get(driver, &info) != VYC_OK || !info.is_emulator) return 4;
          printf("%d\\n", info.version);
          vyc_driver_release(driver);
          vyc_driver_release(0);
          return 0;
        }
        """
    )
    program = tmp_path / "host"
    link = [f"-L{LIBRARY.parent}", "-lvyre_cuda", f"-Wl,-rpath,{LIBRARY.parent}"]
    subprocess.run(
        [*c_compiler(), "-std=c11", f"-I{HEADER.parent}", str(source), "-o", str(program), *link], check=True
    )

    emulator = LIBRARY.parent / "libvyre_cuda_emulator.so"
    # Where the library has the address sanitizer: a host leaks nothing, unlike the interpreter.
    options = os.environ.get("ASAN_OPTIONS", "").replace("detect_leaks=0", "detect_leaks=1")
    environment = {**os.environ, "ASAN_OPTIONS": options}
    done = subprocess.run([str(program), str(emulator)], env=environment, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout.strip()) == (0, "13000"), done.stderr


def test_the_property_record_has_every_attribute_of_the_table(device: vc.Device) -> None:
    assert set(device.context.caps()) == set(type(device.properties).__slots__)


def test_importing_the_package_loads_no_extension() -> None:
    code = "import sys, vyre_cuda; print(sorted(m for m in sys.modules if m.startswith('vyre_cuda._native')))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
