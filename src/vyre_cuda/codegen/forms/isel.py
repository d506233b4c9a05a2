"""Instruction selection: one row per instruction, chosen by op, operand type and target.

At most one row matches, so their order never matters. {d} is the result, {0} {1} {2} the operands, {t} the operand
type, {b} its bits; < and > are written as braces. The operand type is that of the last operand, but of the first one
for shifts, whose count is a 32-bit number. An op that is not a single instruction is rewritten by `legalize` before it
gets here. Floats round to nearest even with .rn on every op, which also keeps the assembler from contracting a
multiply and an add; only the rows of `precision` flush subnormals or approximate.
"""

from __future__ import annotations

from vyre_cuda.codegen.core.target import Target
from vyre_cuda.errors import InternalError, UnsupportedError
from vyre_cuda.ir.core.types import TYPES, Type
from vyre_cuda.records import FrozenRecord

# IR type -> PTX type word of its values in registers. Narrow integers are 32-bit numbers in the range of their
# type; f16 and bf16 are f32 numbers that the narrow type has too.
MACHINE_TYPE: dict[Type, str] = {
    type_: {
        "bool": "pred",
        "unsigned": "u64" if type_.bits == 64 else "u32",
        "signed": "s64" if type_.bits == 64 else "s32",
        "float": "f64" if type_.bits == 64 else "f32",
    }[type_.kind]
    for type_ in TYPES
}
# Register class: declared type and name prefix. b16 holds the bits of an f16 or bf16 on their way.
REGISTER_CLASS: dict[str, tuple[str, str]] = {
    "pred": (".pred", "%p"),
    "b16": (".b16", "%h"),
    "u32": (".b32", "%r"),
    "s32": (".b32", "%r"),
    "f32": (".f32", "%f"),
    "u64": (".b64", "%rd"),
    "s64": (".b64", "%rd"),
    "f64": (".f64", "%fd"),
}
BITS: dict[str, int] = {"b16": 16, "u32": 32, "s32": 32, "f32": 32, "u64": 64, "s64": 64, "f64": 64}
UNSIGNED = {"u32": "u32", "s32": "u32", "u64": "u64", "s64": "u64"}
SIGNED = {"u32": "s32", "s32": "s32", "u64": "s64", "s64": "s64"}

INT32 = ("u32", "s32")
INT64 = ("u64", "s64")
INTS = (*INT32, *INT64)
FLOATS = ("f32", "f64")
F32 = ("f32",)
F64 = ("f64",)
B16 = ("b16",)
U32 = ("u32",)
U64 = ("u64",)
PRED = ("pred",)
WORDS = (*INTS, *FLOATS)

TYPED_BY_FIRST = frozenset({"left_shift", "right_shift", "rotate_left", "rotate_right"})


class Row(FrozenRecord):
    """One instruction form: `sms` are the first target that has it and the first that no longer uses it.

    `result` is the type of the result, "" when it is the operands' type.
    """

    op: str
    types: tuple[str, ...]
    template: str
    result: str = ""
    sms: tuple[int, int] = (0, 1 << 30)

    def matches(self, op: str, type_: str, sm: int) -> bool:
        return op == self.op and type_ in self.types and self.sms[0] <= sm < self.sms[1]


def row(op: str, types: tuple[str, ...], template: str, result: str = "", *, min_sm: int = 0) -> Row:
    """A row for targets from `min_sm` on."""
    return Row(op, types, template, result, (min_sm, 1 << 30))


def _binary(op: str, types: tuple[str, ...], instruction: str, *, min_sm: int = 0) -> Row:
    return row(op, types, instruction + " {d}, {0}, {1};", min_sm=min_sm)


def _unary(op: str, types: tuple[str, ...], instruction: str, result: str = "", *, min_sm: int = 0) -> Row:
    return row(op, types, instruction + " {d}, {0};", result, min_sm=min_sm)


def _compare(op: str, types: tuple[str, ...], instruction: str) -> Row:
    return row(op, types, instruction + " {d}, {0}, {1};", "pred")


_INTEGER = (
    _binary("add", INTS, "add.{t}"),
    _binary("subtract", INTS, "sub.{t}"),
    _binary("multiply", INTS, "mul.lo.{t}"),
    row("multiply_add", INTS, "mad.lo.{t} {d}, {0}, {1}, {2};"),
    _binary("multiply_high", INTS, "mul.hi.{t}"),
    row("multiply_wide", U32, "mul.wide.u32 {d}, {0}, {1};", "u64"),
    row("multiply_wide_add", U64, "mad.wide.u32 {d}, {0}, {1}, {2};"),
    _unary("negative", INTS, "neg.s{b}"),
    _binary("quotient", ("u32", "u64"), "div.{t}"),  # any value for a divisor of 0
    # Shift counts are u32 and clamp at the width: 0, or the sign (PTX ISA, shl and shr).
    _binary("left_shift", INTS, "shl.b{b}"),
    _binary("right_shift", INTS, "shr.{t}"),
    row("rotate_left", INT32, "shf.l.wrap.b32 {d}, {0}, {0}, {1};"),
    row("rotate_right", INT32, "shf.r.wrap.b32 {d}, {0}, {0}, {1};"),
    _binary("bitwise_and", INTS, "and.b{b}"),
    _binary("bitwise_or", INTS, "or.b{b}"),
    _binary("bitwise_xor", INTS, "xor.b{b}"),
    _unary("invert", INTS, "not.b{b}"),
    _unary("ones", INTS, "popc.b{b}", "u32"),
    _unary("leading_zeros", INTS, "clz.b{b}", "u32"),
    _unary("reverse_bits", INTS, "brev.b{b}"),
    _binary("minimum", INTS, "min.{t}"),
    _binary("maximum", INTS, "max.{t}"),
    _unary("widen", U32, "cvt.u64.u32", "u64"),
    _unary("widen", ("s32",), "cvt.s64.s32", "s64"),
    _unary("low", INT64, "cvt.u32.u64", "u32"),
    _unary("sign8", INT32, "cvt.s32.s8", "s32"),
    _unary("sign16", INT32, "cvt.s32.s16", "s32"),
)

_FLOAT = (
    _binary("add", FLOATS, "add.rn.{t}"),
    _binary("subtract", FLOATS, "sub.rn.{t}"),
    _binary("multiply", FLOATS, "mul.rn.{t}"),
    _binary("add.rz", F64, "add.rz.f64"),
    _binary("add.rm", F64, "add.rm.f64"),
    _binary("add.rp", F64, "add.rp.f64"),
    _unary("negative", FLOATS, "neg.{t}"),
    _unary("absolute", FLOATS, "abs.{t}"),
    row("fma", FLOATS, "fma.rn.{t} {d}, {0}, {1}, {2};"),
    row("fma.f16", B16, "fma.rn.f16 {d}, {0}, {1}, {2};"),
    row("fma.bf16", B16, "fma.rn.bf16 {d}, {0}, {1}, {2};", min_sm=80),
    _binary("divide", FLOATS, "div.rn.{t}"),
    _unary("reciprocal", FLOATS, "rcp.rn.{t}"),
    _unary("sqrt", FLOATS, "sqrt.rn.{t}"),
    _binary("minimum", F32, "min.NaN.f32", min_sm=80),
    _binary("maximum", F32, "max.NaN.f32", min_sm=80),
    _binary("fmin", FLOATS, "min.{t}"),
    _binary("fmax", FLOATS, "max.{t}"),
    _unary("floor", FLOATS, "cvt.rmi.{t}.{t}"),
    _unary("ceil", FLOATS, "cvt.rpi.{t}.{t}"),
    _unary("trunc", FLOATS, "cvt.rzi.{t}.{t}"),
    _unary("rint", FLOATS, "cvt.rni.{t}.{t}"),
    row("copysign", FLOATS, "copysign.{t} {d}, {1}, {0};"),  # PTX ISA: the sign comes from the first operand
    # Conversions name the result; those to integers saturate (PTX ISA, cvt).
    _unary("cast.f32", INTS, "cvt.rn.f32.{t}", "f32"),
    _unary("cast.f64", INTS, "cvt.rn.f64.{t}", "f64"),
    _unary("cast.f64", F32, "cvt.f64.f32", "f64"),
    _unary("cast.f32", F64, "cvt.rn.f32.f64", "f32"),
    _unary("chop.f32", (*INTS, "f64"), "cvt.rz.f32.{t}", "f32"),
    *(_unary(f"cast.{type_}", FLOATS, f"cvt.rzi.{type_}.{{t}}", type_) for type_ in INTS),
    _unary("bits.f32", INT32, "mov.b32", "f32"),
    _unary("bits.u32", F32, "mov.b32", "u32"),
    _unary("bits.s32", F32, "mov.b32", "s32"),
    _unary("bits.f64", INT64, "mov.b64", "f64"),
    _unary("bits.u64", F64, "mov.b64", "u64"),
    _unary("bits.s64", F64, "mov.b64", "s64"),
    _unary("half.f16", F32, "cvt.rn.f16.f32", "b16"),
    _unary("half.bf16", F32, "cvt.rn.bf16.f32", "b16", min_sm=80),
    _unary("float.f16", B16, "cvt.f32.f16", "f32"),
    _unary("zero_extend", B16, "cvt.u32.u16", "u32"),
    _unary("short", U32, "cvt.u16.u32", "b16"),
    row("pair", B16, "mov.b32 {d}, <{0}, {1}>;", "u32"),  # the first is the lower half; of f32, too
)

_OTHER = (
    _binary("logical_and", PRED, "and.pred"),
    _binary("logical_or", PRED, "or.pred"),
    _binary("logical_xor", PRED, "xor.pred"),
    _unary("logical_not", PRED, "not.pred"),
    _compare("equal", WORDS, "setp.eq.{t}"),
    _compare("not_equal", INTS, "setp.ne.{t}"),
    _compare("not_equal", FLOATS, "setp.neu.{t}"),  # true when unordered, as IEEE requires
    _compare("less", WORDS, "setp.lt.{t}"),
    _compare("less_equal", WORDS, "setp.le.{t}"),
    _compare("unordered", FLOATS, "setp.nan.{t}"),
    row("where", WORDS, "selp.{t} {d}, {1}, {2}, {0};"),
    _unary("copy", (*WORDS, "pred", "b16"), "mov.{t}"),
)

# Of the warp: (value, lane, mask of the lanes that take part), typed by the mask.
_WARP = (
    *(
        row(f"shuffle.{mode}", U32, f"shfl.sync.{mode}.b32 {{d}}, {{0}}, {{1}}, {clamp}, {{2}};")
        for mode, clamp in (("idx", 31), ("up", 0), ("down", 31), ("bfly", 31))
    ),
    row("vote.any", U32, "vote.sync.any.pred {d}, {0}, {1};", "pred"),
    row("vote.all", U32, "vote.sync.all.pred {d}, {0}, {1};", "pred"),
    row("vote.ballot", U32, "vote.sync.ballot.b32 {d}, {0}, {1};"),
    row("match.32", U32, "match.any.sync.b32 {d}, {0}, {1};"),
    row("match.64", U32, "match.any.sync.b64 {d}, {0}, {1};"),
    *(
        row(f"redux.{op}.{type_}", U32, f"redux.sync.{op}.{type_} {{d}}, {{0}}, {{1}};", min_sm=80)
        for op, types in (("add", INT32), ("min", INT32), ("max", INT32), ("and", ("b32",)), ("or", ("b32",)))
        for type_ in types
    ),
    row("redux.xor.b32", U32, "redux.sync.xor.b32 {d}, {0}, {1};", min_sm=80),
)

# f32 that flushes subnormal operands and results to zero of their sign (PTX ISA, .ftz).
_FTZ = (
    *(_binary(f"{op}.ftz", F32, f"{word}.rn.ftz.f32") for op, word in (("add", "add"), ("subtract", "sub"))),
    _binary("multiply.ftz", F32, "mul.rn.ftz.f32"),
    _unary("negative.ftz", F32, "neg.ftz.f32"),
    _unary("absolute.ftz", F32, "abs.ftz.f32"),
    row("fma.ftz", F32, "fma.rn.ftz.f32 {d}, {0}, {1}, {2};"),
    _binary("divide.ftz", F32, "div.rn.ftz.f32"),
    _unary("reciprocal.ftz", F32, "rcp.rn.ftz.f32"),
    _unary("sqrt.ftz", F32, "sqrt.rn.ftz.f32"),
    _binary("minimum.ftz", F32, "min.ftz.NaN.f32", min_sm=80),
    _binary("maximum.ftz", F32, "max.ftz.NaN.f32", min_sm=80),
    _binary("fmin.ftz", F32, "min.ftz.f32"),
    _binary("fmax.ftz", F32, "max.ftz.f32"),
    _compare("equal.ftz", F32, "setp.eq.ftz.f32"),
    _compare("not_equal.ftz", F32, "setp.neu.ftz.f32"),
    _compare("less.ftz", F32, "setp.lt.ftz.f32"),
    _compare("less_equal.ftz", F32, "setp.le.ftz.f32"),
    *(
        _unary(f"{op}.ftz", F32, f"cvt.{mode}.ftz.f32.f32")
        for op, mode in (("floor", "rmi"), ("ceil", "rpi"), ("trunc", "rzi"), ("rint", "rni"))
    ),
    _unary("cast.f64.ftz", F32, "cvt.ftz.f64.f32", "f64"),
    _unary("cast.f32.ftz", F64, "cvt.rn.ftz.f32.f64", "f32"),
    *(_unary(f"cast.{type_}.ftz", F32, f"cvt.rzi.ftz.{type_}.f32", type_) for type_ in INTS),
)

# Without a rounding word the assembler may contract; the rest is within the bounds of `precision.FAST_ULP`.
_FAST = (
    *(_binary(f"{op}.fast", F32, f"{word}.ftz.f32") for op, word in (("add", "add"), ("subtract", "sub"))),
    _binary("multiply.fast", F32, "mul.ftz.f32"),
    *(_binary(f"{op}.fast", F64, f"{word}.f64") for op, word in (("add", "add"), ("subtract", "sub"))),
    _binary("multiply.fast", F64, "mul.f64"),
    _binary("divide.fast", F32, "div.full.ftz.f32"),
    _unary("reciprocal.fast", F32, "rcp.approx.ftz.f32"),
    _unary("sqrt.fast", F32, "sqrt.approx.ftz.f32"),
)

# f32 within a bound, subnormals kept: of `precision.FAST_ULP`, and instructions that mathematical functions rest on.
_APPROXIMATE = (
    _binary("divide.approximate", F32, "div.full.f32"),
    _unary("reciprocal.approximate", F32, "rcp.approx.f32"),
    _unary("sqrt.approximate", F32, "sqrt.approx.f32"),
    _unary("ex2.approx", F32, "ex2.approx.f32"),
    _unary("ex2.approx_ftz", F32, "ex2.approx.ftz.f32"),
    _unary("rcp.approx_ftz", F32, "rcp.approx.ftz.f32"),
    _unary("rsqrt.approx", F32, "rsqrt.approx.f32"),
    _unary("rsqrt.approx_ftz", F32, "rsqrt.approx.ftz.f32"),
    _unary("tanh.approx", F32, "tanh.approx.f32", min_sm=80),  # sm_75 has it, but PTX 6.3 does not
)

ROWS: tuple[Row, ...] = (*_INTEGER, *_FLOAT, *_OTHER, *_WARP, *_FTZ, *_FAST, *_APPROXIMATE)

# (op, operand type) -> its rows, on any target.
_BY_OP: dict[tuple[str, str], tuple[Row, ...]] = {}
for _each in ROWS:
    for _type in _each.types:
        _BY_OP[_each.op, _type] = (*_BY_OP.get((_each.op, _type), ()), _each)

PREDICATES = frozenset(each.op for each in ROWS if each.result == "pred") | {
    each.op for each in ROWS if each.types == PRED and not each.result
}

Template = tuple[str, tuple[int, ...]]


def operand_type(op: str, types: tuple[str, ...] | list[str]) -> str:
    """The type that selects a row."""
    return types[0] if op in TYPED_BY_FIRST else types[-1]


def has_row(op: str, type_: str, sm: int) -> bool:
    """Whether a single instruction does this on that target."""
    return any(each.matches(op, type_, sm) for each in _BY_OP.get((op, type_), ()))


def select(op: str, type_: str, target: Target) -> Template:
    """The instruction as a %-format and the positions that fill it: 0 the result, 1 and up the operands.

    UnsupportedError if only newer targets have the form.
    """
    forms = _BY_OP.get((op, type_), ())
    for each in forms:
        if each.matches(op, type_, target.sm):
            return _compile(each.template, type_)
    newer = [each.sms[0] for each in forms if each.sms[0] > target.sm]
    if newer:
        needed = f"sm_{min(newer)}"
        raise UnsupportedError(f"{op} of {type_} needs {needed}; the target is {target}", capability=needed)
    types = sorted({t for each in ROWS if each.op == op for t in each.types})
    exists = f"it has one for {', '.join(types)}" if types else "no type has one"
    raise InternalError(f"{op} has no PTX form for {type_} on {target}; {exists}")


def _compile(template: str, type_: str) -> Template:
    text = template.replace("{t}", type_).replace("{b}", str(BITS.get(type_, 1)))
    places: list[int] = []
    pieces = text.split("{")
    for piece in pieces[1:]:
        name = piece[0]
        places.append(0 if name == "d" else int(name) + 1)
    line = pieces[0] + "".join("%s" + piece[2:] for piece in pieces[1:])
    return line.replace("<", "{").replace(">", "}"), tuple(places)
