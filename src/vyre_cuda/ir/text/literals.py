"""Constants and quoted strings as text, and back.

A float is printed with the fewest digits that round-trip; a NaN other than the default one as `bits(0x...)`. Decimal
text is rounded once to the type, to nearest even, however many digits it has.
"""

from __future__ import annotations

import math
import re
import struct
from fractions import Fraction

from vyre_cuda.ir.core.scalars import bits_of, value_of
from vyre_cuda.ir.core.types import Type, bf16

# Bounds the work that one literal can cause; the shortest form of any value is far shorter.
MAX_LITERAL_LENGTH = 128

LITERAL = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|inf)|nan|true|false|bits\(0x[0-9a-fA-F]+\)")
_BF16_OVERFLOW = 2.0**128 - 2.0**119  # from here on, a number rounds to infinity
_ESCAPE = re.compile(r'\\(?:(["\\nrt])|u\{([0-9a-f]{1,6})\}|)')
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
_MUST_ESCAPE = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_SHORT = {value: "\\" + letter for letter, value in _ESCAPED.items()}


def format_literal(type_: Type, bits: int) -> str:
    """The text of a constant without its type, such as `-3`, `1.5`, `nan` or `true`."""
    if type_.is_integer:
        return str(value_of(type_, bits))
    if type_.kind == "bool":
        return "true" if bits else "false"
    value = value_of(type_, bits)
    if math.isnan(value):
        return "nan" if bits == bits_of(type_, math.nan) else f"bits(0x{bits:0{type_.bits // 4}x})"
    if math.isinf(value):
        return str(value)
    return _shortest_bf16(bits, value) if type_ is bf16 else str(type_.storage.type(value))


def _shortest_bf16(bits: int, value: float) -> str:
    """NumPy itself does not print bf16; 4 digits determine its 8 significant bits."""
    texts = (repr(float(f"{value:.{digits}e}")) for digits in range(4))
    return next(text for text in texts if abs(float(text)) < _BF16_OVERFLOW and _parse_float(bf16, text) == bits)


def parse_literal(type_: Type, text: str) -> int:
    """The bit pattern that a text matched by LITERAL stands for.

    Raises ValueError with the message that an error shows.
    """
    if len(text) > MAX_LITERAL_LENGTH:
        raise ValueError(f"the literal has {len(text)} characters; at most {MAX_LITERAL_LENGTH} are allowed")
    if type_.kind == "bool":
        if text not in ("true", "false"):
            raise ValueError(f"{text} is not a {type_} literal; write true or false")
        return int(text == "true")
    try:
        if type_.is_float:
            return _parse_float(type_, text)
        if not text.lstrip("-").isdigit():
            raise ValueError(f"{text} is not a literal of the integer type {type_}")
        return bits_of(type_, int(text))
    except OverflowError as error:
        raise ValueError(str(error)) from None


def format_string(value: str) -> str:
    """A quoted string on one line."""
    return '"' + _MUST_ESCAPE.sub(lambda match: _SHORT.get(match[0]) or f"\\u{{{ord(match[0]):x}}}", value) + '"'


def parse_string(text: str) -> str:
    """The value of a quoted string. Raises ValueError for an unknown escape."""
    return _ESCAPE.sub(_unescape, text[1:-1])


def _unescape(match: re.Match[str]) -> str:
    letter, digits = match.groups()
    if letter:
        return _ESCAPED[letter]
    if digits and int(digits, 16) <= 0x10FFFF:
        return chr(int(digits, 16))
    raise ValueError(r"unknown escape in a string; known escapes are \n \r \t \" \\ \u{hex digits}")


def _parse_float(type_: Type, text: str) -> int:
    if text.startswith("bits("):
        bits = int(text[len("bits(0x") : -1], 16)
        if bits >> type_.bits:
            raise ValueError(f"{text} does not fit in the {type_.bits} bits of {type_}")
        return bits
    if text in ("true", "false"):
        raise ValueError(f"{text} is not a {type_} literal")
    value = float(text)
    if math.isinf(value) and "inf" not in text:
        raise ValueError(f"{text} is beyond the largest finite {type_}")
    if _is_midway(type_, value):
        value = _round_to_odd(value, Fraction(text))
    return bits_of(type_, value)


def _is_midway(type_: Type, value: float) -> bool:
    """Whether `value` may lie midway between two values of a narrower type, so that how it was rounded matters.

    Such a value has at least 28 trailing zero bits, and is in the range where exact fractions are small.
    """
    if type_.bits > 32 or not 2.0**-200 < abs(value) < 2.0**200 or _low_bits(value):
        return False
    try:
        return value_of(type_, bits_of(type_, value)) != value
    except OverflowError:
        return True


def _low_bits(value: float) -> int:
    as_int: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return as_int & ((1 << 28) - 1)


def _round_to_odd(nearest: float, exact: Fraction) -> float:
    """The float64 that rounds to any narrower type as `exact` does: the odd one of the two around it."""
    distance = exact - Fraction(nearest)
    if distance == 0:
        return nearest
    return math.nextafter(nearest, math.inf if distance > 0 else -math.inf)
