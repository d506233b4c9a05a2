"""The steps of a mathematical function as C, so that all arguments of f32 can be looked at in minutes.

An expression becomes a line with a variable of its own. `-ffp-contract=off` keeps each operation one rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vyre_cuda.functions.forms import Form

C_TYPES = {"f32": "float", "u32": "uint32_t", "s32": "int32_t", "pred": "int"}
HELPERS = """
#include <math.h>
#include <stdint.h>
#include <string.h>
static uint32_t bits_of(float x) { uint32_t y; memcpy(&y, &x, 4); return y; }
static float float_of(uint32_t x) { float y; memcpy(&y, &x, 4); return y; }
"""


class Value:
    """A variable of the C text."""

    def __init__(self, steps: CSteps, name: str, type_: str) -> None:
        self.steps, self.name, self.type = steps, name, type_

    def _with(self, word: str, other: Any, result: str | None = None) -> Value:
        return self.steps.line(result or self.type, f"{self.name} {word} {self.steps.of(other, self.type)}")

    def _from(self, word: str, other: Any) -> Value:
        return self.steps.line(self.type, f"{self.steps.of(other, self.type)} {word} {self.name}")

    def _wrapping(self, word: str, other: Any) -> Value:
        """Signed integers wrap, which C leaves open."""
        if self.type != "s32":
            return self._with(word, other)
        return self.steps.line(
            "s32", f"(int32_t)((uint32_t){self.name} {word} (uint32_t){self.steps.of(other, 's32')})"
        )

    def __add__(self, other: Any) -> Value:
        return self._wrapping("+", other)

    def __radd__(self, other: Any) -> Value:
        return self._from("+", other)

    def __sub__(self, other: Any) -> Value:
        return self._wrapping("-", other)

    def __rsub__(self, other: Any) -> Value:
        return self._from("-", other)

    def __mul__(self, other: Any) -> Value:
        return self._with("*", other)

    def __rmul__(self, other: Any) -> Value:
        return self._from("*", other)

    def __truediv__(self, other: Any) -> Value:
        return self._with("/", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self._from("/", other)

    def __and__(self, other: Any) -> Value:
        return self._with("&", other)

    def __or__(self, other: Any) -> Value:
        return self._with("|", other)

    def __xor__(self, other: Any) -> Value:
        return self._with("^", other)

    def __lshift__(self, count: int) -> Value:
        return self.steps.line(self.type, f"({C_TYPES[self.type]})((uint32_t){self.name} << {count})")

    def __rshift__(self, count: int) -> Value:
        return self.steps.line(self.type, f"{self.name} >> {count}")

    def __invert__(self) -> Value:
        return self.steps.line(self.type, f"!{self.name}" if self.type == "pred" else f"~{self.name}")

    def __neg__(self) -> Value:
        return self.steps.line(self.type, f"-{self.name}")

    def __lt__(self, other: Any) -> Value:
        return self._with("<", other, "pred")

    def __le__(self, other: Any) -> Value:
        return self._with("<=", other, "pred")

    def __gt__(self, other: Any) -> Value:
        return self._with(">", other, "pred")

    def __ge__(self, other: Any) -> Value:
        return self._with(">=", other, "pred")

    def __eq__(self, other: Any) -> Value:  # type: ignore[override]
        return self._with("==", other, "pred")

    def __ne__(self, other: Any) -> Value:  # type: ignore[override]
        return self._with("!=", other, "pred")


class CSteps:
    """`vyre_cuda.functions.steps.Steps` as C: `lines` is the text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def of(self, value: Any, type_: str) -> str:
        if isinstance(value, Value):
            return value.name
        if type_ != "f32":
            return f"({C_TYPES[type_]}){int(value)}"
        return f"float_of({np.float32(value).view(np.uint32)}u)"

    def line(self, type_: str, text: str) -> Value:
        self.count += 1
        self.lines.append(f"{C_TYPES[type_]} v{self.count} = {text};")
        return Value(self, f"v{self.count}", type_)

    def constant(self, type_: str, value: float) -> Value:
        return self.line(type_, self.of(value, type_))

    def fma(self, *values: Any) -> Value:
        return self.line("f32", f"fmaf({', '.join(self.of(value, 'f32') for value in values)})")

    def absolute(self, x: Value) -> Value:
        return self.line("f32", f"fabsf({x.name})")

    def copysign(self, x: Any, y: Value) -> Value:
        return self.line("f32", f"copysignf({self.of(x, 'f32')}, {y.name})")

    def fmin(self, x: Value, y: Any) -> Value:
        return self.line("f32", f"fminf({x.name}, {self.of(y, 'f32')})")

    def fmax(self, x: Value, y: Any) -> Value:
        return self.line("f32", f"fmaxf({x.name}, {self.of(y, 'f32')})")

    def where(self, condition: Value, x: Any, y: Any) -> Value:
        type_ = next(value.type for value in (x, y) if isinstance(value, Value))
        return self.line(type_, f"{condition.name} ? {self.of(x, type_)} : {self.of(y, type_)}")

    def cast(self, x: Value, type_: str) -> Value:
        assert type_ == "f32"
        return self.line("f32", f"(float){x.name}")

    def bits(self, x: Value, type_: str) -> Value:
        word = f"bits_of({x.name})" if x.type == "f32" else x.name
        return self.line(type_, f"float_of({word})" if type_ == "f32" else f"({C_TYPES[type_]}){word}")

    def multiply_high(self, x: Value, y: Any) -> Value:
        assert x.type == "u32"
        return self.line("u32", f"(uint32_t)((uint64_t){x.name} * {self.of(y, 'u32')} >> 32)")

    def count_leading_zeros(self, x: Value) -> Value:
        return self.line("u32", f"{x.name} == 0 ? 32u : (uint32_t)__builtin_clz({x.name})")

    def shift_left(self, x: Value, count: Value) -> Value:
        return self.line("u32", f"{count.name} > 31 ? 0 : {x.name} << {count.name}")

    def shift_right(self, x: Value, count: Value) -> Value:
        return self.line("u32", f"{count.name} > 31 ? 0 : {x.name} >> {count.name}")

    def rare(self, condition: Value, usual: Any, function: Callable[..., Any], *x: Value) -> tuple[Value, ...]:
        results = tuple(self.line(value.type, value.name) for value in usual)
        self.lines.append(f"if ({condition.name}) {{")
        for result, value in zip(results, function(self, *x), strict=True):
            self.lines.append(f"{result.name} = {value.name};")
        self.lines.append("}")
        return results


def function(name: str, form: Form) -> str:
    """`static float NAME(float x)`, which does the steps of a form."""
    steps = CSteps()
    result = form.expand(steps, Value(steps, "x", "f32"))
    body = "\n  ".join([*steps.lines, f"return {result.name};"])
    return f"static float {name}(float x) {{\n  {body}\n}}\n"


__all__ = ["HELPERS", "CSteps", "Value", "function"]
