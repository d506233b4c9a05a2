"""Arithmetic of f16 and bf16: what is computed is what the op means, for all values of one operand.

What it means is compared with exact rational arithmetic, and its steps are computed as the PTX ISA defines them.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.unit.float_rules import exact
from tests.unit.float_rules.values import Array, value_of
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lowering import halves, legalize
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.types import Type, bf16, f16
from vyre_cuda.ir.semantics import elementwise
from vyre_cuda.testing.edges import EDGES

HALVES = (f16, bf16)
EXACT = {"add": exact.add, "subtract": exact.subtract, "multiply": exact.multiply, "divide": exact.divide}
OPS = (*EXACT, "fma")
# Multiplies out and adds again; rounds a sum that is half way; makes and keeps subnormals.
FACTORS = (0x0001, 0x8003, 0x3C01, 0x3F81, 0xBF80, 0x4248, 0x7BFF, 0x7F7F)
EVERY = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


def meant(op: str, type_: Type, *operands: Array) -> Array:
    """The bits that the op gives by `ir/semantics`."""
    typed = [np.ascontiguousarray(operand).view(type_.storage) for operand in operands]
    with np.errstate(all="ignore"):
        result = elementwise.apply(op, type_, type_, typed)
    return result.astype(np.uint16) if result.dtype == np.bool_ else result.view(np.uint16)


def computed(op: str, type_: Type, sm: str, *operands: Array) -> Array:
    """The bits that the steps of a kernel give."""
    b = Builder(Target.parse(sm))
    words = [b.function.fresh("parameter", "b16", (), place) for place in range(len(operands))]
    values = [halves._unpacked(b, type_, word) for word in words]
    result = halves.packed(b, type_, legalize.apply_op(b, op, type_, type_, values))
    return value_of(b.function, result, dict(zip(words, operands, strict=True)))


def different(type_: Type, one: Array, other: Array) -> Array:
    """Where they are not the same number; any NaN is one."""
    nan = np.uint16(0x7C00 if type_ is f16 else 0x7F80)
    magnitude = np.uint16(0x7FFF)
    both = ((one & magnitude) > nan) & ((other & magnitude) > nan)
    return np.flatnonzero((one != other) & ~both)


@pytest.mark.parametrize("type_", HALVES, ids=str)
@pytest.mark.parametrize("op", OPS)
def test_an_op_means_its_exact_result_rounded_once(op: str, type_: Type) -> None:
    edges = EDGES[type_][:: 1 if op != "fma" else 3]
    rng = np.random.default_rng(7)
    arity = 3 if op == "fma" else 2
    cases = np.array([*product(edges, repeat=arity), *rng.integers(0, 1 << 16, (4000, arity)).tolist()], np.uint16)
    rational = exact.fma if op == "fma" else EXACT[op]

    expected = np.array([rational(type_, *map(int, case)) for case in cases], np.uint16)

    wrong = different(type_, meant(op, type_, *cases.T), expected)
    assert not len(wrong), [hex(int(bits)) for bits in cases[wrong[0]]]


@pytest.mark.thin(7)
@pytest.mark.parametrize("sm", ["sm_75", "sm_90"])
@pytest.mark.parametrize("type_", HALVES, ids=str)
@pytest.mark.parametrize("op", OPS)
def test_all_values_of_one_operand_give_what_is_meant(op: str, type_: Type, sm: str) -> None:
    others = product(FACTORS, EDGES[type_][::4]) if op == "fma" else [(bits,) for bits in EDGES[type_]]
    for other in others:
        fixed = [np.array([bits], np.uint16) for bits in other]
        for place in (0, 2) if op == "fma" else (0, 1):
            operands = [*fixed[:place], EVERY, *fixed[place:]]
            wrong = different(type_, computed(op, type_, sm, *operands), meant(op, type_, *operands))
            assert not len(wrong), (hex(int(wrong[0])), place, [hex(bits) for bits in other])


@pytest.mark.parametrize("sm", ["sm_75", "sm_90"])
def test_a_subtraction_the_wrong_way_round_is_found(sm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    way = legalize._ways(bf16)["subtract"]
    swapped = {**legalize._ways(bf16), "subtract": lambda b, left, right: way(b, right, left)}
    monkeypatch.setattr(legalize, "_ways", lambda type_: swapped)
    legalize._way.cache_clear()
    try:
        with pytest.raises(AssertionError):
            test_all_values_of_one_operand_give_what_is_meant("subtract", bf16, sm)
    finally:
        legalize._way.cache_clear()


@pytest.mark.parametrize("type_", HALVES, ids=str)
def test_an_fma_that_is_rounded_twice_is_found(type_: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(b: Builder, _type: Type, left: int, right: int, addend: int) -> int:
        product_ = halves.rounded(b, type_, b.apply("multiply", left, right))
        return halves.rounded(b, type_, b.apply("add", product_, addend))

    changed = {**legalize._ways(type_), "fma": lambda b, *operands: twice(b, type_, *operands)}
    monkeypatch.setattr(legalize, "_ways", lambda _type: changed)
    legalize._way.cache_clear()
    try:
        with pytest.raises(AssertionError):
            test_all_values_of_one_operand_give_what_is_meant("fma", type_, "sm_90")
    finally:
        legalize._way.cache_clear()
