"""Logic of truth values. What two of them decide is computed from those two, never from one and a value of both.

This is needed for correctness: ptxas makes `a and b` and `a or b` one instruction, and in a third function that takes a
and one of these it forgets b (docs/compiler-defects.md). It sees through integers chosen by truth values and their
comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre_cuda.codegen.ssa.peephole import Builder

# Ops whose value on constants is a constant.
_FOLDED = frozenset(
    {"add", "subtract", "multiply", "negative", "bitwise_and", "bitwise_or", "bitwise_xor", "invert"}
    | {"left_shift", "right_shift", "minimum", "maximum", "retype", "widen", "low"}
)
_CONVERSIONS = frozenset({"retype", "widen", "low"})
_DEPTH = 5

# A function of a and b is a table of four bits; bit a + 2 * b is its value.
_A, _B, _ALWAYS = 0b1010, 0b1100, 0b1111
_TABLES = {"logical_and": _A & _B, "logical_or": _A | _B, "logical_xor": _A ^ _B}


def _positive(b: Builder, value: int) -> tuple[int, int]:
    """The value without negations, and what to invert in its table."""
    turned = 0
    while b.function.ops[value] == "logical_not":
        value, turned = b.function.args[value][0], turned ^ _ALWAYS
    return value, turned


def _of_leaves(b: Builder, value: int, leaves: tuple[int, int]) -> int | None:
    value, turned = _positive(b, value)
    if value not in leaves:
        return None
    return (_A if value == leaves[0] else _B) ^ turned


def _of_pair(b: Builder, value: int, leaves: tuple[int, int]) -> int | None:
    """The table of a value that is one of the leaves or one operation on them."""
    table = _of_leaves(b, value, leaves)
    if table is not None:
        return table
    value, turned = _positive(b, value)
    op = b.function.ops[value]
    if op not in _TABLES:
        return None
    left, right = (_of_leaves(b, arg, leaves) for arg in b.function.args[value])
    return None if left is None or right is None else _combined(op, left, right) ^ turned


def _combined(op: str, left: int, right: int) -> int:
    if op == "logical_xor":
        return left ^ right
    return left & right if op == "logical_and" else left | right


def _pairs(b: Builder, *values: int) -> Iterator[tuple[int, int]]:
    for value in values:
        operation, _ = _positive(b, value)
        if b.function.ops[operation] in _TABLES:
            left, right = (_positive(b, arg)[0] for arg in b.function.args[operation])
            yield left, right


def of_two(b: Builder, op: str, left: int, right: int) -> int | None:
    """The operation where both operands come from the same two truth values, None where they do not."""
    for leaves in _pairs(b, left, right):
        tables = [_of_pair(b, value, leaves) for value in (left, right)]
        if tables[0] is not None and tables[1] is not None:
            return _made(b, _combined(op, tables[0], tables[1]), *leaves)
    return None


def _turned(b: Builder, value: int, turned: bool) -> int:
    return b.apply("logical_not", value) if turned else value


def _made(b: Builder, table: int, first: int, second: int) -> int:
    """The function with the table, as at most one operation on the two or their negations."""
    simple = {0: b.false, _ALWAYS: b.true, _A: first, _B: second}
    for turned in (0, _ALWAYS):
        if table ^ turned in simple:
            return _turned(b, simple[table ^ turned], turned != 0)
    if table.bit_count() == 2:
        return _turned(b, b.apply("logical_xor", first, second), table != _TABLES["logical_xor"])
    is_or = table.bit_count() == 3
    # The position of the one value that differs from the other three.
    place = ((table ^ _ALWAYS) if is_or else table).bit_length() - 1
    if is_or and place == 3:
        return b.apply("logical_not", b.apply("logical_and", first, second))
    if not is_or and place == 0:
        return b.apply("logical_not", b.apply("logical_or", first, second))
    first, second = _turned(b, first, bool(place & 1) == is_or), _turned(b, second, bool(place & 2) == is_or)
    return b.apply("logical_or" if is_or else "logical_and", first, second)


# ---- comparisons of integers ----------------------------------------------------------------------------------------


def compared(b: Builder, op: str, left: int, right: int) -> int | None:
    """The comparison of integers that at most two truth values choose, None for others."""
    leaves: list[int] = []
    if not all(_is_chosen(b, value, leaves, _DEPTH) for value in (left, right)) or not leaves:
        return None
    first, second = leaves[0], leaves[-1]
    table = 0
    for place in range(4):
        truths = {first: bool(place & 1), second: bool(place & (2 if len(leaves) == 2 else 1))}
        answer = b.apply(op, _chosen(b, left, truths), _chosen(b, right, truths))
        if not b.is_constant(answer):
            return None
        table |= (answer == b.true) << place
    return _made(b, table, first, second)


def _is_chosen(b: Builder, value: int, leaves: list[int], depth: int) -> bool:
    """Whether constants and at most two truth values, which are added to the leaves, decide the value."""
    function = b.function
    if b.is_constant(value):
        return True
    op, args = function.ops[value], function.args[value]
    if depth == 0:
        return False
    if op == "where":
        condition, _ = _positive(b, args[0])
        if condition not in leaves:
            leaves.append(condition)
        args = args[1:]
    elif op not in _FOLDED:
        return False
    return len(leaves) <= 2 and all(_is_chosen(b, arg, leaves, depth - 1) for arg in args)


def _chosen(b: Builder, value: int, truths: dict[int, bool]) -> int:
    """The constant that the value is where the leaves have these truths."""
    function = b.function
    op, args = function.ops[value], function.args[value]
    if b.is_constant(value):
        return value
    if op == "where":
        condition, turned = _positive(b, args[0])
        return _chosen(b, args[1] if truths[condition] != (turned != 0) else args[2], truths)
    operands = [_chosen(b, arg, truths) for arg in args]
    if op in _CONVERSIONS:
        return b.convert(op, function.types[value], operands[0])
    return b.apply(op, *operands)
