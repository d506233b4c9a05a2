"""Ops on constants, computed by the functions that define the ops.

What only the driver's compiler would find to be constant escapes the rules against its defects, so this is done in
every mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import Type, f32
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.codegen.terms.terms import Terms
    from vyre_cuda.ir.semantics import elementwise
else:
    elementwise = later("vyre_cuda.ir.semantics.elementwise")

_LEAST_NORMAL_F32 = 0x00800000
# Ops whose result has exactly the bits of an operand, even of a NaN.
_MOVES = frozenset({"bitcast", "where"})


def folded(terms: Terms, op: str, type_: Type, args: tuple[int, ...]) -> int | None:
    """The constant, None if an operand is none. Where subnormals are flushed, nothing is computed from or to one."""
    ops = terms.ops
    for arg in args:
        if ops[arg] != "const":
            return None
    types, attrs = terms.types, terms.attrs
    flushes = not terms.keeps_subnormals
    if flushes and any(_is_subnormal(types[arg], attrs[arg]) for arg in args):
        return None
    with np.errstate(all="ignore"):
        constants = [elementwise.constant(types[arg], attrs[arg]) for arg in args]
        result = elementwise.apply(op, types[args[-1]], type_, constants)
    bits = int(result.view(type_.unsigned)[0])
    if type_.is_float and op not in _MOVES:
        bits = _one_nan(type_, bits)
    if flushes and _is_subnormal(type_, bits):
        return None
    return terms.literal(type_, bits)


def _is_subnormal(type_: Type, bits: int) -> bool:
    """Also true for the least normal number, which a flushed value may round to."""
    return type_ is f32 and 0 < bits & ~(1 << 31) <= _LEAST_NORMAL_F32


def _one_nan(type_: Type, bits: int) -> int:
    """The same bits for every NaN, because processors make different ones."""
    magnitude = bits & ((1 << (type_.bits - 1)) - 1)
    return bits_of(type_, float("nan")) if magnitude > bits_of(type_, float("inf")) else bits
