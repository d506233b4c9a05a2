"""What a function takes from around it: globals, closures, attributes of modules, and those of functions it calls.

A program is built from their values; a call compares them with those of its program, because they may change.
"""

from __future__ import annotations

import gc
import os
import site
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import partial
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, TypeVar

import numpy as np

from vyre_cuda.errors import type_name
from vyre_cuda.ir.core.types import Type
from vyre_cuda.records import FrozenRecord

# `sysconfig` knows these folders too, but takes a millisecond to load.
_LIBRARIES = tuple(os.path.join(path, "") for path in (os.path.dirname(os.__file__), *site.getsitepackages()))
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))
_FIXED = (Type, type, FunctionType, BuiltinFunctionType, ModuleType, TypeVar, np.ufunc, Enum)
_CONTAINERS = (list, dict, set, bytearray)
# Methods that make an object, show or copy it.
_NOT_BY_SYNTAX = (
    *("__new__", "__init__", "__post_init__", "__init_subclass__", "__del__", "__repr__", "__str__", "__replace__"),
    *("__setattr__", "__delattr__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: of a class whose attributes can be set
# Containers in containers that are compared by their contents; those further inside, by identity.
_MOST_NESTED = 8


class Missing:
    """The value of a name that does not exist."""


class Capture(FrozenRecord, eq=False):
    """A name in a namespace, a cell of a closure, or an attribute of a function or of an object with slots."""

    container: Any
    name: str

    def value(self) -> Any:
        if isinstance(self.container, CellType):
            try:
                return self.container.cell_contents
            except ValueError:
                return Missing
        if isinstance(self.container, dict):
            return self.container.get(self.name, Missing)
        try:
            return object.__getattribute__(self.container, self.name)
        except AttributeError:
            return Missing

    def row(self, absent: object) -> tuple[Any, str, Any]:
        """What a remembered call compares by identity: namespace or cell, name and value. A value that can change
        without being replaced is compared with nothing, so that such calls are not remembered. `absent` stands for the
        value of a name that does not exist."""
        value = self.value()
        if value is Missing:
            return self.container, self.name, absent
        if isinstance(self.container, FunctionType) and self.name == "__kwdefaults__":  # its items have their own rows
            return self.container, self.name, value
        return ({} if _is_changeable(value) else self.container), self.name, value


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


def state_of(value: Any, nested: int = 0) -> Any:
    """The key of a captured value: `key_of`, and for what can change without being replaced, which plain functions may
    use, its contents."""
    if nested > _MOST_NESTED or not (isinstance(value, tuple) or _is_changeable(value)):
        return key_of(value)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, bytearray):
        return bytearray, bytes(value)
    parts = [part for row in value.items() for part in row] if isinstance(value, dict) else list(value)
    keys = [state_of(part, nested + 1) for part in parts]
    return type(value), frozenset(keys) if isinstance(value, set) else tuple(keys)


def _is_changeable(value: Any, nested: int = 0) -> bool:
    if isinstance(value, tuple) and nested <= _MOST_NESTED:
        return any(_is_changeable(part, nested + 1) for part in value)
    return isinstance(value, _CONTAINERS) or (isinstance(value, np.ndarray) and can_be_written(value))


def can_be_written(array: np.ndarray[Any, Any]) -> bool:
    """Whether somebody can write the elements: through the array, or through one whose memory it shows."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return True
        owner = owner.base
    if owner is None:
        return False
    try:
        return not memoryview(owner).readonly
    except TypeError:  # memory of another library
        return True


def constant_key(name: str, value: Any) -> Any:
    """The key of a `vc.const` of that name. TypeError if it cannot be one."""
    try:
        hash(value)
    except TypeError:
        remedy = "pass it as a parameter, vc.In[type]" if isinstance(value, np.ndarray) else "write a tuple"
        raise TypeError(
            f"{name} is {type_name(value)}; a vc.const needs a value that can be hashed: {remedy}"
        ) from None
    return _object_key(value)


def _object_key(value: Any, nested: int = 0) -> Any:
    """`key_of`, and of objects with an equality of their own, what they hold: P(1), P(True) and P(1.0) may be equal."""
    key = key_of(value)
    kind: Any = type(value)
    if not isinstance(key, Same) or kind.__eq__ is object.__eq__ or nested > _MOST_NESTED:
        return key
    if isinstance(value, frozenset):
        return kind, frozenset(_object_key(each, nested + 1) for each in value)
    try:
        hash(value)
    except TypeError:
        return key
    held = tuple((name, _object_key(part, nested + 1)) for name, part in sorted(_contents(value).items()))
    return kind, value, held


def _contents(value: Any) -> dict[str, Any]:
    """The attributes that an object has itself, in its namespace or in slots."""
    found: dict[str, Any] = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        for name, member in vars(base).items():
            if isinstance(member, MemberDescriptorType) and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def is_fixed(value: Any) -> bool:
    """Whether it cannot change without another value in its place."""
    return isinstance(value, (*_PLAIN, *_FIXED)) or (
        isinstance(value, (tuple, frozenset)) and all(map(is_fixed, value))
    )


def captures_of(kernel: FunctionType, others: Iterable[FunctionType] = ()) -> tuple[Capture, ...]:
    """What the kernel and other functions, and those that they name, take from around them; of all but the kernel, the
    code and the defaults too."""
    found: dict[tuple[int, str], Capture] = {}
    todo, seen = [kernel, *others], set()
    while todo:
        function = todo.pop()
        if id(function) in seen or _is_of_a_library(function):
            continue
        seen.add(id(function))
        for capture in _names_of(function, is_kernel=function is kernel):
            key = (id(capture.container), capture.name)
            if key in found:
                continue
            found[key] = capture
            todo.extend(functions_in(capture.value()))
    return tuple(found.values())


def _is_of_a_library(function: FunctionType) -> bool:
    return function.__code__.co_filename.startswith(_LIBRARIES)


def functions_in(value: Any) -> Iterator[FunctionType]:
    """The plain functions that a value stands for."""
    inner = getattr(value, "__wrapped__", None) if _is_ours(value) else None
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(inner, FunctionType):
        yield inner
    elif isinstance(value, (MethodType, staticmethod, classmethod)):
        yield from functions_in(value.__func__)
    elif isinstance(value, property):
        yield from functions_in(value.fget)
    elif isinstance(value, partial):
        yield from functions_in((value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, tuple):
        for element in value:
            yield from functions_in(element)
    elif not isinstance(value, type) and not _is_ours(value):
        yield from _operators(type(value))


def _operators(kind: type) -> Iterator[FunctionType]:
    """The methods that Python's syntax calls, as `__call__`, `__getitem__` and `__mul__`."""
    seen = {*_NOT_BY_SYNTAX}
    for each in kind.__mro__:
        if each.__flags__ & _HEAP_TYPE:
            for name, found in vars(each).items():
                if name.startswith("__") and name not in seen and isinstance(found, FunctionType):
                    seen.add(name)
                    yield found


def _is_ours(value: Any) -> bool:
    module = value.__name__ if isinstance(value, ModuleType) else getattr(type(value), "__module__", "")
    return isinstance(module, str) and module.partition(".")[0] == "vyre_cuda"


def _names_of(function: FunctionType, *, is_kernel: bool) -> Iterator[Capture]:
    code = function.__code__
    names = _global_names(code)
    seen: set[int] = set()
    if not is_kernel:
        yield Capture(function, "__code__")
        yield from _defaults_of(function, names, seen)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield from _with_attributes(Capture(cell, name), names, seen)
    for name in names:
        if name in function.__globals__:
            yield from _with_attributes(Capture(function.__globals__, name), names, seen)


def _defaults_of(function: FunctionType, names: set[str], seen: set[int]) -> Iterator[Capture]:
    if function.__defaults__ is not None:
        yield Capture(function, "__defaults__")
        for value in function.__defaults__:
            yield from _attributes(value, names, seen)
    if function.__kwdefaults__ is not None:
        yield Capture(function, "__kwdefaults__")
        for name in function.__kwdefaults__:
            yield from _with_attributes(Capture(function.__kwdefaults__, name), names, seen)


def _with_attributes(capture: Capture, names: set[str], seen: set[int]) -> Iterator[Capture]:
    """The name, and those attributes of its value that code with these names may read; this package does not change."""
    value = capture.value()
    if not (isinstance(value, ModuleType) and _is_ours(value)):
        yield capture
        yield from _attributes(value, names, seen)


def _attributes(value: Any, names: set[str], seen: set[int]) -> Iterator[Capture]:
    if id(value) in seen or _is_ours(value) or isinstance(value, Enum):
        return
    seen.add(id(value))
    namespaces = list(_namespaces(value))
    if not isinstance(value, (ModuleType, FunctionType)):  # methods read attributes of their own
        found = [row[name] for row in namespaces for name in names if name in row]
        used = [each for part in (value, *found) for each in functions_in(part) if not _is_of_a_library(each)]
        names = names.union(*(_global_names(each.__code__) for each in used))
    for name in names:
        for position, namespace in enumerate(namespaces):
            if name in namespace:  # one set in a namespace before it would hide it
                for each in namespaces[: position + 1]:
                    yield from _with_attributes(Capture(each, name), names, seen)
                if isinstance(namespace[name], MemberDescriptorType) and not isinstance(value, type):
                    yield from _with_attributes(Capture(value, name), names, seen)  # in a slot
                break


def _namespaces(value: Any) -> Iterator[dict[str, Any]]:
    """Where attributes of a value are looked up, one after the other."""
    if not isinstance(value, type):
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            yield own
    if isinstance(value, (ModuleType, FunctionType)):
        return
    for each in value.__mro__ if isinstance(value, type) else type(value).__mro__:
        if each.__flags__ & _HEAP_TYPE:
            yield from gc.get_referents(each.__dict__)[:1]  # what the mappingproxy shows


def _global_names(code: CodeType) -> set[str]:
    """The names that the code and what is nested in it look up, as globals or as attributes."""
    names = set(code.co_names)
    for nested in code.co_consts:
        if isinstance(nested, CodeType):
            names |= _global_names(nested)
    return names
