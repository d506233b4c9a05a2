"""Dataclasses with slots that are cheap to define: `class Point(FrozenRecord)`, with `field` and `replace`.

The standard library compiles source text for each method, which would be most of a process's start, and creates each
class twice, because a decorator is given a class that exists. Here methods are closures, `__init__` is a copy of a
template with the names of the fields, and the class is created once. It is a plain `type`, so `isinstance` is as fast
as for other classes. Left out are inheritance, `order`, `kw_only` and `__post_init__`. `dataclasses.fields`, `replace`,
`asdict` and `astuple` work: what they read is made by the standard library on first use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from reprlib import recursive_repr
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from vyre_cuda import record_templates

if TYPE_CHECKING:
    from dataclasses import field as field
    from dataclasses import replace as replace

    from typing_extensions import dataclass_transform
else:
    dataclass_transform = lambda **_: lambda made: made  # noqa: E731 - Python 3.10 has none


class _Missing:
    """Marks a missing default."""

    def __repr__(self) -> str:
        return "<factory>"


_MISSING: Final = _Missing()


class _Field:
    """The arguments of `field()`."""

    __slots__ = ("compare", "default", "default_factory", "init", "repr")

    def __init__(self, default: Any, default_factory: Any, init: bool, repr: bool, compare: bool) -> None:
        self.default = default
        self.default_factory = default_factory
        self.init = init
        self.repr = repr
        self.compare = compare

    def options(self) -> dict[str, Any]:
        """The same arguments for the standard library's `field`."""
        given = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in given.items() if value is not _MISSING}


class _Standard:
    """An attribute of records that the standard library makes for a class when it is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        dataclasses = import_module("dataclasses")
        declared, options = owner.__dict__["__record__"]
        body = {name: dataclasses.field(**found.options()) for name, found in declared.items()}
        body |= {"__annotations__": dict(owner.__annotations__), "__module__": owner.__module__}
        shadow = dataclasses.dataclass(**options)(type(owner.__name__, (), body))
        made = getattr(shadow, self._name)
        setattr(owner, self._name, made)
        return made


def _field(
    *,
    default: Any = _MISSING,
    default_factory: Any = _MISSING,
    init: bool = True,
    repr: bool = True,
    compare: bool = True,
) -> Any:
    return _Field(default, default_factory, init, repr, compare)


def _replace(record: Any, /, **changes: Any) -> Any:
    """A copy with these fields changed; ones that `__init__` does not take are initialized again."""
    for name in record.__match_args__:
        if name not in changes:
            changes[name] = getattr(record, name)
    return record.__class__(**changes)


# A field of which nothing is said but its type.
_PLAIN: Final[_Field] = _field()

if not TYPE_CHECKING:
    field, replace = _field, _replace


class _Maker(type):
    """The metaclass of the two classes below; of classes that name one of them as a base it makes plain ones."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], *, eq: bool = True) -> type:
        if not bases:
            return type.__new__(cls, name, bases, body)
        return _made(name, bases[:-1], body, frozen=bases[-1] is FrozenRecord, eq=eq)


@dataclass_transform(field_specifiers=(field,))
class Record(metaclass=_Maker):
    """The last base of a record; with `eq=False` two of them are equal only if they are the same object."""

    if TYPE_CHECKING:

        def __init_subclass__(cls, *, eq: bool = True) -> None: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class FrozenRecord(metaclass=_Maker):
    """The last base of a record whose fields cannot be set."""

    if TYPE_CHECKING:

        def __init_subclass__(cls, *, eq: bool = True) -> None: ...


def _made(name: str, bases: tuple[type, ...], body: dict[str, Any], *, frozen: bool, eq: bool) -> type:
    """The class, with slots and methods."""
    declared = {}
    for field_name, annotation in body.get("__annotations__", {}).items():
        if not str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            default = body.pop(field_name, _MISSING)
            declared[field_name] = _PLAIN if default is _MISSING else _declared(default)
    names = tuple(declared)
    body["__slots__"] = names + tuple(body.get("__slots__", ()))
    body["__match_args__"] = tuple([name for name in names if declared[name].init])
    body["__record__"] = declared, {"frozen": frozen, "eq": eq}
    own: dict[str, Any] = {}
    if eq:
        own = _comparison([name for name in names if declared[name].compare], hashed=frozen)
    made = type(name, (*bases, _Frozen if frozen else _Common), own | body)
    if "__init__" not in body:
        made.__init__ = _initializer(made, declared)  # type: ignore[misc]
    return made


def _declared(default: Any) -> _Field:
    return default if isinstance(default, _Field) else _field(default=default)


# ---- methods --------------------------------------------------------------------------------------------------------


def _initializer(made: type, declared: dict[str, _Field]) -> Callable[..., None]:
    taken = {name: found for name, found in declared.items() if found.init}
    defaults = []
    for name, found in taken.items():
        if found.default is not _MISSING or found.default_factory is not _MISSING:
            defaults.append(found.default)
        elif defaults:
            raise TypeError(f"{made.__qualname__}: {name} without a default follows one that has one")
    setters = tuple(made.__dict__[name].__set__ for name in taken)
    if len(setters) < len(record_templates.INITIALIZERS):
        plain: Callable[..., None] = _named(
            record_templates.INITIALIZERS[len(setters)](*setters), tuple(taken), tuple(defaults), made
        )
    else:
        plain = record_templates.initializer(made.__qualname__, tuple(taken), tuple(defaults), setters)
    left = tuple(
        (name, made.__dict__[name].__set__, found)
        for name, found in declared.items()
        if found.default_factory is not _MISSING or not found.init
    )
    return record_templates.completed(plain, left, _MISSING) if left else plain


def _named(template: FunctionType, names: tuple[str, ...], defaults: tuple[Any, ...], made: type) -> FunctionType:
    """The template with these parameter names, of which the last have defaults."""
    changes: dict[str, Any] = {"co_varnames": ("self", *names), "co_name": "__init__"}
    if sys.version_info >= (3, 11):  # the name that errors show
        changes["co_qualname"] = f"{made.__qualname__}.__init__"
    code = template.__code__.replace(**changes)
    return FunctionType(code, template.__globals__, "__init__", defaults, template.__closure__)


def _comparison(names: list[str], *, hashed: bool) -> dict[str, Any]:
    values: Callable[[Any], Any]
    if len(names) > 1:
        values = attrgetter(*names)
    elif names:
        only = attrgetter(*names)
        values = lambda self: (only(self),)  # noqa: E731 - a def would need the same annotation
    else:
        values = lambda self: ()  # noqa: E731

    def equal(self: Any, other: Any) -> Any:
        if self.__class__ is not other.__class__:
            return NotImplemented
        return values(self) == values(other)

    def hash_(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": hash_ if hashed else None}


@recursive_repr()
def _represent(self: Any) -> str:
    declared = self.__class__.__record__[0]
    shown = ", ".join([f"{name}={getattr(self, name)!r}" for name, found in declared.items() if found.repr])
    return f"{self.__class__.__qualname__}({shown})"


def _refuse_set(self: Any, name: str, value: Any) -> None:
    raise import_module("dataclasses").FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise import_module("dataclasses").FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__slots__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)


# Made once for all classes, so that a class has little of its own.


class _Common:
    __slots__ = ()
    __dataclass_fields__ = _Standard("__dataclass_fields__")
    __dataclass_params__ = _Standard("__dataclass_params__")
    __repr__ = _represent
    __replace__ = _replace


class _Frozen(_Common):
    __slots__ = ()
    __setattr__ = _refuse_set
    __delattr__ = _refuse_delete
    __getstate__ = _state
    __setstate__ = _set_state
