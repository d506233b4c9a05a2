"""What parameters of kernel functions are annotated with: `In[type]`, `InOut[type]`, `Out[type]`, a type, `const`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from vyre_cuda.errors import ProgramError
from vyre_cuda.frontend.source import located, text_between
from vyre_cuda.ir.core.types import Type
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord

if TYPE_CHECKING:
    from vyre_cuda.frontend import other_names
else:
    other_names = later("vyre_cuda.frontend.other_names")

BufferKind = Literal["in", "inout", "out"]
MAX_AXES = 4


class BufferAnnotation(FrozenRecord):
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


class AnnotationError(ProgramError, TypeError):
    """An annotation that no parameter can have, with its place."""


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
            likely = [f"vc.{self._name}[{each}]" for each in other_names.type_instead(type_).split(" or ") if each]
            way = f": write {' or '.join(likely)}" if likely else ""
            shown = type_.__name__ if isinstance(type_, type) else repr(type_)
            raise _wrong(f"{shown} where a type such as vc.f32 or a TypeVar is needed{way}")
        ndim = ndim if self._ndim is None else self._ndim
        if isinstance(ndim, str):
            extents = _extents(ndim)
            if not extents:
                raise _wrong(
                    f'{ndim!r}: write a name or a number for each of 1 to {MAX_AXES} axes, such as "rows columns"'
                )
            return BufferAnnotation(self._kind, type_, len(extents), extents)
        if isinstance(ndim, bool) or not isinstance(ndim, int) or not 1 <= ndim <= MAX_AXES:
            raise _wrong(
                f"{ndim!r} axes: a buffer has 1 to {MAX_AXES} axes; write their number, as in "
                f"vc.{self._name}[vc.f32, 2]"
            )
        return BufferAnnotation(self._kind, type_, ndim)

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise _wrong(f"the type goes into brackets: write vc.{self._name}[vc.f32]")

    def __repr__(self) -> str:
        return f"vyre_cuda.{self._name}"


def _extents(text: str) -> tuple[str | int, ...]:
    """The names and numbers of axes; nothing if they are not 1 to 4 of these."""
    words = text.split()
    good = all(word.isidentifier() or (word.isascii() and word.isdigit()) for word in words)
    return tuple([int(word) if word.isdigit() else word for word in words]) if good and len(words) <= MAX_AXES else ()


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


def _wrong(message: str) -> AnnotationError:
    """The error at the brackets, which a line of the user's has: it calls what calls this."""
    frame = sys._getframe(2)
    code, line, column, text = frame.f_code, frame.f_lineno, 0, ""
    if sys.version_info >= (3, 11):
        row, last_row, start, end = list(code.co_positions())[frame.f_lasti // 2]
        if row is not None and last_row is not None and start is not None and end is not None:
            line, column, text = row, start, text_between(code.co_filename, row, start, last_row, end)
    text = text or text_between(code.co_filename, line, 0, line, 1 << 20)
    error = located(message, code.co_filename, line, column + 1, text)
    return AnnotationError(str(error), error.diagnostics)
