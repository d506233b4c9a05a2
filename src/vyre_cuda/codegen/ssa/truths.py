"""0 or 1 as a float, and its bits as those of a float.

ptxas confuses a choice between 0 and 1, the float that it is converted to, and the float with its bits
(docs/compiler-defects.md), so a conversion is written as a choice of floats, and bits come from something that is not a
choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_cuda.codegen.ssa.float_rules import ONES
from vyre_cuda.codegen.ssa.intervals import FULL

if TYPE_CHECKING:
    from vyre_cuda.codegen.ssa.peephole import Builder

_VALUES = frozenset({"cast.f32", "cast.f64", "chop.f32"})
_BITS = frozenset({"bits.f32", "bits.f64", "short"})
OF_TRUTHS = _VALUES | _BITS


def converted_truth(b: Builder, op: str, type_: str, value: int) -> int | None:
    """The conversion, one of `OF_TRUTHS`, of a value that is 0 or 1; None for other values."""
    source = b.function.types[value]
    low, high = b.facts.range(value) if source in FULL else (0, 2)
    if low < 0 or high > 1 or b.is_constant(value):
        return None
    if op in _VALUES:
        is_one = b.apply("not_equal", value, b.constant(source, 0))
        return b.apply("where", is_one, b.constant(type_, ONES[type_]), b.constant(type_, 0))
    mask = b.apply("negative", value)
    return b.emit(op, type_, (b.apply("bitwise_and", mask, b.constant(source, 1)),))
