"""A question is a few lines of PTX whose answers are known; many of them make one kernel.

A kernel `name(in, out)` runs as one block of LANES threads. The first row of `in` is the run-time predicate %p, true in
odd lanes; a question may read more rows, one word a lane. Each result of a question is a row of `out`, which was zero.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from silicon_forms import Form
from silicon_kernels import access

LANES = 32
QUESTIONS_PER_KERNEL = 64
ROW_BYTES = 8 * LANES
HEADER = ".version 8.0\n.target sm_{target}\n.address_size 64\n"

_OWN = re.compile(r"([%$])(?!p\b|src\b|dst\b)(\w+)")

Words = npt.NDArray[np.uint64]
Lanes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """Instructions over registers %r0, %r1 ..., labels $0, $1 ... and the predicate %p."""

    group: str
    form: str
    way: str
    pattern: str
    lines: tuple[str, ...]
    registers: tuple[tuple[str, str], ...]
    inputs: tuple[tuple[str, str, Lanes], ...]
    results: tuple[tuple[str, str], ...]
    known: tuple[tuple[int | None, ...], ...] = ()
    target: int = 75

    def snippet(self) -> str:
        """The text alone; a register that is read from memory says so."""
        words = [(name, "pred" if type_ == "p" else access(type_)) for name, type_, _ in self.inputs]
        loads = [f"ld.global.{word} {name}, [..];" for name, word in words]
        return " ".join([*loads, *self.lines])


@dataclass(slots=True)
class Snippet:
    """A question while it is made."""

    lines: list[str] = field(default_factory=list)
    registers: list[tuple[str, str]] = field(default_factory=list)
    inputs: list[tuple[str, str, Lanes]] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)
    target: int = 75
    _labels: int = 0

    def put(self, *lines: str) -> None:
        """Append instructions."""
        self.lines += lines

    def register(self, type_: str) -> str:
        """Declare a register of a type and name it."""
        name = f"%r{len(self.registers)}"
        self.registers.append((name, type_))
        return name

    def label(self) -> str:
        """A new label."""
        self._labels += 1
        return f"${self._labels - 1}"

    def read(self, type_: str, words: Sequence[int]) -> str:
        """A register with one word a lane from memory."""
        name = self.register(type_)
        self.inputs.append((name, type_, tuple(words)))
        return name

    def result(self, register: str, type_: str) -> None:
        """Make a register the next result; `type_` says how its NaN look."""
        self.results.append((register, type_))

    def question(self, group: str, form: str, way: str, pattern: str, target: int = 75) -> Question:
        """What was made."""
        return Question(
            group=group,
            form=form,
            way=way,
            pattern=pattern,
            lines=tuple(self.lines),
            registers=tuple(self.registers),
            inputs=tuple(self.inputs),
            results=tuple(self.results),
            target=max(self.target, target),
        )


def declared(type_: str) -> str:
    """The type of the register that holds a value."""
    return "pred" if type_ == "p" else access(type_.partition("@")[0])


def literal(type_: str, word: int) -> str:
    """An immediate operand of a type that has them."""
    if type_[0] == "f":
        return f"0f{word:08X}" if type_ == "f32" else f"0d{word:016X}"
    bits = int(type_[1:])
    if type_[0] == "s" and word >> (bits - 1):
        return str(word - (1 << bits))
    return str(word)


def _renamed(line: str, number: int) -> str:
    return _OWN.sub(lambda match: f"{'%' if match[1] == '%' else 'L'}{match[2]}_{number}", line)


def _question_text(question: Question, number: int, rows: dict[tuple[int, ...], int], first_result: int) -> list[str]:
    lines = [f".reg .{declared(type_)} {name};" for name, type_ in question.registers]
    for name, type_, words in question.inputs:
        offset = rows.setdefault(words, len(rows)) * ROW_BYTES
        if type_ == "p":
            lines += [f".reg .b32 {name}w;", f"ld.global.u32 {name}w, [%src+{offset}];"]
            lines.append(f"setp.ne.u32 {name}, {name}w, 0;")
        else:
            lines.append(f"ld.global.{access(type_)} {name}, [%src+{offset}];")
    lines += question.lines
    for k, (register, type_) in enumerate(question.results):
        offset = (first_result + k) * ROW_BYTES
        if type_ == "p":
            lines += [
                f".reg .b32 %w{k};",
                f"selp.u32 %w{k}, 1, 0, {register};",
                f"st.global.b32 [%dst+{offset}], %w{k};",
            ]
        else:
            lines.append(f"st.global.{declared(type_)} [%dst+{offset}], {register};")
    return [_renamed(line, number) for line in lines]


@dataclass(frozen=True, slots=True)
class Batch:
    """A module of one kernel, `k`, with the rows that it reads and the questions that it answers in order."""

    text: str
    rows: Words
    questions: tuple[Question, ...]

    @property
    def results(self) -> int:
        """Rows of answers."""
        return sum(len(question.results) for question in self.questions)


def batch(questions: Sequence[Question]) -> Batch:
    """One kernel with these questions."""
    rows: dict[tuple[int, ...], int] = {tuple(lane & 1 for lane in range(LANES)): 0}
    body: list[str] = []
    results = 0
    for number, question in enumerate(questions):
        body += _question_text(question, number, rows, results)
        results += len(question.results)
    header = HEADER.format(target=max((question.target for question in questions), default=75))
    inner = "\n  ".join(body)
    text = f"""{header}
.visible .entry k(.param .u64 in, .param .u64 out)
{{
  .reg .b64 %src, %dst, %cell;
  .reg .b32 %me, %word;
  .reg .pred %p;
  ld.param.u64 %src, [in];
  ld.param.u64 %dst, [out];
  mov.u32 %me, %tid.x;
  mul.wide.u32 %cell, %me, 8;
  add.u64 %src, %src, %cell;
  add.u64 %dst, %dst, %cell;
  ld.global.u32 %word, [%src];
  setp.ne.u32 %p, %word, 0;
  {inner}
  ret;
}}
"""
    return Batch(text=text, rows=np.array(list(rows), np.uint64), questions=tuple(questions))


def is_nan(type_: str, word: int) -> bool:
    """Whether a word of the type is a NaN."""
    quiet = {"f16": (0x7FFF, 0x7C00), "h16": (0x7FFF, 0x7F80)}
    quiet |= {"f32": (0x7FFFFFFF, 0x7F800000), "f64": ((1 << 63) - 1, 0x7FF << 52)}
    kind = type_.partition("@")[2] or type_
    if kind not in quiet:
        return False
    mask, infinity = quiet[kind]
    return word & mask > infinity


def differing(type_: str, expected: Words, met: Words) -> list[int]:
    """Lanes whose words differ, NaN as NaN. A type b32@f32 holds the bits of an f32."""
    lanes = np.flatnonzero(expected != met)
    return [int(k) for k in lanes if not (is_nan(type_, int(expected[k])) and is_nan(type_, int(met[k])))]


def form_operands(form: Form) -> list[tuple[str, int]]:
    """Type and vector length of the operands that a form reads, without its table."""
    return [
        (o.type if not o.widening else f"{o.kind}{max(32, o.bits)}", o.vector)
        for o in form.operands
        if o.role == "source" and not o.immediate
    ]
