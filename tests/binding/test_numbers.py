"""Numbers that Python writes into tables and files are those of the C headers."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from vyre_cuda.bundles import graphs, kernels, layout
from vyre_cuda.descriptors import signature
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.types import TYPES
from vyre_cuda.runtime.bundle import bundle as runtime_bundle

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
