"""The language of the mathematical functions: exact steps that every evaluator computes alike, bit for bit.

A function is a sequence of steps on values of machine types (f32 f64 u32 s32 u64 s64 pred). Interpreter and constant
folding compute it with NumPy, the lowering turns it into instructions. Values take the operators + - * / & | ^ << >>
and the comparisons: each is one op of the op table in "ieee", rounded once. An operand may be a Python number, which
takes the type of the other; & | ~ of predicates are logical.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

# What an evaluator computes with: an array, or a value of the kernel being built.
V: TypeAlias = Any


class Steps(Protocol):
    """The steps without an operator."""

    def constant(self, type_: str, value: float) -> V:
        """A number of a machine type; floats are rounded to it."""

    def fma(self, x: V, y: V, z: V) -> V:
        """x * y + z, rounded once; one of the three may be a number."""

    def absolute(self, x: V) -> V:
        """The float without its sign."""

    def copysign(self, x: V, y: V) -> V:
        """The magnitude of x with the sign of y."""

    def sqrt(self, x: V) -> V: ...

    def fmin(self, x: V, y: V) -> V:
        """The lesser; the number for a NaN and a number; not for zeros of both signs."""

    def fmax(self, x: V, y: V) -> V:
        """The greater; the number for a NaN and a number; not for zeros of both signs."""

    def rint(self, x: V) -> V:
        """To a whole number, ties to even."""

    def trunc(self, x: V) -> V: ...

    def where(self, condition: V, x: V, y: V) -> V:
        """x where the condition holds, else y; one of both may be a number."""

    def cast(self, x: V, type_: str) -> V:
        """Float to integer truncates and saturates; integer to float and f64 to f32 round to nearest even."""

    def bits(self, x: V, type_: str) -> V:
        """The same bits as another type of the same width."""

    def multiply_high(self, x: V, y: V) -> V:
        """The upper half of the double-width product of two integers."""

    def count_leading_zeros(self, x: V) -> V:
        """For an unsigned integer, in its type; 0 gives the width."""

    def shift_left(self, x: V, count: V) -> V:
        """x << count, a u32; 0 from the width on."""

    def shift_right(self, x: V, count: V) -> V:
        """x >> count, a u32; 0 or the sign from the width on."""

    def rare(self, condition: V, usual: tuple[V, ...], function: Callable[..., tuple[V, ...]], *x: V) -> tuple[V, ...]:
        """`usual`, but function(steps, *x) where the condition holds: a branch that few threads take.

        The earlier values that the function needs are in `x`.
        """


class DeviceSteps(Steps, Protocol):
    """Steps whose bits only a device knows; forms of "ieee" do not use them."""

    def approximate(self, op: str, x: V) -> V:
        """An approximate instruction of f32, such as "ex2.approx"."""
