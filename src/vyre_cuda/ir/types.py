"""The scalar types of the IR: one row each, one to one with NumPy dtypes.

`code` is the byte that stands for the type in wire bytes; codes are never reused. A type is callable
(`vc.f32(x)` casts an expression or makes a constant); `values.py` supplies what a call does, because expressions
are made of nodes and nodes of types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

Kind = Literal["bool", "unsigned", "signed", "float"]


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar type: `name` as in NumPy's short form, `bits` wide (a bool is one byte in memory)."""

    name: str
    kind: Kind
    bits: int
    code: int

    convert: ClassVar[Callable[[Type, Any], Any]]

    def __call__(self, value: Any) -> Any:
        """Cast an expression to this type, or make a constant of it."""
        return Type.convert(self, value)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Type], tuple[str]]:
        """A copied or pickled type is the one row of its name."""
        return by_name, (self.name,)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of an array of this type."""
        return _DTYPES[self.name]

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return max(self.bits // 8, 1)

    @property
    def is_integer(self) -> bool:
        return self.kind in ("unsigned", "signed")

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def minimum(self) -> int:
        """The smallest value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "signed" else 0

    @property
    def maximum(self) -> int:
        """The largest value of an integer type."""
        return (1 << (self.bits - 1)) - 1 if self.kind == "signed" else (1 << self.bits) - 1


def by_name(name: str) -> Type:
    """The type of this name; KeyError when there is none."""
    return BY_NAME[name]


bool_ = Type("bool_", "bool", 1, 1)
u32 = Type("u32", "unsigned", 32, 6)
i32 = Type("i32", "signed", 32, 7)
f32 = Type("f32", "float", 32, 12)

TYPES: tuple[Type, ...] = (bool_, u32, i32, f32)
BY_NAME: dict[str, Type] = {t.name: t for t in TYPES}
BY_CODE: dict[int, Type] = {t.code: t for t in TYPES}
INTEGERS: tuple[Type, ...] = tuple(t for t in TYPES if t.is_integer)
FLOATS: tuple[Type, ...] = tuple(t for t in TYPES if t.is_float)
NUMBERS: tuple[Type, ...] = INTEGERS + FLOATS
INDEX_TYPES: tuple[Type, ...] = (u32,)

_DTYPES: dict[str, np.dtype[Any]] = {
    "bool_": np.dtype(np.bool_),
    "u32": np.dtype(np.uint32),
    "i32": np.dtype(np.int32),
    "f32": np.dtype(np.float32),
}
BY_DTYPE: dict[np.dtype[Any], Type] = {_DTYPES[t.name]: t for t in TYPES}
