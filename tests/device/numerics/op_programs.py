"""A program for each op, operand type and result type of the op table, and operands on which ops go wrong."""

from __future__ import annotations

import itertools

import numpy as np

import vyre_cuda as vc
from vyre_cuda.ir.builder.values import apply
from vyre_cuda.ir.core.ops import OPS, Op
from vyre_cuda.ir.core.types import NUMBERS, TYPES, Type, bool_
from vyre_cuda.testing.edges import EDGES, from_bits

RANDOM = 2000
# Ops that only move bits: sign and payload of a NaN that comes from memory stay as they are.
MOVING = ("copysign", "where", "bitcast")


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
        out[i] = _applied(op, target, [x[i] for x in inputs])
    return b.build()


def _applied(op: Op, target: Type, operands: list[vc.Value]) -> vc.Value:
    if op.name == "cast":
        return target(*operands)
    return vc.bitcast(*operands, target) if op.name == "bitcast" else apply(op.name, *operands)


def operands(op: Op, operand: Type) -> list[np.ndarray]:
    """Every combination of edge values, then random bit patterns; a fixed seed for each op.

    Where the operands have 16 bits together, every pattern that there is.
    """
    types = (bool_, operand, operand) if op.leading_bool else (operand,) * op.arity
    if operand.bits * op.arity == 16 and not op.leading_bool:
        patterns = np.arange(1 << 16)
        parts = [patterns] if op.arity == 1 else [patterns >> 8, patterns & 255]
        return [part.astype(operand.unsigned).view(operand.dtype) for part in parts]
    most = 24 if len(types) == 3 and not op.leading_bool else None
    combinations = itertools.product(*(EDGES[t][:most] for t in types))
    grid = [from_bits(t, list(patterns)) for t, patterns in zip(types, zip(*combinations, strict=True), strict=True)]
    rng = np.random.default_rng(op.code * 100 + operand.code)
    filled = []
    for column, type_ in zip(grid, types, strict=True):
        if type_ is bool_:
            random = rng.integers(0, 2, RANDOM).astype(bool)
        else:
            random = rng.integers(0, 2**type_.bits - 1, RANDOM, np.uint64, endpoint=True)
            random = random.astype(type_.unsigned).view(type_.dtype)
        filled.append(np.concatenate([column, random]))
    return filled
