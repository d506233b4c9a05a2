"""Python's operators on expressions of a program: each builds the op with that symbol.

What an operator cannot mean here is refused: a truth value, iteration, a foreign operand. `==` and `!=` build
expressions too, and hashing is by identity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from vyre_cuda.ir.builder.values import Value


class Expression(ABC):
    """Anything that has a value on the device."""

    __slots__ = ()

    __array_ufunc__ = None
    __iter__ = None
    __contains__ = None

    @abstractmethod
    def read(self) -> Value:
        """The value at this point of the program."""

    @abstractmethod
    def _apply(self, symbol: str, *operands: Operand) -> Value:
        """The op that the symbol stands for, by the operands' type ("neg" and "abs" are unary)."""

    def _binary(self, symbol: str, left: Operand, right: Operand) -> Value:
        foreign = right if left is self else left
        if not isinstance(foreign, (Expression, bool, int, float, np.generic)):
            return NotImplemented
        return self._apply(symbol, left, right)

    def _divmod(self, left: Operand, right: Operand) -> tuple[Value, Value]:
        quotient, remainder = self._binary("//", left, right), self._binary("%", left, right)
        return NotImplemented if quotient is NotImplemented else (quotient, remainder)

    def __bool__(self) -> bool:
        raise TypeError(
            "an expression has no truth value in Python, only on the device: branch with b.if_(...), choose with "
            "vc.where(...), combine with & and |, and write 0 <= i < n as (0 <= i) & (i < n)"
        )

    def __hash__(self) -> int:
        return id(self) >> 4

    def __add__(self, other: Operand) -> Value:
        return self._binary("+", self, other)

    def __radd__(self, other: Operand) -> Value:
        return self._binary("+", other, self)

    def __sub__(self, other: Operand) -> Value:
        return self._binary("-", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return self._binary("-", other, self)

    def __mul__(self, other: Operand) -> Value:
        return self._binary("*", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return self._binary("*", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return self._binary("/", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self._binary("/", other, self)

    def __floordiv__(self, other: Operand) -> Value:
        return self._binary("//", self, other)

    def __rfloordiv__(self, other: Operand) -> Value:
        return self._binary("//", other, self)

    def __mod__(self, other: Operand) -> Value:
        return self._binary("%", self, other)

    def __rmod__(self, other: Operand) -> Value:
        return self._binary("%", other, self)

    def __divmod__(self, other: Operand) -> tuple[Value, Value]:
        return self._divmod(self, other)

    def __rdivmod__(self, other: Operand) -> tuple[Value, Value]:
        return self._divmod(other, self)

    def __pow__(self, other: Operand) -> Value:
        return self._binary("**", self, other)

    def __rpow__(self, other: Operand) -> Value:
        return self._binary("**", other, self)

    def __lshift__(self, other: Operand) -> Value:
        return self._binary("<<", self, other)

    def __rlshift__(self, other: Operand) -> Value:
        return self._binary("<<", other, self)

    def __rshift__(self, other: Operand) -> Value:
        return self._binary(">>", self, other)

    def __rrshift__(self, other: Operand) -> Value:
        return self._binary(">>", other, self)

    def __and__(self, other: Operand) -> Value:
        return self._binary("&", self, other)

    def __rand__(self, other: Operand) -> Value:
        return self._binary("&", other, self)

    def __or__(self, other: Operand) -> Value:
        return self._binary("|", self, other)

    def __ror__(self, other: Operand) -> Value:
        return self._binary("|", other, self)

    def __xor__(self, other: Operand) -> Value:
        return self._binary("^", self, other)

    def __rxor__(self, other: Operand) -> Value:
        return self._binary("^", other, self)

    def __lt__(self, other: Operand) -> Value:
        return self._binary("<", self, other)

    def __le__(self, other: Operand) -> Value:
        return self._binary("<=", self, other)

    def __gt__(self, other: Operand) -> Value:
        return self._binary(">", self, other)

    def __ge__(self, other: Operand) -> Value:
        return self._binary(">=", self, other)

    # Python answers == and != of foreign types by identity when both sides pass; that answer would be a silent bool.
    def __eq__(self, other: Operand) -> Value:  # type: ignore[override]
        return self._apply("==", self, other)

    def __ne__(self, other: Operand) -> Value:  # type: ignore[override]
        return self._apply("!=", self, other)

    def __neg__(self) -> Value:
        return self._apply("neg", self)

    def __pos__(self) -> Value:
        return self.read()

    def __abs__(self) -> Value:
        return self._apply("abs", self)

    def __invert__(self) -> Value:
        return self._apply("~", self)


Number: TypeAlias = bool | int | float
Operand: TypeAlias = Expression | Number | np.generic
