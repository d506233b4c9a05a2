"""What parameters of kernel functions are annotated with: `In[type]`, `InOut[type]`, `Out[type]`, a type, `const`."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from vyre_cuda.ir.core.types import Type
from vyre_cuda.records import dataclass

BufferKind = Literal["in", "inout", "out"]
MAX_AXES = 4


@dataclass(frozen=True, slots=True)
class BufferAnnotation:
    """`In[vc.f32]`, `In[T, 2]` or `In[T, "rows columns"]`: the kind of a buffer, the type of its elements and its axes.

    `extents` has a name or a number for each axis, or nothing.
    """

    kind: BufferKind
    type: Type | TypeVar
    ndim: int = 1
    extents: tuple[str | int, ...] = ()

    def __repr__(self) -> str:
        name = {"in": "In", "inout": "InOut", "out": "Out"}[self.kind]
        axes = "" if self.ndim == 1 else f", {self.ndim}"
        if self.extents:
            axes = f", {' '.join(map(str, self.extents))!r}"
        return f"{name}[{self.type}{axes}]"


class BufferMarker:
    """`In`, `InOut` or `Out`; `In2[type]` is `In[type, 2]`."""

    __slots__ = ("_kind", "_name", "_ndim")

    def __init__(self, name: str, kind: BufferKind, ndim: int | None = None) -> None:
        self._name = name
        self._kind = kind
        self._ndim = ndim

    def __getitem__(self, given: Any) -> BufferAnnotation:
        type_, ndim = given if isinstance(given, tuple) and len(given) == 2 and self._ndim is None else (given, 1)
        if not isinstance(type_, (Type, TypeVar)):
            raise TypeError(f"{self._name}[{type_!r}]: a type such as vc.f32 or a TypeVar is needed")
        ndim = ndim if self._ndim is None else self._ndim
        if isinstance(ndim, str):
            extents = self._extents(type_, ndim)
            return BufferAnnotation(self._kind, type_, len(extents), extents)
        if isinstance(ndim, bool) or not isinstance(ndim, int) or not 1 <= ndim <= MAX_AXES:
            raise TypeError(f"{self._name}[{type_}, {ndim!r}]: a buffer has 1 to {MAX_AXES} axes")
        return BufferAnnotation(self._kind, type_, ndim)

    def _extents(self, type_: Type | TypeVar, text: str) -> tuple[str | int, ...]:
        words = text.split()
        good = all(word.isidentifier() or (word.isascii() and word.isdigit()) for word in words)
        if not good or not 1 <= len(words) <= MAX_AXES:
            raise TypeError(
                f"{self._name}[{type_}, {text!r}]: write a name or a number for each of 1 to {MAX_AXES} axes, "
                'such as "rows columns"'
            )
        return tuple(int(word) if word.isdigit() else word for word in words)

    def __repr__(self) -> str:
        return f"vyre_cuda.{self._name}"


class Constant:
    """The annotation of a parameter that is part of the program: `vc.const`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "vyre_cuda.const"


In, InOut, Out = BufferMarker("In", "in"), BufferMarker("InOut", "inout"), BufferMarker("Out", "out")
In2, In3, In4 = (BufferMarker(f"In{axes}", "in", axes) for axes in (2, 3, 4))
InOut2, InOut3, InOut4 = (BufferMarker(f"InOut{axes}", "inout", axes) for axes in (2, 3, 4))
Out2, Out3, Out4 = (BufferMarker(f"Out{axes}", "out", axes) for axes in (2, 3, 4))
const = Constant()
