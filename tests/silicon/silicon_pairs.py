"""Instructions whose operands are results of instructions, which is what compilers combine.

A unit is one outer form. Each of its operands in turn is the result of each inner form that fits; constants are edges.
`deep` units nest three instructions at random. What a question gives follows from the emulator, instruction by
instruction. Forms without a rounding word are left out: the ISA lets an assembler contract them.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence

from silicon_folding import emitted_names, in_range, pure_forms
from silicon_forms import Form
from silicon_operands import choice, describe, edge_words, immediate
from silicon_questions import LANES, Question, Snippet, form_operands

_EXTRA = (
    *("add.sat.s32", "sub.sat.s32", "shf.l.clamp.b32", "shf.r.clamp.b32", "prmt.b32", "mul.wide.s32", "mad.wide.s32"),
    *("bfe.u32", "bfe.s32", "bfe.u64", "bfe.s64", "bfi.b32", "bfi.b64", "div.s32", "div.s64", "rem.u32", "rem.s32"),
    *("rem.u64", "rem.s64", "cvt.u32.u8", "cvt.u32.u16", "cvt.s64.s16", "cvt.s64.s8", "cvt.s32.s64", "mad.hi.u32"),
    *("mad.hi.s32", "mad.hi.u64", "sad.u32", "sad.s32", "setp.ge.s32", "setp.gt.u32", "setp.gt.s64", "setp.ge.f32"),
    *("setp.gtu.f32", "add.rn.sat.f32", "mul.rn.sat.f32", "fma.rn.sat.f32", "cvt.sat.f32.f32", "cvt.rn.f32.s64"),
    *("add.rn.f16", "mul.rn.f16", "add.rn.bf16", "neg.f16", "abs.f16", "min.f16", "max.NaN.f16", "cvt.f64.f16"),
    *(
        "shl.b16",
        "shr.u16",
        "shr.s16",
        "add.u16",
        "mul.lo.u16",
        "mul.lo.s16",
        "mul.wide.u16",
        "mul.wide.s16",
        "min.s16",
    ),
)
_CONTRACTED = frozenset(f"{op}.{rest}" for op in ("add", "sub", "mul") for rest in ("f64", "f32", "ftz.f32"))
_SHIFTS = frozenset({"shl", "shr", "shf", "bfe", "bfi"})
_COMBINATIONS = 8
_DEEP = 1500
# These show the bits of a NaN, or its sign, which the ISA leaves open; so what they read is no arithmetic.
_BARE = frozenset({"mov", "cvt.u32.u16", "cvt.u16.u32"})
_NEVER_NAN = frozenset({"neg", "abs", "selp", "copysign", "add", "sub", "mul", "fma", "min", "max"})


def register_class(type_: str) -> str:
    """What a register can be used as."""
    if type_ == "p" or type_ in ("f32", "f64"):
        return type_
    return f"b{max(16, int(type_[1:]))}"


def result_type(form: Form) -> str:
    """The type of the register that takes the result."""
    operand = form.operands[0]
    return operand.type if not operand.widening or operand.bits >= 16 else f"{operand.kind}32"


def types_of(form: Form) -> list[str]:
    """The types of what a form reads."""
    return [type_ for type_, _ in form_operands(form)]


@functools.cache
def paired_forms() -> dict[str, Form]:
    """The forms that take part, by name and signature."""
    names = (emitted_names() | frozenset(_EXTRA)) - _CONTRACTED
    return {
        f"{form.name} {form.signature}": form
        for form in pure_forms()
        if form.name in names and not any(o.vector or o.immediate for o in form.operands)
    }


@functools.cache
def _makers(class_: str) -> tuple[str, ...]:
    return tuple(key for key, form in paired_forms().items() if register_class(result_type(form)) == class_)


@functools.cache
def _fitting(key: str, k: int) -> tuple[str, ...]:
    """The forms that can make an operand of a form."""
    outer = paired_forms()[key]
    makers = _makers(register_class(types_of(outer)[k]))
    return tuple(name for name in makers if _allowed(outer, k, paired_forms()[name]))


def units() -> list[str]:
    """One an outer form, and as many of deeper nests."""
    return [*paired_forms(), *(f"deep {key}" for key in paired_forms())]


def plan(unit: str) -> list[Callable[[], Question]]:
    """What makes the questions of a unit."""
    if unit.startswith("deep "):
        return [functools.partial(_nest, unit, number) for number in range(_DEEP)]
    outer, found = paired_forms()[unit], []
    for k in range(len(types_of(outer))):
        for key in _fitting(unit, k):
            found += _pairs(outer, k, paired_forms()[key])
    return found


def _is_float(type_: str) -> bool:
    return type_[0] in "fh"


def _shows_nan(outer: Form, k: int) -> bool:
    bare = outer.name in _BARE or outer.opcode in _BARE
    return bare or (outer.opcode == "copysign" and k == 0)


def _allowed(outer: Form, k: int, inner: Form) -> bool:
    """Whether the result does not depend on bits of a NaN that the inner form makes."""
    read, made = types_of(outer)[k], inner.operands[0].type
    if not _is_float(made):
        return True
    if outer.opcode == "copysign" and k == 0:
        return inner.opcode in _NEVER_NAN
    return read == made or outer.name in _BARE or outer.opcode in _BARE


def _seen_as(outer: Form, k: int, inner: Form) -> str:
    """The type of the result for comparison: bits of a float are still those of a NaN."""
    type_, made = result_type(outer), inner.operands[0].type
    if _shows_nan(outer, k) and outer.opcode != "copysign" and _is_float(made) and not _is_float(type_):
        return f"{type_}@{made}"
    return type_


def _apply(s: Snippet, form: Form, operands: Sequence[str]) -> str:
    name = s.register(result_type(form))
    s.put(f"{form.name} {name}, {', '.join(in_range(s, form, operands))};")
    return name


def _words(draw: random.Random, type_: str, *, finite: bool) -> int:
    return draw.choice(edge_words(type_, finite=finite))


def _ways(inner: Form) -> list[str]:
    count = len(types_of(inner))
    named = [f"memory {k}" for k in range(count)] if count > 1 else []
    return [*named, "memory", "choice", "constant"]


def _pairs(outer: Form, k: int, inner: Form) -> list[Callable[[], Question]]:
    """Each way of the inner operands, with several constants; a shift sees every count."""
    shifts = outer.opcode in _SHIFTS and k == 0 and not _is_float(inner.operands[0].type)
    counts = edge_words("u32") if shifts else (None,) * _COMBINATIONS
    return [
        functools.partial(_pair, outer, k, inner, way, number, count)
        for way in _ways(inner)
        for number, count in enumerate(counts)
    ]


def _pair(outer: Form, k: int, inner: Form, way: str, number: int, count: int | None) -> Question:
    draw = random.Random(f"{outer.key} {k} {inner.key} {way} {number}")
    finite = outer.opcode == "copysign" and k == 0
    outer_types = types_of(outer)
    s = Snippet()
    words = [_words(draw, type_, finite=False) for type_ in outer_types]
    if count is not None:
        words[-1] = count
    operands = [immediate(s, t, w) if j != k else "" for j, (t, w) in enumerate(zip(outer_types, words, strict=True))]
    operands[k] = _apply(s, inner, _inner_operands(s, inner, way, draw, finite))
    s.result(_apply(s, outer, operands), _seen_as(outer, k, inner))
    target = max(outer.min_target, inner.min_target)
    pattern = ", ".join(
        "result" if j == k else describe(t, w) for j, (t, w) in enumerate(zip(outer_types, words, strict=True))
    )
    return s.question("pairs", f"{outer.name} {k} <- {inner.name}", way, pattern, target)


def _inner_operands(s: Snippet, inner: Form, way: str, draw: random.Random, finite: bool) -> list[str]:
    operands = []
    for j, type_ in enumerate(types_of(inner)):
        word, other = _words(draw, type_, finite=finite), _words(draw, type_, finite=finite)
        if way in ("memory", f"memory {j}"):
            operands.append(s.read(type_, _lanes(draw, type_, finite)))
        elif way == "choice" and (j == 0 or draw.random() < 0.5):
            operands.append(choice(s, type_, word, other))
        else:
            operands.append(immediate(s, type_, word))
    return operands


def _lanes(draw: random.Random, type_: str, finite: bool) -> list[int]:
    """Edges in an order that differs from operand to operand."""
    words = list(edge_words(type_, finite=finite))
    turn = draw.randrange(len(words))
    return [words[(turn + lane) % len(words)] for lane in range(LANES)]


# ---- deeper ---------------------------------------------------------------------------------------------------------


def _nest(unit: str, number: int) -> Question:
    """An outer form over random ones, two levels of them."""
    outer = paired_forms()[unit.removeprefix("deep ")]
    draw = random.Random(f"{unit} {number}")
    s = Snippet()
    targets = [outer.min_target]
    s.result(_nested(s, outer, 2, draw, targets), result_type(outer))
    return s.question("pairs", f"deep {outer.name}", "nested", "", max(targets))


def _nested(s: Snippet, form: Form, depth: int, draw: random.Random, targets: list[int]) -> str:
    operands = []
    for k, type_ in enumerate(types_of(form)):
        leaf = depth == 0 or draw.random() < 0.3
        bare = _shows_nan(form, k) and (_is_float(type_) or type_[1:] == "16")
        makers = () if leaf or bare else _fitting(form.name + " " + form.signature, k)
        if not makers:
            operands.append(_leaf(s, type_, draw, finite=bare and form.opcode == "copysign"))
        else:
            inner = paired_forms()[draw.choice(makers)]
            targets.append(inner.min_target)
            operands.append(_nested(s, inner, depth - 1, draw, targets))
    return _apply(s, form, operands)


def _leaf(s: Snippet, type_: str, draw: random.Random, finite: bool) -> str:
    word, other = _words(draw, type_, finite=finite), _words(draw, type_, finite=finite)
    kind = draw.randrange(10)
    if kind < 5:
        return immediate(s, type_, word)
    if kind < 8:
        return choice(s, type_, word, other)
    return s.read(type_, _lanes(draw, type_, finite))
