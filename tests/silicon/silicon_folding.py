"""Every pure instruction form with operands that a compiler can fold, asked for what silicon answered from memory.

An operand is made in one of several ways; %p chooses between two constants where there is a choice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import silicon_half
from record import ANSWERS_FILE, load, word_bytes
from silicon_forms import Form, recorded_forms
from silicon_grid import CASES, Stream, Words, edges
from silicon_kernels import Kernel, braced, pure, register_widths
from silicon_modules import BUILDERS, build_kernel
from silicon_operands import HALF, WAYS, choice, describe, immediate, joined
from silicon_questions import LANES, Question, Snippet

from vyre_cuda.codegen.forms.isel import BITS, ROWS

_TABLES = (0x96, 0xE8, 0xCA, 0x1B, 0x80, 0x01)
_MOST_FIELD = 255  # of the position and length of bfe and bfi as immediates
_CARRY = frozenset({"addc", "subc", "madc"})

# Questions of one form by way, for forms that the lowering emits and for the others.
_COUNTS = {
    "1": {
        "immediate": 512,
        "register": 128,
        "choice": 512,
        "guarded": 256,
        "branch": 64,
        "product": 256,
        "sum": 256,
        "bits": 128,
        "part": 128,
    },
    "2": {
        "immediate": 96,
        "register": 8,
        "choice": 64,
        "guarded": 16,
        "branch": 8,
        "product": 16,
        "sum": 16,
        "bits": 16,
        "part": 12,
    },
}


def pure_forms() -> list[Form]:
    """The recorded forms whose results follow from their operands alone."""
    builders = (pure, silicon_half.conversion, silicon_half.fused)
    return [form for form in recorded_forms() if BUILDERS.get(form.opcode, pure) in builders]


@functools.cache
def emitted_names() -> frozenset[str]:
    """The instructions in the rows of instruction selection."""
    return frozenset(
        each.template.split(" ")[0].replace("{t}", type_).replace("{b}", str(BITS.get(type_, 1)))
        for each in ROWS
        for type_ in each.types
    )


def group_of(form: Form) -> str:
    """1 for a form that the lowering emits, else 2."""
    return "1" if form.name in emitted_names() else "2"


# ---- what was recorded ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recorded:
    """One form's grid with the answers to it."""

    types: tuple[str, ...]
    grid: Words
    outputs: tuple[str, ...]
    answers: tuple[Words, ...]
    cases: dict[tuple[int, ...], int]


@functools.cache
def _answers() -> dict[str, tuple[list[str], npt.NDArray[np.uint8]]]:
    return {key: (answer.outputs, answer.data) for key, answer in load(ANSWERS_FILE).answers.items()}


def recorded(form: Form) -> Recorded:
    """What silicon answered to a form whose operands came from memory."""
    kernel: Kernel = build_kernel(form, "k")
    outputs, data = _answers()[form.key]
    answers, begin = [], 0
    for type_ in outputs:
        width = word_bytes(type_)
        answers.append(data[begin : begin + CASES * width].view(f"u{width}").astype(np.uint64))
        begin += CASES * width
    grid = kernel.operands()
    types = tuple("p" if kind == "p" else f"{kind}{bits}" for kind, bits in kernel.inputs)
    if "p" in types:
        rows = [k for k, type_ in enumerate(types) if type_ == "p"]
        grid = grid.copy()
        grid[rows] = grid[rows] != 0
    cases = {tuple(column): case for case, column in reversed(list(enumerate(grid.T.tolist())))}
    return Recorded(types=types, grid=grid, outputs=tuple(outputs), answers=tuple(answers), cases=cases)


# ---- instructions ---------------------------------------------------------------------------------------------------


def instructions(s: Snippet, form: Form, operands: Sequence[str], types: Sequence[str]) -> None:
    """All variants of a form on these operands, results in the order of the recorded ones."""
    destination = form.operands[0]
    sources = [o for o in form.operands if o.role == "source" and not o.immediate]
    table_operand = any(o.immediate for o in form.operands)
    groups, at = [], 0
    operands = in_range(s, form, operands)
    for source in sources:
        count = max(1, source.vector)
        group = list(operands[at : at + count])
        if source.vector:
            group = [_in_register(s, types[at + k], word) for k, word in enumerate(group)]
        groups.append(group)
        at += count
    for width in register_widths(destination):
        for negation in ["", "!"] if any(o.negatable for o in sources) else [""]:
            for table in _TABLES if table_operand else (0,):
                type_ = destination.type if width == destination.bits else f"b{width}"
                results = [s.register(type_) for _ in range(max(1, destination.vector))]
                words = [braced(results, destination.vector)]
                if destination.second:
                    results.append(s.register("p"))
                    words[0] += f"|{results[-1]}"
                for source, group in zip(sources, groups, strict=True):
                    words.append((negation if source.negatable else "") + braced(group, source.vector))
                if table_operand:
                    words.append(str(table))
                if form.opcode in _CARRY:
                    _carry_in(s, form, operands[-1])
                s.put(f"{form.name} {', '.join(words)};")
                _finish(s, form, results, type_)


def in_range(s: Snippet, form: Form, operands: Sequence[str]) -> list[str]:
    """Operands with those in registers that the assembler does not take as immediates."""
    if form.opcode not in ("bfe", "bfi"):
        return list(operands)
    last = len(operands) - 2
    return [
        _in_register(s, "u32", text) if k >= last and not text.startswith("%") and int(text) > _MOST_FIELD else text
        for k, text in enumerate(operands)
    ]


def _finish(s: Snippet, form: Form, results: list[str], type_: str) -> None:
    """Name the results; the carry comes first, as in the recorded kernels."""
    if ".cc" in form.name:
        word = s.register("u32")
        s.put(f"{'subc' if form.opcode.startswith('sub') else 'addc'}.u32 {word}, 0, 0;")
        s.result(word, "b32")
    for name in results[: max(1, form.operands[0].vector)]:
        s.result(name, type_)
    if form.operands[0].second:
        s.result(results[-1], "p")


def _in_register(s: Snippet, type_: str, operand: str) -> str:
    if operand.startswith("%"):
        return operand
    name = s.register(type_)
    s.put(f"mov.{type_} {name}, {operand};")
    return name


def _carry_in(s: Snippet, form: Form, carry: str) -> None:
    word, scratch = s.register("u32"), s.register("u32")
    s.put(f"selp.u32 {word}, 1, 0, {carry};")
    if form.opcode.startswith("sub"):
        s.put(f"sub.cc.u32 {scratch}, 0, {word};")
    else:
        s.put(f"add.cc.u32 {scratch}, {word}, -1;")


# ---- questions ------------------------------------------------------------------------------------------------------


def _lanes(row: Recorded, words: Sequence[Sequence[int]]) -> tuple[tuple[int | None, ...], ...]:
    """Recorded answers of each result in each lane, None where silicon was not asked that."""
    cases = [row.cases.get(tuple(lane)) for lane in zip(*words, strict=True)]
    return tuple(tuple(None if c is None else int(answer[c]) for c in cases) for answer in row.answers)


def _alternating(word: int, other: int) -> tuple[int, ...]:
    """%p is true in odd lanes."""
    return tuple(word if lane & 1 else other for lane in range(LANES))


def _finished(s: Snippet, form: Form, row: Recorded, way: str, words: Sequence[Sequence[int]]) -> Question:
    pattern = ", ".join(
        "any"
        if len(set(lanes)) > 2
        else "|".join(dict.fromkeys(describe(type_, word) for word in (lanes[1], lanes[0])))
        for type_, lanes in zip(row.types, words, strict=True)
    )
    name = form.name if len({o.vector for o in form.operands}) == 1 else f"{form.name} {form.signature}"
    made = s.question(group_of(form), name, way, pattern, form.min_target)
    return replace(made, known=_lanes(row, words))


def _asked(form: Form, row: Recorded, way: str, case: int, other: int) -> Question:
    """All operands made in one way."""
    s = Snippet()
    first, second = row.grid[:, case].tolist(), row.grid[:, other].tolist()
    if way == "branch":
        operands = joined(s, row.types, first, second)
    else:
        operands = [WAYS[way](s, t, x, y) for t, x, y in zip(row.types, first, second, strict=True)]
    instructions(s, form, operands, row.types)
    chosen = way in ("choice", "guarded", "branch")
    words = [_alternating(x, y if chosen else x) for x, y in zip(first, second, strict=True)]
    return _finished(s, form, row, way, words)


def _part(form: Form, row: Recorded, way: str, k: int, case: int, other: int) -> Question:
    """One operand from memory or chosen, the others immediate."""
    first = row.grid[:, case].tolist()
    type_, edge = row.types[k], int(row.grid[k, other])
    s = Snippet()
    words = [_alternating(word, word) for word in first]
    operands = [immediate(s, t, w) for t, w in zip(row.types, first, strict=True)]
    if way == "memory":
        words[k] = _edge_lanes(type_, Stream(f"{form.key} {case} {k}"))
        operands[k] = s.read(type_, words[k])
    else:
        words[k] = _alternating(first[k], edge)
        operands[k] = choice(s, type_, first[k], edge)
    instructions(s, form, operands, row.types)
    return _finished(s, form, row, f"{way} {k}" if len(row.types) > 1 else way, words)


def _edge_lanes(type_: str, stream: Stream) -> tuple[int, ...]:
    """The short edges, then others."""
    short, long = edges(type_[0], int(type_[1:] or 1))
    if len(short) >= LANES or type_ == "p":
        return tuple(int(short[k % len(short)]) for k in range(LANES))
    more = long[stream.below(len(long), LANES - len(short))]
    return tuple(int(word) for word in (*short, *more))


def _cases(form: Form, row: Recorded, way: str, count: int) -> list[int]:
    """Distinct cases, edges before the rest, others for each way."""
    distinct = sorted(row.cases.values())
    types = len(row.types)
    edges = 324 if types == 2 else CASES // 2
    parts = [c for c in distinct if c < edges], [c for c in distinct if c >= edges]
    order: list[int] = []
    for k, part in enumerate(parts):
        keys = Stream(f"{form.key} {way} {k}").words(len(part))
        order += [part[int(at)] for at in np.argsort(keys, kind="stable")]
    return order[:count]


def form_plan(form: Form) -> list[Callable[[], Question]]:
    """What makes everything that one form is asked."""
    row = recorded(form)
    counts = _COUNTS[group_of(form)]
    found: list[Callable[[], Question]] = []
    for way, count in counts.items():
        cases = _cases(form, row, way, count)
        others = cases[1:] + cases[:1]
        if way == "immediate" and all(t in (*HALF, "p") for t in row.types):
            continue
        for case, other in zip(cases, others, strict=True):
            if way != "part":
                found.append(functools.partial(_asked, form, row, way, case, other))
                continue
            for k in range(len(row.types)):
                found += [functools.partial(_part, form, row, w, k, case, other) for w in ("memory", "choice of one")]
    return found
