"""Instruction selection: one row per instruction, chosen by op, operand type and target.

At most one row matches, so their order never matters. {d} is the result, {0} {1} {2} the operands, {t} the operand
type. The operand type is that of the last operand. An op that is no single instruction is rewritten
by `legalize` before it gets here. Floats round to nearest even with .rn on every op, which also keeps the assembler
from contracting a multiply and an add; there is no .ftz.
"""

from __future__ import annotations

from dataclasses import dataclass

from vyre_cuda.errors import InternalError
from vyre_cuda.ir.types import Type, bool_, f32, i32, u32
from vyre_cuda.ptx.target import Target

# IR type -> PTX type word of its values in registers.
MACHINE_TYPE: dict[Type, str] = {bool_: "pred", u32: "u32", i32: "s32", f32: "f32"}
# Register class: declared type and name prefix.
REGISTER_CLASS: dict[str, tuple[str, str]] = {
    "pred": (".pred", "%p"),
    "u32": (".b32", "%r"),
    "s32": (".b32", "%r"),
    "f32": (".f32", "%f"),
    "u64": (".b64", "%rd"),
}

INTS = ("u32", "s32")
F32 = ("f32",)
U32 = ("u32",)
U64 = ("u64",)
PRED = ("pred",)
WORDS = (*INTS, *F32)


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction form: `sms` are the first target that has it and the first that no longer uses it."""

    op: str
    types: tuple[str, ...]
    template: str
    sms: tuple[int, int] = (0, 1 << 30)

    def matches(self, op: str, type_: str, sm: int) -> bool:
        return op == self.op and type_ in self.types and self.sms[0] <= sm < self.sms[1]


def _row(op: str, types: tuple[str, ...], template: str, *, min_sm: int = 0) -> Row:
    return Row(op, types, template, (min_sm, 1 << 30))


ROWS: tuple[Row, ...] = (
    _row("add", INTS, "add.{t} {d}, {0}, {1};"),
    _row("add", F32, "add.rn.f32 {d}, {0}, {1};"),
    _row("add", U64, "add.s64 {d}, {0}, {1};"),
    _row("subtract", INTS, "sub.{t} {d}, {0}, {1};"),
    _row("subtract", F32, "sub.rn.f32 {d}, {0}, {1};"),
    _row("multiply", INTS, "mul.lo.{t} {d}, {0}, {1};"),
    _row("multiply", F32, "mul.rn.f32 {d}, {0}, {1};"),
    _row("multiply", U64, "mul.lo.u64 {d}, {0}, {1};"),
    _row("multiply_add", U32, "mad.lo.u32 {d}, {0}, {1}, {2};"),
    _row("multiply_high", U32, "mul.hi.{t} {d}, {0}, {1};"),
    _row("multiply_wide", U32, "mul.wide.u32 {d}, {0}, {1};"),
    _row("multiply_wide_add", U64, "mad.wide.u32 {d}, {0}, {1}, {2};"),
    _row("widen", U32, "cvt.u64.u32 {d}, {0};"),
    _row("negative", INTS, "neg.s32 {d}, {0};"),
    _row("negative", F32, "neg.f32 {d}, {0};"),
    _row("absolute", ("s32",), "abs.s32 {d}, {0};"),
    _row("absolute", F32, "abs.f32 {d}, {0};"),
    _row("fma", F32, "fma.rn.f32 {d}, {0}, {1}, {2};"),
    _row("quotient", U32, "div.u32 {d}, {0}, {1};"),  # any value for a divisor of 0
    _row("divide", F32, "div.rn.f32 {d}, {0}, {1};"),
    _row("reciprocal", F32, "rcp.rn.f32 {d}, {0};"),
    _row("sqrt", F32, "sqrt.rn.f32 {d}, {0};"),
    # Shift counts are u32 and clamp at the width: 0, or the sign (PTX ISA, shl and shr).
    _row("left_shift", INTS, "shl.b32 {d}, {0}, {1};"),
    _row("right_shift", INTS, "shr.{t} {d}, {0}, {1};"),
    _row("bitwise_and", INTS, "and.b32 {d}, {0}, {1};"),
    _row("bitwise_or", INTS, "or.b32 {d}, {0}, {1};"),
    _row("bitwise_xor", INTS, "xor.b32 {d}, {0}, {1};"),
    _row("invert", INTS, "not.b32 {d}, {0};"),
    _row("logical_and", PRED, "and.pred {d}, {0}, {1};"),
    _row("logical_or", PRED, "or.pred {d}, {0}, {1};"),
    _row("logical_xor", PRED, "xor.pred {d}, {0}, {1};"),
    _row("logical_not", PRED, "not.pred {d}, {0};"),
    _row("equal", WORDS, "setp.eq.{t} {d}, {0}, {1};"),
    _row("not_equal", INTS, "setp.ne.{t} {d}, {0}, {1};"),
    _row("not_equal", F32, "setp.neu.f32 {d}, {0}, {1};"),  # true when unordered, as IEEE asks
    _row("less", WORDS, "setp.lt.{t} {d}, {0}, {1};"),
    _row("less_equal", WORDS, "setp.le.{t} {d}, {0}, {1};"),
    _row("unordered", F32, "setp.nan.f32 {d}, {0}, {1};"),
    _row("minimum", INTS, "min.{t} {d}, {0}, {1};"),
    _row("minimum", F32, "min.NaN.f32 {d}, {0}, {1};", min_sm=80),
    _row("maximum", INTS, "max.{t} {d}, {0}, {1};"),
    _row("maximum", F32, "max.NaN.f32 {d}, {0}, {1};", min_sm=80),
    _row("fmin", F32, "min.f32 {d}, {0}, {1};"),
    _row("fmax", F32, "max.f32 {d}, {0}, {1};"),
    _row("floor", F32, "cvt.rmi.f32.f32 {d}, {0};"),
    _row("ceil", F32, "cvt.rpi.f32.f32 {d}, {0};"),
    _row("trunc", F32, "cvt.rzi.f32.f32 {d}, {0};"),
    _row("rint", F32, "cvt.rni.f32.f32 {d}, {0};"),
    _row("where", WORDS, "selp.{t} {d}, {1}, {2}, {0};"),
    _row("cast.f32", INTS, "cvt.rn.f32.{t} {d}, {0};"),
    # Float to integer saturates and takes NaN to 0 (PTX ISA, cvt).
    _row("cast.u32", F32, "cvt.rzi.u32.f32 {d}, {0};"),
    _row("cast.s32", F32, "cvt.rzi.s32.f32 {d}, {0};"),
    _row("bits.f32", INTS, "mov.b32 {d}, {0};"),
    _row("bits.u32", F32, "mov.b32 {d}, {0};"),
    _row("bits.s32", F32, "mov.b32 {d}, {0};"),
)

# (op, operand type) -> the rows of it, on whatever target.
_BY_OP: dict[tuple[str, str], tuple[Row, ...]] = {}
for _each in ROWS:
    for _type in _each.types:
        _BY_OP[_each.op, _type] = (*_BY_OP.get((_each.op, _type), ()), _each)

Template = tuple[str, tuple[int, ...]]


def has_row(op: str, type_: str, sm: int) -> bool:
    """Whether a single instruction does this on that target."""
    return any(row.matches(op, type_, sm) for row in _BY_OP.get((op, type_), ()))


def select(op: str, type_: str, target: Target) -> Template:
    """The instruction as a %-format and the places that fill it: 0 the result, 1 and up the operands."""
    for row in _BY_OP.get((op, type_), ()):
        if row.matches(op, type_, target.sm):
            return _compile(row.template, type_)
    types = sorted({t for row in ROWS if row.op == op for t in row.types})
    exists = f"it has one for {', '.join(types)}" if types else "no type has one"
    raise InternalError(f"{op} has no PTX form for {type_} on {target}; {exists}")


def _compile(template: str, type_: str) -> Template:
    text = template.replace("{t}", type_)
    places: list[int] = []
    pieces = text.split("{")
    for piece in pieces[1:]:
        name = piece[0]
        places.append(0 if name == "d" else int(name) + 1)
    return pieces[0] + "".join("%s" + piece[2:] for piece in pieces[1:]), tuple(places)
