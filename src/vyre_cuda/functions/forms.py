"""One way to compute a mathematical function, with its error bound."""

from __future__ import annotations

from collections.abc import Callable

from vyre_cuda.functions.steps import V
from vyre_cuda.records import FrozenRecord


class Form(FrozenRecord):
    """`expand(steps, *operands)` makes the result of one function and type.

    `ulp` bounds the error against the exact value, in units in the last place of the result (below the smallest normal
    number the unit is that of the smallest normal one), for every operand. `flushes`: subnormal operands and results
    count as zeros, so it is only for "ftz" and "fast", and the bound is for normal results. `name` says what it uses:
    "steps", "short steps", or the approximate instruction. `min_sm` is the first target that has it.
    """

    name: str
    expand: Callable[..., V]
    ulp: float
    flushes: bool = False
    min_sm: int = 0


def steps(expand: Callable[..., V], ulp: float) -> Form:
    """The form with exact steps: it gives the same bits everywhere, and can be used in every precision."""
    return Form("steps", expand, ulp)


def short_steps(expand: Callable[..., V], ulp: float) -> Form:
    """A cheaper form with exact steps; it also gives the same bits everywhere and can be used in every precision."""
    return Form("short steps", expand, ulp)


# Function -> its forms for one type: the one with exact steps first, then the others, the cheapest first.
Forms = dict[str, tuple[Form, ...]]
