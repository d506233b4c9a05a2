"""Every op of the table on every type it takes: the device agrees with the interpreter on every bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.ops import OPS, Op
from vyre_cuda.ir.types import NUMBERS, TYPES, Type, bool_
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.edges import EDGES, from_bits

RANDOM = 2000


def cases() -> list[tuple[Op, Type, Type]]:
    """(op, operand type, result type), casts and bitcasts with each of their targets."""
    found = []
    for op in OPS.values():
        for operand in op.types:
            if op.name == "cast":
                targets: tuple[Type, ...] = TYPES
            elif op.name == "bitcast":
                targets = tuple(t for t in NUMBERS if t.bits == operand.bits)
            else:
                targets = (bool_ if op.result == "bool" else operand,)
            found.extend((op, operand, target) for target in targets)
    return found


def program(op: Op, operand: Type, target: Type) -> vc.Program:
    b = vc.Builder(f"use_{op.name}", block=128)
    types = (bool_, operand, operand) if op.leading_bool else (operand,) * op.arity
    inputs = [b.input(f"x{n}", t) for n, t in enumerate(types)]
    out = b.output("out", target, size=inputs[0].size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        values = [x[i] for x in inputs]
        if op.name == "cast":
            out[i] = target(values[0])
        elif op.name == "bitcast":
            out[i] = vc.bitcast(values[0], target)
        else:
            out[i] = getattr(vc, op.name)(*values)
    return b.build()


def operands(op: Op, operand: Type) -> list[np.ndarray]:
    """Every combination of edge values, then random bit patterns; a fixed seed for each op."""
    types = (bool_, operand, operand) if op.leading_bool else (operand,) * op.arity
    edges = [from_bits(t, EDGES[t]) for t in types]
    if len(types) == 3 and not op.leading_bool:
        edges = [e[:24] for e in edges]
    grid = [np.array(column, t.dtype) for column, t in zip(zip(*itertools.product(*edges)), types)]
    rng = np.random.default_rng(op.code * 100 + operand.code)
    filled = []
    for column, type_ in zip(grid, types):
        if type_ is bool_:
            random = rng.integers(0, 2, RANDOM).astype(bool)
        else:
            random = rng.integers(0, 2**type_.bits, RANDOM, dtype=np.uint64).astype(f"u{type_.itemsize}").view(type_.dtype)
        filled.append(np.concatenate([column, random]))
    return filled


@pytest.mark.parametrize(("op", "operand", "target"), cases(), ids=lambda case: getattr(case, "name", str(case)))
def test_op_agrees_with_the_interpreter(device: vc.Device, op: Op, operand: Type, target: Type) -> None:
    use = program(op, operand, target)
    inputs = operands(op, operand)

    assert_same(vc.evaluate(use, *inputs), device.run(use, *inputs))
