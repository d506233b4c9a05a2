"""Products and sums of "fast", which may become one fma: left to the assembler, or made here.

Of a product by two and a sum with the same number the assembler makes one negation or nothing (`x * 2 - x` is `x`),
which is wrong for infinities and for the sign of zeros (docs/compiler-defects.md). So what could be a product by two is
rounded, and where its sum is seen, the fma is made here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vyre_cuda.codegen.ssa.float_rules import total
from vyre_cuda.codegen.ssa.foldable import may_fold

if TYPE_CHECKING:
    from vyre_cuda.codegen.ssa.peephole import Builder

# The bits of 2.0 and -2.0; the row of a product that names its rounding; that of an fma.
_TWOS = {"f32": (0x40000000, 0xC0000000), "f64": (0x4000000000000000, 0xC000000000000000)}
_ROUNDED = {"f32": "multiply.ftz", "f64": "multiply"}
_FMA = {"f32": "fma.ftz", "f64": "fma"}


def _could_be_two(b: Builder, type_: str, value: int) -> bool:
    if b.is_constant(value):
        return b.function.attrs[value] in _TWOS[type_]
    return may_fold(b.function, value)


def product(b: Builder, type_: str, left: int, right: int) -> int | None:
    """The form that names its rounding, also where both could be folded: infinity times a subnormal is not flushed."""
    both = may_fold(b.function, left) and may_fold(b.function, right)
    if both or _could_be_two(b, type_, left) or _could_be_two(b, type_, right):
        return b.apply(_ROUNDED[type_], left, right)
    return None


def sum_of(op: str) -> Callable[[Builder, str, int, int], int | None]:
    """Of "add" or "subtract"."""
    folded = total(".fast", subtract=op == "subtract")

    def rule(b: Builder, type_: str, left: int, right: int) -> int | None:
        found = folded(b, type_, left, right)
        if found is not None:
            return found
        if _is_rounded_product(b, type_, left):
            other = b.apply("negative", right) if op == "subtract" else right
            return b.emit(_FMA[type_], type_, (*b.function.args[left], other))
        if _is_rounded_product(b, type_, right):
            first, second = b.function.args[right]  # of which a constant is the second
            second = b.apply("negative", second) if op == "subtract" else second
            return b.emit(_FMA[type_], type_, (first, second, left))
        return None

    return rule


def _is_rounded_product(b: Builder, type_: str, value: int) -> bool:
    function = b.function
    return function.ops[value] == _ROUNDED[type_] and any(_could_be_two(b, type_, arg) for arg in function.args[value])


RULES: dict[str, Callable[..., int | None]] = {
    "multiply.fast": product,
    "add.fast": sum_of("add"),
    "subtract.fast": sum_of("subtract"),
}
