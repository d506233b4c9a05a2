"""The instruction forms of the emulator and their operands.

`forms.txt` is the emulator's own table, one form a line: name, signature, least sm. A test holds the two equal.
A signature has one word an operand; csrc/emulator/ptx/forms/forms.h explains the marks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FORMS_FILE = Path(__file__).with_name("forms.txt")

# A trap ends the context that every other form needs; the ISA bounds the others' results, but every silicon has its
# own bits.
NOT_RECORDED = frozenset(
    {
        "trap",
        *(f"{name}.approx{flush}.f32" for name in ("rcp", "sqrt", "ex2", "rsqrt") for flush in ("", ".ftz")),
        *("div.full.f32", "div.full.ftz.f32", "tanh.approx.f32"),
        "cvta.local.u64",  # an address, which differs from run to run
    }
)

_OPERAND = re.compile(r"([=~!#?]*)(?:([234]):)?(~?)([busfh]\d+|p)(\|p)?")


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of a form. `role` is source, destination, address, parameter or label."""

    role: str
    kind: str = ""
    bits: int = 0
    vector: int = 0
    second: bool = False
    widening: bool = False
    negatable: bool = False
    immediate: bool = False
    optional: bool = False

    @property
    def type(self) -> str:
        """The PTX type name, `p` for a predicate, `h16` for bf16."""
        return "p" if self.kind == "p" else f"{self.kind}{self.bits}"


@dataclass(frozen=True, slots=True)
class Form:
    """One instruction form: its name with modifiers, its operands, the least sm that has it."""

    name: str
    signature: str
    min_target: int
    operands: tuple[Operand, ...]

    @property
    def key(self) -> str:
        """Name and signature: what identifies the form."""
        return f"{self.name}\t{self.signature}"

    @property
    def opcode(self) -> str:
        """The name up to its first modifier."""
        return self.name.partition(".")[0]


def _operand(word: str) -> Operand:
    fixed = {"[]": "address", "[param]": "parameter", "label": "label"}
    if word in fixed:
        return Operand(role=fixed[word])
    match = _OPERAND.fullmatch(word)
    if match is None:
        raise ValueError(f"signature word {word!r} is not known")
    marks = match[1] + match[3]
    kind, bits = match[4][0], match[4][1:]
    return Operand(
        role="destination" if "=" in marks else "source",
        kind=kind,
        bits=int(bits or 1),
        vector=int(match[2] or 0),
        second=match[5] is not None,
        widening="~" in marks,
        negatable="!" in marks,
        immediate="#" in marks,
        optional="?" in marks,
    )


def parse_forms(text: str) -> list[Form]:
    """The forms of a listing in the layout of `forms.txt`, in its order."""
    forms = []
    for line in text.splitlines():
        name, signature, target = line.split("\t")
        operands = tuple(_operand(word) for word in signature.split(" ") if word)
        forms.append(Form(name=name, signature=signature, min_target=int(target), operands=operands))
    return forms


def recorded_forms() -> list[Form]:
    """The forms that have answers, in the order of `forms.txt`."""
    return [form for form in parse_forms(FORMS_FILE.read_text()) if form.name not in NOT_RECORDED]
