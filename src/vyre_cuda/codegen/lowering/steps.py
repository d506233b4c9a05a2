"""The mathematical functions as values of a kernel: each step of `vyre_cuda.functions` becomes its plain instruction.

Steps never flush, contract or approximate, whatever the precision of the program; "ftz" flushes around them. A branch
is made where few threads need what it skips. A function of the same operands is computed once if a dominating one
is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vyre_cuda.codegen.forms.isel import BITS
from vyre_cuda.codegen.lowering import halves
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.errors import UnsupportedError
from vyre_cuda.functions import table
from vyre_cuda.functions.forms import Form
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import BY_NAME, Type, f64

_FLOATS = ("f32", "f64")
_CASTS = {("u32", "u64"): "widen", ("s32", "s64"): "widen", ("u64", "u32"): "low"}
_ONE = 0x3F800000


def lower_function(b: Builder, name: str, type_: Type, *operands: int) -> int:
    """The value of a mathematical function of operands of this type, in the precision of the program.

    UnsupportedError where no form is within `max_ulp`.
    """
    key = (name, type_.name, operands, None)
    found = b.function.find(key)
    if found is None:
        half = type_.bits == 16
        form = _form(b, name, type_)
        plain = half or type_ is f64 or b.precision == "ieee"
        values = operands if plain or form.flushes else tuple(_flushed(b, value) for value in operands)
        found = expanded(b, form, *values)
        if half:
            found = halves.rounded(b, type_, found)
        elif not plain and not form.flushes:
            found = _flushed(b, found)
        b.function.remember(key, found)
    return found


def _form(b: Builder, name: str, type_: Type) -> Form:
    if type_.bits == 16:
        form: Form | None = table.exact_form(name, "f32")
        bound = table.HALF_ULP
        form = None if b.max_ulp is not None and bound > b.max_ulp else form
    else:
        form = table.choose(name, type_.name, precision=b.precision, max_ulp=b.max_ulp, sm=b.target.sm)
        bound = table.exact_form(name, type_.name).ulp
    if form is None:
        raise UnsupportedError(
            f"{name} of {type_} has no form within max_ulp={b.max_ulp}; the most accurate is within {bound:g}",
            capability="max_ulp",
        )
    return form


def expanded(b: Builder, form: Form, *operands: int) -> int:
    """The value of a form for f32 or f64 operands."""
    steps = ValueSteps(b)
    result: Step = form.expand(steps, *[Step(steps, b.in_register(operand)) for operand in operands])
    return result.value


def _flushed(b: Builder, value: int) -> int:
    return b.apply("multiply.ftz", b.in_register(value), b.constant("f32", _ONE))


class Step:
    """A value with the operators of `vyre_cuda.functions.steps`."""

    __slots__ = ("_steps", "value")

    def __init__(self, steps: ValueSteps, value: int) -> None:
        self._steps = steps
        self.value = value

    def __add__(self, other: Any) -> Step:
        return self._steps.apply("add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Step:
        return self._steps.apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Step:
        return self._steps.apply("subtract", other, self)

    def __mul__(self, other: Any) -> Step:
        return self._steps.apply("multiply", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Step:
        return self._steps.apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Step:
        if other == 1:
            return self._steps.apply("reciprocal", self)
        return self._steps.apply("divide", other, self)

    def __neg__(self) -> Step:
        return self._steps.apply("negative", self)

    def __and__(self, other: Any) -> Step:
        return self._steps.apply("logical_and" if self.type == "pred" else "bitwise_and", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Step:
        return self._steps.apply("logical_or" if self.type == "pred" else "bitwise_or", self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Step:
        return self._steps.apply("logical_xor" if self.type == "pred" else "bitwise_xor", self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Step:
        return self._steps.apply("logical_not" if self.type == "pred" else "invert", self)

    def __lshift__(self, count: int) -> Step:
        return self._steps.shift_left(self, self._steps.constant("u32", count))

    def __rshift__(self, count: int) -> Step:
        return self._steps.shift_right(self, self._steps.constant("u32", count))

    def __lt__(self, other: Any) -> Step:
        return self._steps.apply("less", self, other)

    def __le__(self, other: Any) -> Step:
        return self._steps.apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Step:
        return self._steps.apply("less", other, self)

    def __ge__(self, other: Any) -> Step:
        return self._steps.apply("less_equal", other, self)

    def __eq__(self, other: object) -> Step:  # type: ignore[override]
        return self._steps.apply("equal", self, other)

    def __ne__(self, other: object) -> Step:  # type: ignore[override]
        return self._steps.apply("not_equal", self, other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def type(self) -> str:
        return self._steps.type_of(self)


class ValueSteps:
    """`vyre_cuda.functions.steps.DeviceSteps` on values of a kernel."""

    __slots__ = ("_builder",)

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def type_of(self, x: Step) -> str:
        return self._builder.function.types[x.value]

    def apply(self, op: str, *operands: Any) -> Step:
        """The plain instruction on operands of one type, numbers among them."""
        b = self._builder
        type_ = next(self.type_of(x) for x in reversed(operands) if isinstance(x, Step))
        values = [x.value if isinstance(x, Step) else self.constant(type_, x).value for x in operands]
        if len(values) == 1 or type_ in _FLOATS or op in ("left_shift", "right_shift"):
            values[0] = b.in_register(values[0])
        return Step(self, b.apply(op, *values))

    def constant(self, type_: str, value: float) -> Step:
        b = self._builder
        if type_ in _FLOATS:
            return Step(self, b.constant(type_, bits_of(BY_NAME[type_], float(value))))
        return Step(self, b.integer(type_, int(value)))

    def fma(self, x: Any, y: Any, z: Any) -> Step:
        return self.apply("fma", x, y, z)

    def absolute(self, x: Step) -> Step:
        return self.apply("absolute", x)

    def copysign(self, x: Any, y: Any) -> Step:
        return self.apply("copysign", x, y)

    def sqrt(self, x: Step) -> Step:
        return self.apply("sqrt", x)

    def fmin(self, x: Any, y: Any) -> Step:
        return self.apply("fmin", x, y)

    def fmax(self, x: Any, y: Any) -> Step:
        return self.apply("fmax", x, y)

    def rint(self, x: Step) -> Step:
        return self.apply("rint", x)

    def trunc(self, x: Step) -> Step:
        return self.apply("trunc", x)

    def where(self, condition: Step, x: Any, y: Any) -> Step:
        type_ = self.type_of(x if isinstance(x, Step) else y)
        chosen, other = (v.value if isinstance(v, Step) else self.constant(type_, v).value for v in (x, y))
        return Step(self, self._builder.apply("where", condition.value, chosen, other))

    def cast(self, x: Step, type_: str) -> Step:
        source = self.type_of(x)
        op = _CASTS.get((source, type_), f"cast.{type_}")
        return Step(self, self._builder.convert(op, type_, self._builder.in_register(x.value)))

    def bits(self, x: Step, type_: str) -> Step:
        op = "retype" if self.type_of(x)[0] in "us" and type_[0] in "us" else f"bits.{type_}"
        return Step(self, self._builder.convert(op, type_, x.value))

    def multiply_high(self, x: Step, y: Any) -> Step:
        return self.apply("multiply_high", x, y)

    def count_leading_zeros(self, x: Step) -> Step:
        b = self._builder
        counted = b.emit("leading_zeros", "u32", (b.in_register(x.value),))
        return Step(self, counted if BITS[self.type_of(x)] == 32 else b.convert("widen", "u64", counted))

    def shift_left(self, x: Step, count: Step) -> Step:
        return Step(self, self._builder.apply("left_shift", x.value, count.value))

    def shift_right(self, x: Step, count: Step) -> Step:
        return Step(self, self._builder.apply("right_shift", x.value, count.value))

    def approximate(self, op: str, x: Step) -> Step:
        b = self._builder
        return Step(self, b.apply(op, b.in_register(x.value)))

    def rare(
        self, condition: Step, usual: tuple[Step, ...], function: Callable[..., tuple[Step, ...]], *x: Step
    ) -> tuple[Step, ...]:
        """A branch around the function, and registers that hold the result of either path."""
        b = self._builder
        made = b.function
        if b.is_constant(condition.value):
            return function(self, *x) if condition.value == b.true else usual
        registers = [made.register(self.type_of(each)) for each in usual]
        for register, each in zip(registers, usual, strict=True):
            made.effect("set", (each.value,), register)
        done = made.label()
        b.branch(condition.value, False, done)
        b.open_scope()
        for register, each in zip(registers, function(self, *x), strict=True):
            made.effect("set", (each.value,), register)
        b.close_scope()
        made.effect("label", (), (done, False))
        return tuple(Step(self, b.read_register(register)) for register in registers)
