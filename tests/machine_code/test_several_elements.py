"""What ptxas makes of several elements a thread gives what the interpreter gives for one element a thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from comparison import ARCHITECTURE, is_same, joined, run_kernel
from disassembly import compile_kernels, has_tools
from machine import NotExecuted

import vyre_cuda as vc
from vyre_cuda.ir.core.ops import FUNCTIONS, OPS, Op
from vyre_cuda.ir.core.types import Type, bool_
from vyre_cuda.passes.elements import ELEMENTS, count_of, several, why_apart, why_one
from vyre_cuda.records import replace
from vyre_cuda.testing.edges import EDGES, from_bits
from vyre_cuda.testing.expressions import apply_safely

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not has_tools(), reason="no ptxas or no nvdisasm")]

BLOCK = 4


def program(op: Op, type_: Type, *, alone: bool = False) -> vc.Program:
    """The op on elements of each input, behind a guard and inside a branch; `alone`: of the thread's own alone."""
    b = vc.Builder(f"use_{op.name}_{type_.name}", block=BLOCK)
    operands = (bool_, type_, type_) if op.leading_bool else (type_,) * op.arity
    inputs = [b.input(f"x{number}", t) for number, t in enumerate(operands)]
    result = bool_ if op.result == "bool" else type_
    out = b.output("out", result, size=inputs[0].size)
    last = b.output("last", result, size=inputs[0].size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        value = b.let("value", apply_safely(op.name, result, [x[i] for x in inputs]))
        out[i] = value
        with b.if_(i % 3 == 0 if alone else inputs[0][i] == inputs[0][0]):
            last[i] = value
    return b.build()


# Subroutines and approximations, which the machine does not know.
UNKNOWN = ("divide", "remainder", "fmod", "sqrt", "rsqrt", "reciprocal", "floor_divide", "trunc_divide", *FUNCTIONS)
CASES = [(op, type_) for op in OPS.values() if op.result != "explicit" and op.name not in UNKNOWN for type_ in op.types]


def values(type_: Type, count: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    return from_bits(type_, [int(rng.choice(np.array(EDGES[type_], object))) for _ in range(count)])


def agree(programs: list[vc.Program], *, neighbors: bool) -> int:
    """How many launches were executed, with what the interpreter gives; of one block, whose threads have several."""
    counts = [count_of(p) if neighbors else ELEMENTS for p in programs]
    wide = [
        replace(several(p, count, neighbors=neighbors), work=None) for p, count in zip(programs, counts, strict=True)
    ]
    texts = [vc.ptx(p, ARCHITECTURE) for p in wide]
    assert all((".v4." in text or ".v2." in text) == neighbors for text in texts)
    compiled = compile_kernels(joined(texts), None, None)
    executed = 0
    for p, q, count, text in zip(programs, wide, counts, texts, strict=True):
        rng = np.random.default_rng(len(text))
        group = BLOCK * count
        for size in (1, BLOCK, group - 1, group):
            arguments = [values(x.type, size, rng) for x in p.parameters if x.kind == "in"]
            with np.errstate(all="ignore"):
                wanted = vc.evaluate(p, *arguments)
            try:
                found = run_kernel(compiled[f"k_{q.name}"], text, q, arguments, wanted, threads=BLOCK)
            except NotExecuted:
                continue
            executed += 1
            for name, want, have in zip(("out", "last"), wanted, found, strict=True):
                assert is_same(want, have), (p.name, size, name, want, have)
    return executed


@pytest.mark.thin
@pytest.mark.parametrize("op", sorted({op.name for op, _ in CASES}))
def test_machine_code_of_every_op(op: str) -> None:
    programs = [p for row, type_ in CASES if row.name == op if not why_one(p := program(row, type_))]
    assert not programs or agree(programs, neighbors=False)


@pytest.mark.thin
@pytest.mark.parametrize("op", sorted({op.name for op, _ in CASES}))
def test_machine_code_of_neighbors(op: str) -> None:
    made = [program(row, type_, alone=True) for row, type_ in CASES if row.name == op]
    programs = [p for p in made if not why_one(p) and not why_apart(p)]
    assert not programs or agree(programs, neighbors=True)
