"""Instruction selection: a way for every op, type, target and precision, and ptxas takes each instruction."""

from __future__ import annotations

import itertools

import pytest

from vyre_cuda.codegen.core.target import KNOWN_SM, Target
from vyre_cuda.codegen.emit.verify import verify
from vyre_cuda.codegen.forms.isel import MACHINE_TYPE, REGISTER_CLASS, ROWS, Row, select
from vyre_cuda.codegen.forms.precision import FAST_ULP, PRECISIONS, modes
from vyre_cuda.codegen.lowering.access_forms import MEMORY_WORD, RAW_TYPE
from vyre_cuda.codegen.lowering.atomics import RED_ORDERS, SCOPE, instruction
from vyre_cuda.codegen.lowering.legalize import apply_op, has_way
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.errors import InternalError, UnsupportedError
from vyre_cuda.ir.core.nodes import ORDERS, SCOPES
from vyre_cuda.ir.core.ops import ATOMICS, OPS, AtomicOp, Op
from vyre_cuda.ir.core.types import TYPES, Type, bool_
from vyre_cuda.testing.assembler import assemble

# What ptxas is asked for: (architecture, compute capability of the rows, PTX version or that of the target).
ASSEMBLED = [*((str(sm), sm, None) for sm in KNOWN_SM), ("90a", 90, (8, 0))]
CONSTANT = {
    "u32": "4294967295",
    "s32": "-2147483648",
    "u64": "18446744073709551615",
    "s64": "-9223372036854775808",
    "f32": "0fBF800000",
    "f64": "0dBFF0000000000000",
    "pred": "",
    "b16": "",
}
HEADER = """.version {}.{}
.target {}
.address_size 64
.visible .entry k(.param .u64 p) {{
  .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>;
  .shared .align 16 .b8 s[64];
  mov.b32 %r0, 1; mov.f32 %f0, 0f3F800000; setp.ne.u32 %p0, %r0, 0; ld.param.u64 %rd0, [p];
  cvt.u16.u32 %h0, %r0; mov.f64 %fd0, 0d3FF0000000000000;
"""
# Rows whose operands are not of one type, and those that take no immediate where `in_register` makes sure of that.
OPERANDS = {
    "multiply_wide_add": ("u32", "u32", "u64"),
    **{f"vote.{op}": ("pred", "u32") for op in ("any", "all", "ballot")},
    "match.64": ("u64", "u32"),
}
REGISTERS_ONLY = ("shuffle.", "vote.", "match.", "redux.", "short", "zero_extend", "half.", "float.", "fma.")


def _uses(op: Op) -> list[tuple[Type, Type]]:
    """(operand type, result type) for each use of an op of the table."""
    if op.result == "bool":
        return [(type_, bool_) for type_ in op.types]
    if op.result == "same":
        return [(type_, type_) for type_ in op.types]
    pairs = itertools.product(op.types, op.types)
    return [(source, to) for source, to in pairs if op.name == "cast" or to.bits == source.bits]


@pytest.mark.thin(28)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("sm", KNOWN_SM)
def test_every_op_is_lowered_for_every_type_it_takes(sm: int, precision: str) -> None:
    target = Target.parse(f"sm_{sm}")
    for op in OPS.values():
        for source, result in _uses(op):
            b = Builder(target, precision)
            types = [bool_, source, source] if op.leading_bool else [source] * op.arity
            operands = [_unknown(b, type_, number) for number, type_ in enumerate(types)]

            made = apply_op(b, op.name, result, source, operands)

            verify(b.function, target)
            assert b.function.types[made] == MACHINE_TYPE[result], (op.name, source)
            assert has_way(op.name, source)


def _unknown(b: Builder, type_: Type, number: int) -> int:
    within = (type_.minimum, type_.maximum) if type_.is_integer else None
    return b.entry("parameter", MACHINE_TYPE[type_], (), ("scalar", str(number)), within=within)


def test_an_op_the_table_does_not_have_is_refused() -> None:
    b = Builder(Target.parse("sm_90"))
    flag = b.constant("pred", 1)

    assert not has_way("add", bool_)
    with pytest.raises(InternalError):
        apply_op(b, "add", bool_, bool_, (flag, flag))


@pytest.mark.parametrize("sm", KNOWN_SM)
def test_at_most_one_row_matches(sm: int) -> None:
    for op, type_ in itertools.product({row.op for row in ROWS}, REGISTER_CLASS):
        assert sum(row.matches(op, type_, sm) for row in ROWS) <= 1, (op, type_)


def test_a_miss_names_the_types_that_exist() -> None:
    with pytest.raises(InternalError) as caught:
        select("rotate_left", "f32", Target.parse("sm_90"))
    assert "s32, u32" in str(caught.value)


def test_a_precision_changes_floats_alone_and_bounds_what_it_approximates() -> None:
    assert not modes("ieee", None)
    assert {type_ for _, type_ in modes("ftz", None)} == {"f32", "f64"}
    assert {op for (op, type_) in modes("ftz", None) if type_ == "f64"} == {"cast.f32"}
    approximate = {op for (op, type_), name in modes("fast", None).items() if name.endswith(".fast")}
    assert approximate - {"add", "subtract", "multiply"} == FAST_ULP.keys()


def test_every_atomic_is_one_instruction_or_a_float_extreme() -> None:
    missing = {
        (op.name, type_.name)
        for op in ATOMICS.values()
        for type_ in op.types
        if type_.bits >= 32 and instruction(op.name, MACHINE_TYPE[type_]) is None
    }
    extremes = set(itertools.product(("minimum", "maximum"), ("f32", "f64")))

    assert missing == extremes | {("subtract", t.name) for t in ATOMICS["subtract"].types if t.bits >= 32}


# ---- every row, assembled -------------------------------------------------------------------------------------------


def _instructions(row: Row, type_: str, target: Target) -> list[str]:
    """The instruction with registers, and with constants as last and as all operands."""
    template, places = select(row.op, type_, target)
    types = list(OPERANDS.get(row.op, (type_,) * max(places)))
    if row.op == "where":
        types[0] = "pred"
    elif "shift" in row.op or row.op.startswith("rotate"):
        types[1] = "u32"
    result = REGISTER_CLASS[row.result or type_][1] + "1"
    registers = [REGISTER_CLASS[each][1] + "0" for each in types]
    constants = [CONSTANT[each] or register for each, register in zip(types, registers, strict=True)]
    choices = [registers]
    if not row.op.startswith(REGISTERS_ONLY):
        choices += [[*registers[:-1], constants[-1]], constants]
    elif row.op.startswith("shuffle"):
        choices += [[registers[0], "31", constants[2]]]
    elif len(registers) > 1 and type_ == "u32":
        choices += [[*registers[:-1], constants[-1]]]
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
        for type_ in TYPES:
            word, register = MEMORY_WORD[type_], REGISTER_CLASS[RAW_TYPE[type_]][1] + "1"
            lines += [
                f"@%p0 ld.{space}.{word} {register}, {base}{address}];",
                f"st.{space}.{word} {base}{address}], {register};",
            ]
    return lines


def _atomic_words() -> set[tuple[AtomicOp, str, str]]:
    """(op, the words of its instruction behind order, scope and space, register class) of every atomic."""
    words = set()
    for op in ATOMICS.values():
        for type_ in op.types:
            if type_.bits >= 32:
                word = instruction(op.name, MACHINE_TYPE[type_]) or f"cas.b{type_.bits}"
                words.add((op, word, MACHINE_TYPE[type_]))
            elif op.name in ("load", "store"):
                words.add((op, f"{'ld' if op.name == 'load' else 'st'}.{MEMORY_WORD[type_]}", RAW_TYPE[type_]))
            else:
                words.add((op, "cas.b16", "b16"))
    return words


def _atomic_rows() -> list[str]:
    words = _atomic_words()
    lines = []
    for (_, word, type_), order, scope in itertools.product(sorted(words, key=str), ORDERS, SCOPES):
        name, _, rest = word.partition(".")
        register = REGISTER_CLASS[type_][1]
        count = {"ld": 0, "cas": 2}.get(name, 1)
        for space, base in (("global", "[%rd0]"), ("shared", "[s+8]")):
            where = f"{order}.{SCOPE[scope]}.{space}"
            if name in ("ld", "st"):
                if order in ("relaxed", "acquire" if name == "ld" else "release"):
                    names = [f"{register}1", base] if name == "ld" else [base, f"{register}0"]
                    lines.append(f"@%p0 {name}.{where}.{rest} {', '.join(names)};")
                continue
            operands = ", ".join([f"{register}0"] * count)
            lines.append(f"atom.{where}.{word} {register}1, {base}, {operands};")
            if order in RED_ORDERS and name not in ("cas", "exch"):
                lines.append(f"@%p0 red.{where}.{word} {base}, {operands};")
    return lines


@pytest.mark.thin
@pytest.mark.parametrize(("architecture", "sm", "version"), ASSEMBLED, ids=[row[0] for row in ASSEMBLED])
def test_every_row_assembles(architecture: str, sm: int, version: tuple[int, int] | None) -> None:
    target = Target.parse(f"sm_{sm}")
    lines = [*_scalar_rows(target), *_memory_rows(), *_atomic_rows(), "nanosleep.u32 64;"]
    header = HEADER.format(*(version or target.version), f"sm_{architecture}")

    assemble(header + "\n".join(lines) + "\nret;\n}\n", architecture)


def test_a_form_of_newer_targets_is_refused_below_them_and_has_a_software_form() -> None:
    oldest = Target.parse(f"sm_{KNOWN_SM[0]}")
    newer = [(row, type_) for row in ROWS for type_ in row.types if row.sms[0] > oldest.sm]

    assert {row.op for row, _ in newer} >= {"minimum", "maximum", "fma.bf16", "half.bf16", "redux.add.s32"}
    for row, type_ in newer:
        if any(other.matches(row.op, type_, oldest.sm) for other in ROWS):
            continue  # another instruction on older targets
        with pytest.raises(UnsupportedError) as caught:
            select(row.op, type_, oldest)
        assert caught.value.capability == f"sm_{row.sms[0]}"
        assert all(word in str(caught.value) for word in (row.op, type_, str(oldest)))
