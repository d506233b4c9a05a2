"""Numbers that Python, Cython and C have alike, each in its own files."""

from __future__ import annotations

import ctypes
import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import vyre_cuda as vc
from vyre_cuda.bundles import graphs, kernels, layout, write
from vyre_cuda.bundles import shapes as bundle_shapes
from vyre_cuda.codegen import tables, worker
from vyre_cuda.codegen.core import target
from vyre_cuda.codegen.emit import resident, rows
from vyre_cuda.codegen.lowering import report
from vyre_cuda.descriptors import signature
from vyre_cuda.distributed import elements, one_shot_program
from vyre_cuda.ir.core import limits, nodes
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.types import TYPES
from vyre_cuda.runtime.base import device_selection
from vyre_cuda.runtime.bundle import bundle as runtime_bundle
from vyre_cuda.runtime.bundle import loaded_bundle
from vyre_cuda.runtime.device.driver_latency import FLOORS
from vyre_cuda.runtime.kernel import races, tables_entry, unwritten
from vyre_cuda.runtime.memory import shapes
from vyre_cuda.runtime.worker import worker as runtime_worker
from vyre_cuda.testing.compilers import c_compiler

ROOT = Path(__file__).parents[2]
HEADERS = ("include/vyre_cuda.h", "bundle/format.h", "bundle/expression.h")

pytestmark = pytest.mark.slow  # compiles headers


@pytest.fixture(scope="module")
def numbers() -> dict[str, int]:
    """Every enumerator of the headers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        patch.setenv("CPATH", f"{ROOT / 'csrc'}:{ROOT / 'csrc' / 'include'}")
        of_header = importlib.import_module("abi_table").of_header
        found = {}
        for header in HEADERS:
            found.update(of_header(ROOT / "csrc" / header).constants)
    sys.modules.pop("abi_table", None)
    return found


COMPILE = [*c_compiler(), "-std=c11", "-I", str(ROOT / "csrc"), "-I", str(ROOT / "csrc" / "include")]


@pytest.fixture(scope="module")
def macro() -> Callable[[str, str], int | str]:
    """The value of a macro that a file of csrc sees."""

    def value(file: str, name: str) -> int | str:
        source = f'#include "{ROOT / "csrc" / file}"\n@@ {name}\n'
        done = subprocess.run([*COMPILE, "-E", "-P", "-x", "c", "-"], input=source, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        words = done.stdout.rsplit("@@", 1)[1].strip()
        number = re.sub(r"\b(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]+\b", r"\1", words)
        assert re.fullmatch(r'"\w+"|[0-9a-fA-FxX()+*<\s-]+', number), f"{name} is {words}"
        return eval(number)

    return value


def cython(file: str, name: str) -> int:
    """An enumerator of an extension, which only its own code sees."""
    found = re.search(
        rf"^    {name} = (\d+)", (ROOT / "src" / "vyre_cuda" / "_native" / file).read_text(), re.MULTILINE
    )
    assert found is not None
    return int(found[1])


def named(numbers: dict[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix).lower(): value for name, value in numbers.items() if name.startswith(prefix)}


def test_roles(numbers: dict[str, int]) -> None:
    assert named(numbers, "VYC_ROLE_") == {**signature.ROLES, "scalar": signature.ROLE_SCALAR}


def test_scalar_types(numbers: dict[str, int]) -> None:
    assert named(numbers, "VYC_TYPE_") == {type_.name.rstrip("_"): type_.code for type_ in TYPES}


def test_kinds_of_kernel_parameters(numbers: dict[str, int]) -> None:
    kinds = named(numbers, "VYC_PARAMETER_")
    kinds["buffer"] = kinds.pop("pointer")

    assert kinds == signature.PARAMETER_KINDS


def test_flags_of_bindings(numbers: dict[str, int]) -> None:
    assert named(numbers, "VYC_BINDING_") == {
        "streaming": signature.STREAMING,
        "covered": signature.COVERED,
        "loops": signature.LOOPS,
        "axes": signature.AXES,
        "elements_shift": signature.ABOVE,
        "unspecified": signature.UNSPECIFIED,
    }


def test_operations_of_sizes_and_grids(numbers: dict[str, int]) -> None:
    assert {name: OPS[name].code for name in signature.HOST_OPS} == named(numbers, "VYC_HOST_")


def test_leaves_of_sizes_and_grids(numbers: dict[str, int]) -> None:
    leaves = ("constant", "size", "scalar")

    assert {leaf: getattr(signature, f"LEAF_{leaf.upper()}") for leaf in leaves} == named(numbers, "VYC_LEAF_")


def test_a_bundle_that_has_the_whole_program(numbers: dict[str, int]) -> None:
    assert numbers["VYC_KERNEL_WHOLE_PROGRAM"] == kernels._WHOLE_PROGRAM
    assert numbers["VYC_KERNEL_WHOLE_PROGRAM"] == runtime_bundle._WHOLE_PROGRAM


def test_flags_of_kernels(numbers: dict[str, int]) -> None:
    assert numbers["VYC_PREPARED_COOPERATIVE"] == kernels._COOPERATIVE
    assert numbers["VYC_PREPARED_PRINTS"] == kernels._PRINTS


def test_kinds_of_kernels_in_bundles(numbers: dict[str, int]) -> None:
    flags = tuple(numbers[f"VYC_KERNEL_{kind}"] for kind in ("WORKER", "ROWS", "CLEARS"))

    assert flags == (kernels.WORKER, kernels.ROWS, kernels.CLEARS)
    assert flags == (runtime_bundle._WORKER, runtime_bundle._ROWS, runtime_bundle._CLEARS)


def test_kinds_that_are_read_from_bundles() -> None:
    assert {word: kind for kind, word in loaded_bundle._KINDS.items()} == signature.PARAMETER_KINDS
    assert {word: kind for kind, word in loaded_bundle._SITE_KINDS.items()} == kernels._SITE_KINDS


def test_sections_of_bundles(numbers: dict[str, int]) -> None:
    sections = {name: kind for name, (kind, _) in layout.ROWS.items()}

    assert {**sections, "strings": layout.STRINGS, "data": layout.DATA} == named(numbers, "VYC_SECTION_")


def test_sites_in_bundles(numbers: dict[str, int]) -> None:
    assert named(numbers, "VYC_SITE_") == kernels._SITE_KINDS


def test_recorded_graphs_in_bundles(numbers: dict[str, int]) -> None:
    steps = {name: getattr(graphs, name.upper()) for name in named(numbers, "VYC_STEP_")}

    assert steps == named(numbers, "VYC_STEP_")
    assert named(numbers, "VYC_VALUE_") == {"span": graphs._SPAN, "symbol": graphs._SYMBOL, "bits": graphs._BITS}
    symbols = {
        "array": graphs.SYMBOL_ARRAY,
        "scalar": graphs.SYMBOL_SCALAR,
        "has_default": graphs.HAS_DEFAULT,
        "written": graphs.WRITTEN,
    }
    assert symbols == named(numbers, "VYC_SYMBOL_")


def test_limits_of_bundles(macro: Callable[[str, str], int | str]) -> None:
    assert macro("include/vyre_cuda.h", "VYC_BUNDLE_FORMAT") == layout.FORMAT
    assert macro("bundle/check.c", "MOST_TEXT") == layout.MOST_TEXT
    assert macro("bundle/room.h", "VYC_MOST_PARAMETERS") == limits.MAX_PARAMETERS
    assert macro("bundle/room.h", "VYC_MOST_STEPS") == bundle_shapes._MOST_STEPS
    assert macro("bundle/room.h", "VYC_MOST_DEPTH") == bundle_shapes._MOST_DEPTH
    assert macro("kernel/prepared.h", "VYC_MAX_BINDINGS") == limits.MAX_PARAMETERS
    assert macro("kernel/prepared.h", "VYC_MAX_PARAMETER_BYTES") == target.LARGE_PARAMETER_BYTES


def test_many_launches_as_one(macro: Callable[[str, str], int | str]) -> None:
    assert macro("launch/row_table.c", "VYC_ROW_HEADER") == rows.HEADER_BYTES
    assert macro("launch/room.h", "VYC_ROW_SCALARS") == len(rows.WORDS)
    assert macro("launch/room.h", "VYC_MOST_TABLES") == tables.MOST_KERNELS
    assert macro("launch/room.h", "VYC_MOST_PLACES") == tables_entry.MOST_ARRAYS


def test_calls_of_workers(macro: Callable[[str, str], int | str]) -> None:
    def of_worker(name: str) -> int:
        return int(macro("worker/worker.h", f"WORKER_{name}"))

    assert of_worker("SLOTS") == 2 * of_worker("WITHHELD") == 2 * resident.WITHHELD
    assert of_worker("SLOT_WORDS") == resident.SLOT_WORDS
    assert of_worker("HEADER_WORDS") * 4 == resident.HEADER_BYTES
    assert of_worker("SLOT_BYTES") == resident.SLOT_PARAMETER_BYTES
    assert of_worker("MORE_BYTES") == resident.MORE_BYTES
    assert of_worker("ANSWER_WORDS") * 4 == resident.ANSWER_BYTES
    assert of_worker("LAUNCHING") == resident.LAUNCHING
    ends = (of_worker("STOP"), of_worker("END_BUSY"), of_worker("END_IDLE"))
    assert ends == (resident.STOP, resident._END, resident._END_IDLE)


def test_kernels_and_blocks_of_workers(macro: Callable[[str, str], int | str]) -> None:
    assert macro("worker/worker.h", "WORKER_MOST_BLOCKS") == runtime_worker.MOST_BLOCKS
    assert macro("worker/room.h", "VYC_WORKER_MOST_KERNELS") == worker.MOST_KERNELS
    assert cython("call/worker.pyx", "MOST_KERNELS") == worker.MOST_KERNELS
    assert macro("bundle_device/worker.c", "ENTRY") == resident.ENTRY


def test_collectives(numbers: dict[str, int]) -> None:
    assert named(numbers, "VYC_ELEMENT_") == elements._TYPES
    assert named(numbers, "VYC_COMBINE_") == elements.OPS


def test_small_all_reduces(numbers: dict[str, int], macro: Callable[[str, str], int | str]) -> None:
    assert numbers["VYC_ONE_SHOT_BLOCK_BYTES"] == one_shot_program.BYTES_OF_BLOCK
    assert macro("collective/one_shot.h", "VYC_WORD_CUT") == one_shot_program._CUT


def test_failed_checks(macro: Callable[[str, str], int | str]) -> None:
    assert macro("base/status.h", "VYC_SITE_BITS") == report.SITE_BITS


def test_unspecified_contents(macro: Callable[[str, str], int | str]) -> None:
    emulator = (ROOT / "csrc" / "emulator" / "ptx" / "unwritten" / "temporary.cpp").read_text()

    emulated = (ROOT / "csrc" / "emulator" / "ptx" / "unwritten" / "temporary.cpp").read_text()

    assert macro("memory/room.h", "VYC_UNSPECIFIED_BYTE") == nodes.UNSPECIFIED_BYTE
    assert f"unspecified_byte = 0x{nodes.UNSPECIFIED_BYTE:X};" in emulated
    assert f"unspecified_byte = 0x{nodes.UNSPECIFIED_BYTE:X};" in emulator


def test_largest_grid() -> None:
    source = (ROOT / "csrc" / "bundle" / "expression.h").read_text()
    found = re.search(r"vyc__most_blocks\[3\] = \{(\w+), (\w+), (\w+)\}", source)

    assert found is not None
    assert tuple(2**31 - 1 if word == "INT32_MAX" else int(word) for word in found.groups()) == limits.MAX_GRID


def test_times_of_driver_calls(numbers: dict[str, int]) -> None:
    assert {name: number for name, (number, _) in FLOORS.items()} == named(numbers, "VYC_FLOOR_")


def test_axes_of_arrays() -> None:
    assert cython("memory/memory.pyx", "MAX_AXES") == shapes.MAX_AXES


def test_devices_of_the_emulator() -> None:
    source = (ROOT / "csrc" / "emulator" / "driver" / "call.h").read_text()

    assert f"kMaxDevices = {device_selection._MOST_EMULATED};" in source


@pytest.mark.parametrize(
    ("name", "info"),
    [("vyre_emulator_race_info", races._Info), ("vyre_emulator_unwritten_info", unwritten._Info)],
)
def test_structs_of_the_emulator(tmp_path: Path, name: str, info: type[ctypes.Structure]) -> None:
    facts = [f"sizeof(struct {name}) == {ctypes.sizeof(info)}"]
    for field, type_ in info._fields_:
        facts.append(f"offsetof(struct {name}, {field}) == {getattr(info, field).offset}")
        facts.append(f"sizeof(((struct {name} *)0)->{field}) == {ctypes.sizeof(type_)}")
    source = tmp_path / "facts.c"
    asserts = "".join(f'_Static_assert({fact}, "as in Python");\n' for fact in facts)
    source.write_text(f'#include <stddef.h>\n#include "emulator/control.h"\n{asserts}')

    done = subprocess.run([*COMPILE, "-fsyntax-only", str(source)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_elements_that_the_emulator_reports(macro: Callable[[str, str], int | str]) -> None:
    assert macro("emulator/control.h", "VYRE_EMULATOR_PARAMETER") == unwritten._PARAMETER


def test_version(macro: Callable[[str, str], int | str]) -> None:
    major, minor, patch = re.findall(r"\d+", vc.__version__)

    assert write.PRODUCER == macro("base/status.c", "VYC_VERSION") == int(major) * 10000 + int(minor) * 100 + int(patch)
    assert f"project(vyre_cuda VERSION {vc.__version__} " in (ROOT / "CMakeLists.txt").read_text()
