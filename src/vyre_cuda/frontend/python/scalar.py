"""A typed number of a kernel that runs as Python.

It is an expression whose value is known: operators and functions give typed numbers again, by the rules and with the
bits that the language defines, and Python may look at it (print, a condition, an index of a list).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vyre_cuda.ir.builder.scopes import Scope
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.nodes import Const, Source
from vyre_cuda.ir.core.scalars import value_of
from vyre_cuda.ir.core.types import Type, bool_
from vyre_cuda.ir.semantics.elementwise import Array


class Scalar(Value):
    """One value of one type, as a thread sees it."""

    __slots__ = ()

    _node: Const

    @classmethod
    def of(cls, scope: Scope, type_: Type, array: Array, source: Source) -> Scalar:
        """The element of an array of one, which has the type's `storage` dtype."""
        return cls(Const(type_, int(array.view(type_.unsigned)[0]), source), source, scope)

    @property
    def number(self) -> bool | int | float:
        """The value as a Python number."""
        return value_of(self._node.type, self._node.bits)

    def numpy(self) -> np.generic[Any]:
        """The value as a NumPy scalar of `dtype`."""
        scalar: np.generic[Any] = np.array([self._node.bits], self.type.unsigned).view(self.dtype)[0]
        return scalar

    def __bool__(self) -> bool:
        if self.type is not bool_:
            raise TypeError(f"{self!r} has no truth value: write a comparison, such as x != 0")
        return bool(self._node.bits)

    def __index__(self) -> int:
        if not self.type.is_integer:
            raise TypeError(f"{self!r} is not an integer (write vc.i32(...))")
        return int(self.number)

    def __int__(self) -> int:
        return int(self.number)

    def __float__(self) -> float:
        return float(self.number)

    def __str__(self) -> str:
        return str(self.numpy() if self.type.name != "bf16" else np.float32(self.number))

    def __repr__(self) -> str:
        return f"{self.type}({self})"

    def __format__(self, spec: str) -> str:
        return format(self.number, spec) if spec else str(self)
