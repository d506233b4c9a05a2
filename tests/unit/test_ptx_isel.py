"""Instruction selection: one way for every op, type and target, and ptxas takes each instruction."""

from __future__ import annotations

import itertools

import pytest

from vyre_cuda.errors import InternalError
from vyre_cuda.ir.nodes import ATOMICS, ORDERS, SCOPES
from vyre_cuda.ir.ops import OPS, Op
from vyre_cuda.ir.types import FLOATS, INTEGERS, Type
from vyre_cuda.ptx import Target
from vyre_cuda.ptx.isel import MACHINE_TYPE, REGISTER_CLASS, ROWS, Row, has_row, select
from vyre_cuda.ptx.isel_sync import ATOMIC_ROWS, RED_ORDERS, SCOPE
from vyre_cuda.ptx.legalize import find_rewrite
from vyre_cuda.ptx.target import KNOWN_SM
from vyre_cuda.testing.assembler import assemble

ASSEMBLED = (75, 80, 86, 89, 90, 100, 120)
CONSTANT = {"u32": "4294967295", "s32": "-2147483648", "f32": "0fBF800000", "u64": "1048576", "pred": ""}
HEADER = """.version {}.{}
.target {}
.address_size 64
.visible .entry k(.param .u64 p) {{
  .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
  .shared .align 16 .b8 s[64];
  mov.b32 %r0, 1; mov.f32 %f0, 0f3F800000; setp.ne.u32 %p0, %r0, 0; ld.param.u64 %rd0, [p];
"""
# The result type of rows whose result is not of the operand type.
RESULTS = {"widen": "u64", "multiply_wide": "u64", "unordered": "pred"}


def _operand_types(op: Op) -> list[tuple[str, str]]:
    """(op with its target for casts, PTX operand type) for each use of an op of the table."""
    if op.result != "explicit":
        return [(op.name, MACHINE_TYPE[type_]) for type_ in op.types]
    pairs = itertools.product(op.types, op.types)
    return [
        (f"{op.name}.{MACHINE_TYPE[to]}", MACHINE_TYPE[source])
        for source, to in pairs
        if op.name == "cast" or to.bits == source.bits
    ]


@pytest.mark.parametrize("sm", KNOWN_SM)
@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_every_op_has_exactly_one_way(op: Op, sm: int) -> None:
    for name, type_ in _operand_types(op):
        ways = has_row(name, type_, sm) + (find_rewrite(name, type_, sm) is not None)
        assert ways == 1, (name, type_)


@pytest.mark.parametrize("sm", KNOWN_SM)
def test_at_most_one_row_matches(sm: int) -> None:
    for op, type_ in itertools.product({row.op for row in ROWS}, REGISTER_CLASS):
        assert sum(row.matches(op, type_, sm) for row in ROWS) <= 1, (op, type_)


def test_a_miss_names_the_types_that_exist() -> None:
    with pytest.raises(InternalError) as caught:
        select("left_shift", "f32", Target.parse("sm_90"))
    assert "s32, u32" in str(caught.value)


@pytest.mark.parametrize("op", ATOMICS)
def test_every_atomic_has_a_row_for_its_types(op: str) -> None:
    types: tuple[Type, ...] = INTEGERS if op == "compare_exchange" else INTEGERS + FLOATS

    assert {(op, MACHINE_TYPE[type_]) for type_ in types} <= ATOMIC_ROWS.keys()


def _result_type(row: Row, type_: str) -> str:
    if row.op in OPS and OPS[row.op].result == "bool":
        return "pred"
    _, dot, target = row.op.partition(".")
    return target if dot else RESULTS.get(row.op, type_)


def _instructions(row: Row, type_: str, target: Target) -> list[str]:
    """The instruction with registers, and with constants as last and as all operands."""
    template, places = select(row.op, type_, target)
    count = max(places)
    types = [type_] * count
    if row.op == "where":
        types[0] = "pred"
    elif row.op == "multiply_wide_add":
        types[:2] = ["u32", "u32"]
    result = REGISTER_CLASS[_result_type(row, type_)][1] + "1"
    registers = [REGISTER_CLASS[each][1] + "0" for each in types]
    constants = [CONSTANT[each] or register for each, register in zip(types, registers, strict=True)]
    choices = (registers, [*registers[:-1], constants[-1]], constants)
    return [template % tuple([(result, *operands)[place] for place in places]) for operands in choices]


def _scalar_rows(target: Target) -> list[str]:
    lines: list[str] = []
    for row in ROWS:
        for type_ in row.types:
            if row.matches(row.op, type_, target.sm):
                lines += _instructions(row, type_, target)
    return lines


def _memory_rows() -> list[str]:
    lines = []
    for space, address in itertools.product(("global", "shared"), ("", "+16", "+-16")):
        base = "[%rd0" if space == "global" else "[%r0"
        for word, register in (("u8", "%r1"), ("u32", "%r1"), ("s32", "%r1"), ("f32", "%f1")):
            lines += [
                f"@%p0 ld.{space}.{word} {register}, {base}{address}];",
                f"st.{space}.{word} {base}{address}], {register};",
            ]
    for (op, type_), order, scope in itertools.product(ATOMIC_ROWS, ORDERS, SCOPES):
        word = ATOMIC_ROWS[op, type_]
        register = REGISTER_CLASS[type_][1]
        operands = ", ".join([f"{register}0"] * ATOMICS[op])
        for space, base in (("global", "[%rd0]"), ("shared", "[s+4]")):
            lines.append(f"atom.{order}.{SCOPE[scope]}.{space}.{word} {register}1, {base}, {operands};")
            if order in RED_ORDERS and op != "compare_exchange":
                lines.append(f"@%p0 red.{order}.{SCOPE[scope]}.{space}.{word} {base}, {operands};")
    return lines


@pytest.mark.parametrize("sm", ASSEMBLED)
def test_every_row_assembles(sm: int) -> None:
    target = Target.parse(f"sm_{sm}")
    lines = [*_scalar_rows(target), *_memory_rows()]

    assemble(HEADER.format(*target.version, target) + "\n".join(lines) + "\nret;\n}\n", sm)
