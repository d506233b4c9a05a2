"""The text of a program with literals written as expressions that have the same value.

The rules against what ptxas folds wrongly (docs/compiler-defects.md) look at constants: they must see those that
expressions hide, as ptxas does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

_LITERAL = re.compile(r"\b(f32|f64|[ui](?:8|16|32|64)):(-?[0-9.e+-]+|-?inf|nan)(?=[,)\s]|$)")


def hidden_one_by_one(body: str) -> Iterator[str]:
    """Each literal in each of its disguises, the others as they are."""
    for match in _LITERAL.finditer(body):
        for expression in disguises(match[1], match[2]):
            yield body[: match.start()] + expression + body[match.end() :]


def hidden_together(body: str, turn: int) -> str:
    """All literals, each in the disguise number `turn` of those that it has."""

    def hidden(match: re.Match[str]) -> str:
        found = disguises(match[1], match[2])
        return found[turn % len(found)]

    return _LITERAL.sub(hidden, body)


def disguises(type_: str, text: str) -> list[str]:
    """Expressions with the value of the literal `type_:text`."""
    return _of_float(type_, float(text)) if type_[0] == "f" else _of_integer(type_, int(text))


def _of_float(type_: str, value: float) -> list[str]:
    literal, bits = f"{type_}:{value!r}", type_[1:]
    other = "f64" if type_ == "f32" else "f32"
    found = [
        f"negative({type_}:{-value!r})",
        f"multiply({literal}, {type_}:1.0)",
        f"bitcast.{type_}(bitwise_xor(bitcast.u{bits}({literal}), reverse_bits(u{bits}:0)))",
    ]
    if not np.isfinite(value) or value == round(value):
        found.append(f"rint({literal})")
    with np.errstate(over="ignore"):
        half, single = np.float16(value), np.float32(value)
    if float(half) == value or value != value:
        found.append(f"cast.{type_}(bitcast.f16(reverse_bits(u16:{_reversed(int(half.view(np.uint16)), 16)})))")
    if other == "f64" or float(single) == value:
        found.append(f"cast.{type_}(negative({other}:{-value!r}))")
    return found


def _of_integer(type_: str, value: int) -> list[str]:
    width = int(type_[1:])
    pattern = f"reverse_bits(u{width}:{_reversed(value & ((1 << width) - 1), width)})"
    found = [pattern if type_[0] == "u" else f"bitcast.{type_}({pattern})"]
    if 0 <= value < 1 << 15:
        found += [f"cast.{type_}(rint(f64:{value}.0))", f"cast.{type_}(add_saturate(i16:{value}, i16:0))"]
    return found


def _reversed(pattern: int, width: int) -> int:
    return int(f"{pattern:0{width}b}"[::-1], 2)
