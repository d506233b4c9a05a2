"""The precisions: which instruction an op of f32 or f64 becomes, and how far the result may be off.

"ieee" is the plain row of every op. "ftz" flushes subnormal f32 operands and results of arithmetic, comparisons and
conversions to zero of their sign; a result is subnormal when it is so after rounding to 24 bits. Ops that only move
bits (where, bitcast, copysign, sign, signbit, nextafter and the tests for NaN and infinity) keep them. "fast" is "ftz"
in which products and sums may be contracted and the ops of FAST_ULP are approximate. f16 and bf16 are computed in
"ieee" always, also in conversions from and to them; f64 is at most contracted. `max_ulp` bounds the error of every
approximate op instead, in all three. Mathematical functions have a table of their own (`functions/table.py`).
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType

from vyre_cuda.codegen.forms.isel import ROWS

PRECISIONS = ("ieee", "ftz", "fast")
# How the ops of the instruction table end that a precision takes.
_SUFFIXES: dict[str, tuple[str, ...]] = {"ieee": (), "ftz": (".ftz",), "fast": (".ftz", ".fast")}

# Largest error of an approximate f32 op of "fast" in ULP, over all operands whose result is normal (PTX ISA: div.full
# 2 ULP, rcp.approx 1 ULP, sqrt.approx a relative 2^-23).
FAST_ULP = MappingProxyType({"divide": 2, "reciprocal": 1, "sqrt": 2})

Modes = MappingProxyType[tuple[str, str], str]


@cache
def _modes(precision: str) -> Modes:
    """(op, operand type) -> the op of the instruction table, the last suffix that has a row first."""
    found: dict[tuple[str, str], str] = {}
    for suffix in _SUFFIXES[precision]:
        for row in ROWS:
            if row.op.endswith(suffix):
                found.update({(row.op.removesuffix(suffix), type_): row.op for type_ in row.types})
    return MappingProxyType(found)


def modes(precision: str, max_ulp: float | None) -> Modes:
    """The rows of a precision, the ops of FAST_ULP approximate where their bound is at most `max_ulp`."""
    found = _modes(precision)
    if max_ulp is None:
        return found
    changed = dict(found)
    for op, bound in FAST_ULP.items():
        kept = "fast" if precision != "ieee" else "approximate"
        exact = op if precision == "ieee" else f"{op}.ftz"
        changed[op, "f32"] = f"{op}.{kept}" if bound <= max_ulp else exact
    return MappingProxyType(changed)
