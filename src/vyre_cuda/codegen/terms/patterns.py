"""The sides of rewriting rules: expressions over variables, written with Python's operators.

All variables of a rule have its type, and so has a literal; comparisons are bools.
"""

from __future__ import annotations

from vyre_cuda.records import FrozenRecord


class Pattern(FrozenRecord, eq=False):
    """An op of the IR on patterns; `op` is "variable" with a name, or "literal" with a number.

    `==` and `!=` make patterns too, so that patterns are compared by identity alone.
    """

    op: str
    parts: tuple[Pattern, ...] = ()
    name: str = ""
    number: int = 0

    def __add__(self, other: Pattern | int) -> Pattern:
        return apply("add", self, other)

    def __sub__(self, other: Pattern | int) -> Pattern:
        return apply("subtract", self, other)

    def __mul__(self, other: Pattern | int) -> Pattern:
        return apply("multiply", self, other)

    def __truediv__(self, other: Pattern | int) -> Pattern:
        return apply("divide", self, other)

    def __rtruediv__(self, other: int) -> Pattern:
        return apply("divide", other, self)

    def __floordiv__(self, other: Pattern | int) -> Pattern:
        return apply("floor_divide", self, other)

    def __mod__(self, other: Pattern | int) -> Pattern:
        return apply("remainder", self, other)

    def __lshift__(self, other: Pattern | int) -> Pattern:
        return apply("left_shift", self, other)

    def __rshift__(self, other: Pattern | int) -> Pattern:
        return apply("right_shift", self, other)

    def __and__(self, other: Pattern | int) -> Pattern:
        return apply("bitwise_and", self, other)

    def __or__(self, other: Pattern | int) -> Pattern:
        return apply("bitwise_or", self, other)

    def __xor__(self, other: Pattern | int) -> Pattern:
        return apply("bitwise_xor", self, other)

    def __invert__(self) -> Pattern:
        return apply("invert", self)

    def __neg__(self) -> Pattern:
        return apply("negative", self)

    def __eq__(self, other: object) -> Pattern:  # type: ignore[override]
        return apply("equal", self, other)

    def __ne__(self, other: object) -> Pattern:  # type: ignore[override]
        return apply("not_equal", self, other)

    def __lt__(self, other: Pattern | int) -> Pattern:
        return apply("less", self, other)

    def __le__(self, other: Pattern | int) -> Pattern:
        return apply("less_equal", self, other)

    __hash__ = object.__hash__


def apply(op: str, *parts: object) -> Pattern:
    """The pattern of an op; numbers among its parts are literals."""
    return Pattern(op, tuple([part if isinstance(part, Pattern) else literal(part) for part in parts]))


def literal(number: object) -> Pattern:
    """A number of the rule's type; a negative one stands for the bits of its two's complement."""
    if not isinstance(number, int):
        raise TypeError(f"{number!r} in a pattern; only patterns and integers can stand there")
    return Pattern("literal", number=number)


def variable(name: str) -> Pattern:
    """A variable, which stands for any expression of the rule's type; the same name is the same expression."""
    return Pattern("variable", name=name)


def variables(pattern: Pattern) -> tuple[str, ...]:
    """The names of the variables in a pattern, each once, in the order in which they occur."""
    if pattern.op == "variable":
        return (pattern.name,)
    return tuple(dict.fromkeys(name for part in pattern.parts for name in variables(part)))


_SYMBOLS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "floor_divide": "//",
    "remainder": "%",
    "left_shift": "<<",
    "right_shift": ">>",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
}
_PREFIXES = {"invert": "~", "negative": "-"}


def text(pattern: Pattern, *, inner: bool = False) -> str:
    """The pattern as Python would write it."""
    if pattern.op == "variable":
        return pattern.name
    if pattern.op == "literal":
        return str(pattern.number)
    if pattern.op in _PREFIXES:
        return _PREFIXES[pattern.op] + text(pattern.parts[0], inner=True)
    if pattern.op in _SYMBOLS:
        left, right = (text(part, inner=True) for part in pattern.parts)
        joined = f"{left} {_SYMBOLS[pattern.op]} {right}"
        return f"({joined})" if inner else joined
    return f"{pattern.op}({', '.join(map(text, pattern.parts))})"
