"""The package's names: all there, resolved when used, and each op's function true to the op table."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from importlib import resources

import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.ops import OPS, Op
from vyre_cuda.ir.core.types import TYPES

FUNCTIONS = [op for op in OPS.values() if op.name != "cast"]


def in_new_process(code: str) -> object:
    """What the code prints as JSON, in an interpreter of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
def test_every_op_is_a_function_with_its_operands(op: Op) -> None:
    parameters = inspect.signature(getattr(vc, op.name)).parameters

    assert len(parameters) == op.arity + (op.result == "explicit")


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
def test_every_op_function_builds_that_op(op: Op) -> None:
    b = vc.Builder("ops")
    type_ = op.types[0]
    a = b.scalar("a", type_)
    c = b.scalar("c", vc.bool_)
    target = [type_] if op.result == "explicit" else []
    operands = [c, a, a] if op.leading_bool else [a] * op.arity
    b.let("result", getattr(vc, op.name)(*operands, *target))
    text = b.build().text()

    assert f"let result = {op.name}" in text


@pytest.mark.parametrize("type_", TYPES, ids=lambda type_: type_.name)
def test_every_type_has_a_name(type_: vc.Type) -> None:
    assert getattr(vc, type_.name) is type_


def test_every_error_is_below_the_base_error() -> None:
    errors = [getattr(vc, name) for name in vc.__all__ if name.endswith("Error") and name != "Error"]

    assert len(errors) >= 10
    assert all(issubclass(error, vc.Error) for error in errors)


def test_all_public_names_are_listed() -> None:
    assert set(vc.__all__) <= set(dir(vc))
    assert {"Builder", "Device", "DeviceArray", "Kernel", "Pending", "Program", "devices"} <= set(vc.__all__)
    assert {"evaluate", "parse", "ptx"} <= set(vc.__all__)
    assert {"global_id", "block_id", "thread_id", "block_dim", "grid_dim"} <= set(vc.__all__)


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        _ = vc.no_such_name


def test_import_loads_neither_numpy_nor_the_extension() -> None:
    code = """
import json, sys
import vyre_cuda
print(json.dumps([name for name in sys.modules if name.startswith(("numpy", "vyre_cuda."))]))
"""
    assert in_new_process(code) == []


@pytest.mark.thin
def test_building_a_program_loads_no_extension_and_no_hypothesis() -> None:
    code = """
import json, sys
import vyre_cuda as vc
b = vc.Builder("p")
b.output("out", vc.f32, size=1)[0] = 1.0
b.build().text()
wanted = ("vyre_cuda._native", "vyre_cuda.runtime", "vyre_cuda.testing", "hypothesis")
print(json.dumps([name for name in sys.modules if name.startswith(wanted)]))
"""
    assert in_new_process(code) == []


def test_importing_the_lowering_does_not_hide_the_function_ptx() -> None:
    code = """
import json
import vyre_cuda as vc
import vyre_cuda.codegen.core.target
from vyre_cuda import ptx
print(json.dumps([callable(vc.ptx), callable(ptx)]))
"""
    assert in_new_process(code) == [True, True]


def test_the_package_says_that_it_is_typed() -> None:
    assert resources.files(vc).joinpath("py.typed").is_file()
