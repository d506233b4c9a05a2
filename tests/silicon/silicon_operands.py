"""Ways of making an operand that a compiler can fold. `other` is the value where %p is false."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from silicon_grid import edges
from silicon_questions import Snippet, is_nan, literal

HALF = ("f16", "h16")
_ONE = {"f16": 0x3C00, "h16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF0000000000000}
_SUFFIX = {"f16": "f16", "h16": "bf16", "f32": "f32", "f64": "f64"}

Maker = Callable[[Snippet, str, int, int], str]


def register(s: Snippet, type_: str, word: int, _: int = 0) -> str:
    """A constant in a register."""
    name = s.register(type_)
    if type_ == "p":
        s.put(f"setp.ne.u32 {name}, {word}, 0;")
    elif type_ in HALF:
        s.put(f"mov.b16 {name}, {word};")
    else:
        s.put(f"mov.{type_} {name}, {literal(type_, word)};")
    return name


def immediate(s: Snippet, type_: str, word: int, _: int = 0) -> str:
    """A literal; PTX has none of 16-bit floats and predicates."""
    return register(s, type_, word) if type_ in (*HALF, "p") else literal(type_, word)


def choice(s: Snippet, type_: str, word: int, other: int) -> str:
    """selp of two constants."""
    name = s.register(type_)
    if type_ == "p":
        chosen = choice(s, "u32", word, other)
        s.put(f"setp.ne.u32 {name}, {chosen}, 0;")
    elif type_ in HALF:
        s.put(f"selp.b16 {name}, {word}, {other}, %p;")
    else:
        s.put(f"selp.{type_} {name}, {literal(type_, word)}, {literal(type_, other)}, %p;")
    return name


def guarded(s: Snippet, type_: str, word: int, other: int) -> str:
    """A mov, and another under the predicate."""
    name = register(s, type_, other)
    before = len(s.lines)
    s.put(f"@%p {s.lines[before - 1]}".replace(*_last_operand(s.lines[before - 1], type_, word)))
    return name


def _last_operand(line: str, type_: str, word: int) -> tuple[str, str]:
    old, new = line, line
    if type_ == "p":
        head, _, _ = line.partition(", ")
        new = f"{head}, {word}, 0;"
    else:
        head, _, _ = line.partition(", ")
        new = f"{head}, {word if type_ in HALF else literal(type_, word)};"
    return old, new


def product(s: Snippet, type_: str, word: int, _: int = 0) -> str:
    """A product of constants that is the value."""
    if type_ == "p" or is_nan(type_, word):  # the ISA leaves open which NaN an instruction gives
        return register(s, type_, word)
    name = s.register(type_)
    if type_[0] in "fh":
        s.target = 90 if type_ == "h16" else s.target
        left, right = register(s, type_, word), immediate(s, type_, _ONE[type_])
        s.put(f"mul.rn.{_SUFFIX[type_]} {name}, {left}, {right};")
        return name
    bits, factor = int(type_[1:]), (3, 5, 0xAB, 0x10001)[word % 4] | 1
    inverse = pow(factor, -1, 1 << bits)
    left = register(s, type_, word * inverse % (1 << bits))
    kind = "u" if type_[0] == "b" else type_[0]
    s.put(f"mul.lo.{kind}{bits} {name}, {left}, {literal(type_, factor)};")
    return name


def total(s: Snippet, type_: str, word: int, _: int = 0) -> str:
    """A sum of constants that is the value."""
    if type_ == "p" or is_nan(type_, word):  # the ISA leaves open which NaN an instruction gives
        return register(s, type_, word)
    name = s.register(type_)
    if type_[0] in "fh":
        zero = 1 << (int(type_[1:]) - 1)
        s.target = 90 if type_ == "h16" else s.target
        left, right = register(s, type_, word), immediate(s, type_, zero)
        s.put(f"add.rn.{_SUFFIX[type_]} {name}, {left}, {right};")
        return name
    bits = int(type_[1:])
    part = (1, (1 << bits) - 1, 1 << (bits - 1), 12345)[word % 4]
    left = register(s, type_, (word - part) % (1 << bits))
    kind = "u" if type_[0] == "b" else type_[0]
    s.put(f"add.{kind}{bits} {name}, {left}, {literal(type_, part)};")
    return name


def bits(s: Snippet, type_: str, word: int, _: int = 0) -> str:
    """The bits of a constant of another kind."""
    if type_ == "p" or type_[1:] == "8":
        return register(s, type_, word)
    width = int(type_[1:])
    name = s.register(type_)
    if width == 16:
        wide = register(s, "u32", word | 0xABCD0000)
        s.put(f"cvt.u16.u32 {name}, {wide};")
    elif type_[0] == "f":
        s.put(f"mov.b{width} {name}, {register(s, f'b{width}', word)};")
    elif width == 64 and word % 2:
        low, high = register(s, "b32", word & 0xFFFFFFFF), register(s, "b32", word >> 32)
        s.put(f"mov.b64 {name}, {{{low}, {high}}};")
    else:
        s.put(f"mov.b{width} {name}, {register(s, f'f{width}', word)};")
    return name


WAYS: dict[str, Maker] = {
    "immediate": immediate,
    "register": register,
    "choice": choice,
    "guarded": guarded,
    "product": product,
    "sum": total,
    "bits": bits,
}


def joined(s: Snippet, types: Sequence[str], first: Sequence[int], second: Sequence[int]) -> list[str]:
    """Constants set on two paths that join."""
    taken, join = s.label(), s.label()
    names = []
    s.put(f"@%p bra {taken};")
    for type_, word in zip(types, second, strict=True):
        names.append(register(s, type_, word))
    middle = len(s.lines)
    sets = s.lines[middle - len(types) : middle]
    s.put(f"bra {join};", f"{taken}:")
    s.put(*(_last_operand(line, t, w)[1] for line, t, w in zip(sets, types, first, strict=True)))
    s.put(f"{join}:")
    return names


# ---- words ---------------------------------------------------------------------------------------------------------


def describe(type_: str, word: int) -> str:
    """What kind of operand a word is, for summaries."""
    if type_ == "p":
        return "true" if word else "false"
    width = int(type_[1:])
    top = 1 << width
    if type_[0] in "fh":
        infinity = {"f16": 0x7C00, "h16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF << 52}[type_]
        least = {"f16": 0x400, "h16": 0x80, "f32": 0x800000, "f64": 1 << 52}[type_]
        size = word & (top // 2 - 1)
        sign = "-" if word >= top // 2 else ""
        kinds = ((size == 0, "0"), (size < least, "subnormal"), (size == infinity, "inf"), (size > infinity, "nan"))
        return sign + next((name for is_, name in kinds if is_), "number")
    named = {0: "0", 1: "1", top - 1: "-1", top // 2: "MIN", top // 2 - 1: "MAX"}
    return named.get(
        word, "<32" if word < 32 else "<64" if word < 64 else "small" if word < 1 << (width // 2) else "large"
    )


@functools.cache
def edge_words(type_: str, finite: bool = False) -> tuple[int, ...]:
    """The short edges of a type, on wish without infinities and NaN."""
    words = [int(word) for word in edges(type_[0], int(type_[1:] or 1) if type_ != "p" else 1)[0]]
    kept = [w for w in words if not finite or describe(type_, w).lstrip("-") not in ("inf", "nan")]
    return tuple(dict.fromkeys(kept))
