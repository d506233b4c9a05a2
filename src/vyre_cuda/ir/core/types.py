"""The thirteen scalar types of the IR: one row each, one to one with NumPy dtypes.

bf16 has ml_dtypes' dtype when that package is installed, else arrays of it are raw u16 bit patterns.

`code` is the byte that stands for the type in wire bytes; codes are never reused. A type is callable
(`vc.f32(x)` casts an expression or makes a constant); `values.py` supplies the behavior of a call, because expressions
are made of nodes and nodes of types.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar, Literal

import numpy as np

from vyre_cuda.records import FrozenRecord

Kind = Literal["bool", "unsigned", "signed", "float"]


class Type(FrozenRecord, eq=False):
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
        """A copied or pickled type is the one row with its name."""
        return by_name, (self.name,)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of an array of this type."""
        return _DTYPES[self.name] if self.name != "bf16" else bfloat16()

    @property
    def storage(self) -> np.dtype[Any]:
        """The dtype that NumPy itself has for the bits: that of the array, except u16 for bf16."""
        return _DTYPES[self.name]

    @property
    def unsigned(self) -> np.dtype[Any]:
        """The unsigned integer dtype of the same width."""
        return np.dtype(f"u{self.itemsize}")

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return max(self.bits // 8, 1)

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer type, which `bool_` is not."""
        return self.kind in ("unsigned", "signed")

    @property
    def is_float(self) -> bool:
        """Whether it is one of f16, bf16, f32 and f64."""
        return self.kind == "float"

    @property
    def value_bits(self) -> int:
        """The bits of an integer type without its sign."""
        return self.bits - (self.kind == "signed")

    @property
    def minimum(self) -> int:
        """The smallest value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "signed" else 0

    @property
    def maximum(self) -> int:
        """The largest value of an integer type."""
        return (1 << (self.bits - 1)) - 1 if self.kind == "signed" else (1 << self.bits) - 1


def by_name(name: str) -> Type:
    """The type with this name; KeyError if there is none."""
    return BY_NAME[name]


bool_ = Type("bool_", "bool", 1, 1)
u8 = Type("u8", "unsigned", 8, 2)
i8 = Type("i8", "signed", 8, 3)
u16 = Type("u16", "unsigned", 16, 4)
i16 = Type("i16", "signed", 16, 5)
u32 = Type("u32", "unsigned", 32, 6)
i32 = Type("i32", "signed", 32, 7)
u64 = Type("u64", "unsigned", 64, 8)
i64 = Type("i64", "signed", 64, 9)
f16 = Type("f16", "float", 16, 10)
bf16 = Type("bf16", "float", 16, 11)
f32 = Type("f32", "float", 32, 12)
f64 = Type("f64", "float", 64, 13)

TYPES: tuple[Type, ...] = (bool_, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64)
BY_NAME: dict[str, Type] = {t.name: t for t in TYPES}
BY_CODE: dict[int, Type] = {t.code: t for t in TYPES}
INTEGERS: tuple[Type, ...] = tuple(t for t in TYPES if t.is_integer)
FLOATS: tuple[Type, ...] = tuple(t for t in TYPES if t.is_float)
NUMBERS: tuple[Type, ...] = INTEGERS + FLOATS
INDEX_TYPES: tuple[Type, ...] = (u32, i32, u64, i64)

_DTYPES: dict[str, np.dtype[Any]] = {
    "bool_": np.dtype(np.bool_),
    "u8": np.dtype(np.uint8),
    "i8": np.dtype(np.int8),
    "u16": np.dtype(np.uint16),
    "i16": np.dtype(np.int16),
    "u32": np.dtype(np.uint32),
    "i32": np.dtype(np.int32),
    "u64": np.dtype(np.uint64),
    "i64": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
_BY_DTYPE: dict[np.dtype[Any], Type] = {_DTYPES[t.name]: t for t in TYPES if t is not bf16}


@lru_cache(maxsize=1)
def bfloat16() -> np.dtype[Any]:
    """ml_dtypes' bfloat16 when that package is installed, else uint16."""
    try:
        ml_dtypes = import_module("ml_dtypes")
    except ModuleNotFoundError:
        return np.dtype(np.uint16)
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


def by_dtype(dtype: np.dtype[Any]) -> Type | None:
    """The type whose arrays have this dtype, None if there is none. uint16 is u16."""
    found = _BY_DTYPE.get(dtype)
    if found is None and dtype.name == "bfloat16" and dtype == bfloat16():
        return bf16
    return found
