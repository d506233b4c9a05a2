"""What straight-line integer PTX gives, by Python's exact integers: a second opinion that shares nothing else.

Registers hold the words of their types; a line with anything else raises Unanswered.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from silicon_questions import Question

_LINE = re.compile(r"(?P<name>[\w.]+) (?P<operands>[^;]+);")
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": int.__eq__,
    "ne": int.__ne__,
    "lt": int.__lt__,
    "le": int.__le__,
    "gt": int.__gt__,
    "ge": int.__ge__,
}


class Unanswered(Exception):
    """An instruction that is not of integers."""


def _low(bits: int, value: int) -> int:
    return value & ((1 << bits) - 1)


def _typed(type_: str, word: int) -> int:
    bits = int(type_[1:])
    word = _low(bits, word)
    return word - (1 << bits) if type_[0] == "s" and word >> (bits - 1) else word


def _clamped(type_: str, value: int) -> int:
    half = 1 << (int(type_[1:]) - 1)
    return min(max(value, -half), half - 1)


_BINARY: dict[str, Callable[[str, int, int], int]] = {
    "add": lambda t, a, b: a + b,
    "sub": lambda t, a, b: a - b,
    "add.sat": lambda t, a, b: _clamped(t, a + b),
    "sub.sat": lambda t, a, b: _clamped(t, a - b),
    "mul.lo": lambda t, a, b: a * b,
    "mul.hi": lambda t, a, b: a * b >> int(t[1:]),
    "mul.wide": lambda t, a, b: a * b,
    "min": lambda t, a, b: min(a, b),
    "max": lambda t, a, b: max(a, b),
    "and": lambda t, a, b: a & b,
    "or": lambda t, a, b: a | b,
    "xor": lambda t, a, b: a ^ b,
    "shl": lambda t, a, b: a << min(_low(32, b), int(t[1:])),
    "shr": lambda t, a, b: a >> min(_low(32, b), int(t[1:])),
}
_UNARY: dict[str, Callable[[str, int], int]] = {
    "neg": lambda t, a: -a,
    "not": lambda t, a: ~a,
    "abs": lambda t, a: abs(a),
    "mov": lambda t, a: a,
    "popc": lambda t, a: a.bit_count(),
    "clz": lambda t, a: int(t[1:]) - a.bit_length(),
    "brev": lambda t, a: int(f"{a:0{int(t[1:])}b}"[::-1], 2),
}
_TERNARY: dict[str, Callable[[str, int, int, int], int]] = {
    "mad.lo": lambda t, a, b, c: a * b + c,
    "mad.hi": lambda t, a, b, c: (a * b >> int(t[1:])) + c,
}


def _apply(name: str, words: list[int]) -> int:
    head, _, type_ = name.rpartition(".")
    if type_ == "pred" or type_[0] not in "usb":
        raise Unanswered(name)
    if head == "selp":
        return words[0] if words[2] else words[1]
    if head.startswith("setp.") and head[5:] in _COMPARISONS:
        return int(_COMPARISONS[head[5:]](_typed(type_, words[0]), _typed(type_, words[1])))
    if head.startswith("cvt.") and re.fullmatch(r"cvt\.[us]\d+", head):
        return _typed(head[4:], _typed(type_, words[0]))
    values = [_typed(type_, word) for word in words]
    if head in _UNARY:
        return _UNARY[head](type_, values[0])
    if head in ("shl", "shr"):
        return _BINARY[head](type_, values[0], words[1])
    if head in _BINARY:
        return _BINARY[head](type_, values[0], values[1])
    if head in _TERNARY:
        return _TERNARY[head](type_, values[0], values[1], _typed(type_, words[2]))
    raise Unanswered(name)


def results(question: Question, lane: int) -> list[int]:
    """The words of the results in one lane. Raises Unanswered where floats or control flow take part."""
    registers = {"%p": lane & 1} | {name: words[lane] for name, _, words in question.inputs}
    types = dict(question.registers)
    for line in question.lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise Unanswered(line)
        target, *operands = match["operands"].split(", ")
        if any(text[0] not in "%-0123456789" or text.startswith(("0f", "0d")) for text in operands):
            raise Unanswered(line)
        words = [registers[text] if text[0] == "%" else int(text) for text in operands]
        type_ = types[target]
        if type_[0] in "fh":
            raise Unanswered(line)
        registers[target] = _low(1 if type_ == "p" else max(16, int(type_[1:])), _apply(match["name"], words))
    return [registers[name] for name, _ in question.results]
