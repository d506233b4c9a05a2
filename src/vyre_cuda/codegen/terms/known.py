"""What is known about terms: intervals, and the bits that can be 1.

A class that has an SSA value knows what is known about that, also what was assumed in an open scope; others ask their
operands, a few levels down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_cuda.codegen.forms.isel import MACHINE_TYPE
from vyre_cuda.codegen.ssa.intervals import RULES
from vyre_cuda.codegen.terms.conditions import Interval

if TYPE_CHECKING:
    from vyre_cuda.codegen.terms.terms import Terms

_DEPTH = 3
# Ops whose intervals are those of the machine's op, also for narrow types: a result beyond the type says nothing.
_EXACT = frozenset(
    {
        *("add", "subtract", "multiply", "negative", "absolute", "invert", "left_shift", "right_shift"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "minimum", "maximum", "where"),
    }
)


def interval(terms: Terms, class_: int, depth: int = _DEPTH) -> Interval:
    class_ = terms.find(class_)
    type_ = terms.types[class_]
    full = (type_.minimum, type_.maximum)
    number = terms.integer_of(class_)
    if number is not None:
        return number, number
    value = terms.values[class_]
    if value is not None:
        return terms.interval_of(value)
    if depth == 0:
        return full
    form = terms.best[class_]
    op = terms.ops[form]
    if op in ("remainder", "fmod", "floor_divide", "trunc_divide"):
        return _of_division(terms, op, terms.args[form], depth) or full
    if op not in _EXACT:
        return full
    operands = [interval(terms, arg, depth - 1) if terms.types[arg].is_integer else (0, 1) for arg in terms.args[form]]
    derived = RULES[op](MACHINE_TYPE[type_], tuple(operands))
    return derived if derived is not None and full[0] <= derived[0] and derived[1] <= full[1] else full


def _of_division(terms: Terms, op: str, args: tuple[int, ...], depth: int) -> Interval | None:
    """Of what is not negative; a zero divisor gives 0."""
    (low, high), (least, most) = (interval(terms, arg, depth - 1) for arg in args)
    if low < 0 or least < 0:
        return None
    if op in ("remainder", "fmod"):
        return 0, min(high, max(most - 1, 0))
    return (low // most if least > 0 else 0), high // max(least, 1)


def ones(terms: Terms, class_: int, depth: int = _DEPTH) -> int:
    class_ = terms.find(class_)
    type_ = terms.types[class_]
    number = terms.constant(class_)
    if number is not None:
        return number
    everything = (1 << type_.bits) - 1
    low, high = interval(terms, class_, depth)
    possible = (1 << high.bit_length()) - 1 if low >= 0 else everything
    return possible & _ones_of_forms(terms, class_, depth) if depth else possible


def _ones_of_forms(terms: Terms, class_: int, depth: int) -> int:
    found = -1
    for form in terms.forms[class_]:
        op, args = terms.ops[form], terms.args[form]
        if op == "bitwise_and":
            found &= ones(terms, args[0], depth - 1) & ones(terms, args[1], depth - 1)
        elif op in ("bitwise_or", "bitwise_xor"):
            found &= ones(terms, args[0], depth - 1) | ones(terms, args[1], depth - 1)
        elif op == "left_shift":
            count = terms.constant(args[1])
            if count is not None and count < terms.types[form].bits:
                found &= ones(terms, args[0], depth - 1) << count & ((1 << terms.types[form].bits) - 1)
        elif op == "right_shift" and terms.types[form].kind == "unsigned":
            count = terms.constant(args[1])
            if count is not None:
                found &= ones(terms, args[0], depth - 1) >> min(count, 64)
    return found
