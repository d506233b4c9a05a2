"""What a function takes from around it: globals, closures, attributes of modules, and those of functions it calls.

A program is built from their values; a call compares them with those of its program, because they may change.
"""

from __future__ import annotations

import os
import site
from collections.abc import Iterator
from enum import Enum
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

import numpy as np

from vyre_cuda.ir.core.types import Type
from vyre_cuda.records import dataclass

# `sysconfig` knows these folders too, but takes a millisecond to load.
_LIBRARIES = tuple(os.path.join(path, "") for path in (os.path.dirname(os.__file__), *site.getsitepackages()))
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))
_FIXED = (Type, type, FunctionType, BuiltinFunctionType, ModuleType, TypeVar, np.ufunc, Enum)


class Missing:
    """The value of a name that does not exist."""


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """A name in a namespace, or a cell of a closure."""

    container: dict[str, Any] | CellType
    name: str

    def value(self) -> Any:
        if isinstance(self.container, CellType):
            try:
                return self.container.cell_contents
            except ValueError:
                return Missing
        return self.container.get(self.name, Missing)


class Same:
    """Equal to itself alone: the key of a value that is compared by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def key_of(value: Any) -> Any:
    """A key that is equal for the same value of the same type: 1, True and 1.0 differ, 0.0 and -0.0 too."""
    if isinstance(value, np.generic):
        return type(value), value.tobytes()
    if type(value) is float:
        return float, value.hex()
    if type(value) is complex:
        return complex, value.real.hex(), value.imag.hex()
    if isinstance(value, tuple):
        return type(value), tuple(map(key_of, value))
    return (type(value), value) if type(value) in _PLAIN else Same(value)


def constant_key(value: Any) -> Any:
    """The key of a `vc.const`. TypeError if it cannot be one."""
    key = key_of(value)
    if not isinstance(key, Same) or isinstance(value, (FunctionType, ModuleType, type)):
        return key
    hash(value)
    return type(value), value


def is_fixed(value: Any) -> bool:
    """Whether it cannot change without another value in its place."""
    return isinstance(value, (*_PLAIN, *_FIXED)) or (
        isinstance(value, (tuple, frozenset)) and all(map(is_fixed, value))
    )


def captures_of(functions: Iterator[FunctionType]) -> tuple[Capture, ...]:
    """What the functions, and those that they name, take from around them."""
    found: dict[tuple[int, str], Capture] = {}
    todo, seen = list(functions), set()
    while todo:
        function = todo.pop()
        if id(function) in seen or function.__code__.co_filename.startswith(_LIBRARIES):
            continue
        seen.add(id(function))
        for capture in _names_of(function):
            key = (id(capture.container), capture.name)
            if key in found:
                continue
            found[key] = capture
            todo.extend(functions_in(capture.value()))
    return tuple(found.values())


def functions_in(value: Any) -> Iterator[FunctionType]:
    """The plain functions that a value stands for."""
    inner = (
        getattr(value, "__wrapped__", None) if getattr(type(value), "__module__", "").startswith("vyre_cuda") else None
    )
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(inner, FunctionType):
        yield inner
    elif isinstance(value, tuple):
        for element in value:
            yield from functions_in(element)


def _names_of(function: FunctionType) -> Iterator[Capture]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield from _with_attributes(Capture(cell, name), code)
    for name in _global_names(code):
        if name in function.__globals__:
            yield from _with_attributes(Capture(function.__globals__, name), code)


def _with_attributes(capture: Capture, code: CodeType) -> Iterator[Capture]:
    """The name and, if it is a module, those of its attributes that the code may read; this package does not change."""
    value = capture.value()
    if not isinstance(value, ModuleType):
        yield capture
        return
    if value.__name__.partition(".")[0] == "vyre_cuda":
        return
    yield capture
    for name in _global_names(code):
        if name in vars(value):
            yield from _with_attributes(Capture(vars(value), name), code)


def _global_names(code: CodeType) -> set[str]:
    """The names that the code and what is nested in it look up, as globals or as attributes."""
    names = set(code.co_names)
    for nested in code.co_consts:
        if isinstance(nested, CodeType):
            names |= _global_names(nested)
    return names
