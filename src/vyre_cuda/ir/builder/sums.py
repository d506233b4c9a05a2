"""Sums over elements that are known when a program is built."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from vyre_cuda.ir.builder.operators import Operand
from vyre_cuda.ir.builder.scopes import caller, program_error
from vyre_cuda.ir.builder.values import Value, apply


def dot(x: Iterable[Operand], y: Iterable[Operand], start: Operand | None = None, /) -> Value:
    """x[0] * y[0] + x[1] * y[1] + ... of floats, in this order, each product and sum with one rounding (`fma`).

    Parameters
    ----------
    x, y
        As many expressions of one float type, such as `tile[i, :16]`, or numbers, which take their type.
    start
        What the first product is added to. Without it, that product is rounded by itself.

    Returns
    -------
    Value
        An expression of their type.

    Raises
    ------
    ProgramError
        There are not as many of one as of the other, there are none, or an operand has another type.
    """
    left, right = list(x), list(y)
    if len(left) != len(right):
        raise program_error(
            f"dot takes the same number of elements from both: these are {len(left)} and {len(right)}", caller()
        )
    if not left:
        raise program_error("dot takes at least one element from each", caller())
    first = apply("multiply", left[0], right[0]) if start is None else apply("fma", left[0], right[0], start)
    return reduce(lambda total, pair: apply("fma", *pair, total), zip(left[1:], right[1:], strict=True), first)
