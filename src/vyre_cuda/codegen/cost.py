"""The cost of a form of a mathematical function: its instructions, counted in the text of a kernel.

Instructions of PTX, not of the machine: a division or a square root is one here, but about ten there.
"""

from __future__ import annotations

import re

from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.functions import table
from vyre_cuda.functions.forms import Form
from vyre_cuda.ir.core.nodes import Apply, Const, Parameter, Scalar, Store
from vyre_cuda.ir.core.ops import FUNCTIONS
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, u32
from vyre_cuda.records import FrozenRecord

_TARGET = Target.parse("sm_90")
# The rest of a kernel besides the function: loading scalars and the address, storing the result.
_AROUND = ("ld.param.", "cvta.", "st.global.", "ret;", ".", "//")
_BRANCH = re.compile(r"bra (\$L\d+);")


class Cost(FrozenRecord):
    """Instructions on the path that nearly all threads take, and those that branches skip there."""

    usual: int
    rare: int


def cost(function: str, type_: Type, form: Form) -> Cost:
    """The instructions of a form for f32 or f64, between the flushes that a precision may add."""
    names = [f"x{number}" for number in range(FUNCTIONS[function].arity)]
    value = Apply(type_, function, tuple(Scalar(type_, name) for name in names))
    program = Program(
        "cost",
        (*(Parameter(name, "scalar", type_) for name in names), Parameter("out", "out", type_, Const(u32, 1))),
        (Store("out", Const(u32, 0), value),),
    )
    exact = form is table.exact_form(function, type_.name)
    precision = "ftz" if form.flushes else "ieee"
    text = lower(program, _TARGET, precision=precision, max_ulp=None if exact else form.ulp).ptx
    return _count(text[text.index("{") :].splitlines())


def _count(lines: list[str]) -> Cost:
    usual = rare = 0
    skipped: list[str] = []
    for line in lines:
        word = line.strip()
        if word.endswith(":"):
            if skipped and word[:-1] == skipped[-1]:
                skipped.pop()
        elif word not in ("{", "}") and not word.startswith(_AROUND):
            usual, rare = (usual, rare + 1) if skipped else (usual + 1, rare)
            branch = _BRANCH.search(word)
            if branch is not None:
                skipped.append(branch[1])
    return Cost(usual, rare)
