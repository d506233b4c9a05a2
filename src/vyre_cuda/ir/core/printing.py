"""What a print of a program prints: the same text in the interpreter, the emulator and on a GPU.

A format is one line of text with `{}` for each value; `{{` and `}}` stand for braces. Integers are decimal, bools 1 and
0, floats have as many significant digits as tell them from all others of their type, as C's %g writes them. A NaN has
no sign.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vyre_cuda.errors import counted
from vyre_cuda.ir.core.limits import MAX_PRINTED_VALUES
from vyre_cuda.ir.core.scalars import value_of
from vyre_cuda.ir.core.types import Type, bf16, f16, f32, f64

# 1 + ceil(significant bits * log10(2)).
DIGITS: dict[Type, int] = {f16: 5, bf16: 4, f32: 9, f64: 17}

# Compiled when they are first used: this module is loaded with the first kernel function.
_PART = r"\{\{|\}\}|\{\}|[{}]"
# The line breaks of str.splitlines are among them.
_NOT_TEXT = r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"


def format_fault(format_: str, values: int) -> str | None:
    """Why the format cannot print this many values; None if it can."""
    strange = re.search(_NOT_TEXT, format_)
    if strange is not None:
        return (
            f"the format of print has {strange[0]!r} at position {strange.start()}; it is one line of text, and print "
            "ends it: print each line on its own"
        )
    lone = next((part for part in re.finditer(_PART, format_) if len(part[0]) == 1), None)
    if lone is not None:
        return f"the format of print has a single {lone[0]!r} at position {lone.start()}; write {lone[0] * 2!r}"
    if values > MAX_PRINTED_VALUES:
        return f"print of {values} values; a line has at most {MAX_PRINTED_VALUES}: print several lines"
    wanted = len(texts(format_)) - 1
    if wanted != values:
        return f"print of {counted(values, 'value')} with {wanted} `{{}}` in the format {format_!r}"
    return None


def texts(format_: str) -> list[str]:
    """The text before, between and behind the values."""
    found = [""]
    end = 0
    for part in re.finditer(_PART, format_):
        found[-1] += format_[end : part.start()]
        end = part.end()
        if part[0] == "{}":
            found.append("")
        else:
            found[-1] += part[0][0]
    found[-1] += format_[end:]
    return found


def escaped(text: str) -> str:
    """The part of a format that prints this text."""
    return text.replace("{", "{{").replace("}", "}}")


def line(format_: str, values: Sequence[tuple[Type, int]]) -> str:
    """The line with these values, each with its type and bits."""
    first, *others = texts(format_)
    shown = [first]
    for (type_, bits), text in zip(values, others, strict=True):
        shown += (_shown(type_, bits), text)
    return "".join([*shown, "\n"])


def _shown(type_: Type, bits: int) -> str:
    number = value_of(type_, bits)
    return f"{number:.{DIGITS[type_]}g}" if type_.is_float else str(int(number))
