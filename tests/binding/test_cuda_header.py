"""csrc/base/cuda.h says of the driver API what NVIDIA's cuda.h says: numbers, layouts, the types of functions."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import nvidia
import pytest

from vyre_cuda.testing.compilers import cpp_compiler

BASE = Path(__file__).parents[2] / "csrc" / "base"
OURS = "\n".join((BASE / name).read_text() for name in ("cuda_values.h", "cuda.h"))
WHEELS = [path.parent for place in nvidia.__path__ for path in sorted(Path(place).glob("*/include/cuda.h"))]
THEIRS = [*(path.parent for path in [Path("/usr/local/cuda/include/cuda.h")] if path.exists()), *WHEELS]
# Ends of lists that grow with each version of CUDA.
ENDS = {"CU_DEVICE_ATTRIBUTE_MAX", "CU_FUNC_ATTRIBUTE_MAX", "CU_JIT_NUM_OPTIONS"}
# Named by a macro in cuda.h to an interface of a newer CUDA than the first one with it.
RENAMED = {"cuEventElapsedTime"}

NUMBERS = re.findall(r"\b(CU\w+) = \d+", OURS)
MACROS = re.findall(r"^#define (CU_\w+) ", OURS, re.MULTILINE)
FUNCTIONS = re.findall(r"^CUresult CUDAAPI (cu\w+)\(", OURS, re.MULTILINE)
TYPES = re.findall(r"^typedef (?:\w+ )+\*?(CU\w+|cu\w+);|^\} (CU\w+);", OURS, re.MULTILINE)
STRUCTS = {
    name: re.findall(r"(\w+)(?:\[\d+\])?(?=[,;])", re.sub(r"union \{.*?\};|/\*.*?\*/", "", body, flags=re.DOTALL))
    for body, name in re.findall(r"^typedef (?:struct|union) \w+ \{(.*?)^\} (CU\w+);", OURS, re.MULTILINE | re.DOTALL)
}
# Their anonymous unions.
STRUCTS["CUgraphNodeParams"] += ["conditional"]
STRUCTS["CUstreamBatchMemOpParams"] += [f"writeValue.{name}" for name in ("operation", "address", "value", "flags")]


def told_by(folder: Path, *flags: str) -> Mapping[str, str]:
    """What a program says that is compiled with one of the headers."""
    lines = [f'number("{name}", static_cast<long long>({name}));' for name in NUMBERS]
    lines += [f'number("{name}", (long long)(std::uintptr_t){name});' for name in MACROS]
    lines += [f'text("{name}", typeid(decltype(&{name})).name());' for name in FUNCTIONS if name not in RENAMED]
    for name in (name for pair in TYPES for name in pair if name and "Params_" not in name):
        lines += [f'number("sizeof {name}", sizeof({name}));', f'number("alignof {name}", alignof({name}));']
    for name, fields in STRUCTS.items():
        lines += [f'number("{name}.{field}", offsetof({name}, {field}));' for field in fields]
        lines += [f'number("sizeof {name}.{field}", sizeof({name}::{field}));' for field in fields if "." not in field]
    source, program = folder / "told.cpp", folder / "told"
    source.write_text(
        "#include <cstddef>\n#include <cstdint>\n#include <cstdio>\n#include <typeinfo>\n"
        'static void number(const char *name, long long value) { std::printf("%s = %lld\\n", name, value); }\n'
        'static void text(const char *name, const char *value) { std::printf("%s = %s\\n", name, value); }\n'
        "int main() {\n" + "\n".join(lines) + "\n}\n"
    )
    subprocess.run([*cpp_compiler(), "-std=c++17", *flags, str(source), "-o", str(program)], check=True)
    told = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    return dict(line.split(" = ", 1) for line in told.splitlines())


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    return told_by(tmp_path_factory.mktemp("ours"), "-include", str(BASE / "cuda.h"))


def test_everything_that_it_declares_is_compared(ours: Mapping[str, str]) -> None:
    assert len(NUMBERS) == OURS.count(" = ")
    assert len(FUNCTIONS) == OURS.count("CUresult CUDAAPI")
    assert len(STRUCTS) == len(re.findall(r"^typedef (?:struct|union) \w+ \{", OURS, re.MULTILINE))
    assert {"CUresult", "CUdevice", "CUDA_MEMCPY3D", "CUkernelNodeAttrValue"} <= {n for pair in TYPES for n in pair}
    assert ours["CUDA_MEMCPY3D.Depth"] == "192"


@pytest.mark.parametrize("include", THEIRS, ids=lambda path: path.parent.name)
def test_it_says_what_the_header_of_nvidia_says(tmp_path: Path, ours: Mapping[str, str], include: Path) -> None:
    theirs = told_by(tmp_path, f"-I{include}", "-include", "cuda.h")

    assert {name: told for name, told in ours.items() if name not in ENDS} == {
        name: told for name, told in theirs.items() if name not in ENDS
    }
    assert all(int(ours[name]) <= int(theirs[name]) for name in ENDS)
