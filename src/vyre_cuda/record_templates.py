"""The `__init__` of records, by number of fields; `records` fills in the names of the fields.

A setter is that of a slot, which is faster than `object.__setattr__` and works on frozen classes too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Setter: TypeAlias = Callable[[Any, Any], None]


def _init0() -> Any:
    def init(self: Any) -> None:
        pass

    return init


def _init1(s0: Setter) -> Any:
    def init(self: Any, a: Any) -> None:
        s0(self, a)

    return init


def _init2(s0: Setter, s1: Setter) -> Any:
    def init(self: Any, a: Any, b: Any) -> None:
        s0(self, a)
        s1(self, b)

    return init


def _init3(s0: Setter, s1: Setter, s2: Setter) -> Any:
    def init(self: Any, a: Any, b: Any, c: Any) -> None:
        s0(self, a)
        s1(self, b)
        s2(self, c)

    return init


def _init4(s0: Setter, s1: Setter, s2: Setter, s3: Setter) -> Any:
    def init(self: Any, a: Any, b: Any, c: Any, d: Any) -> None:
        s0(self, a)
        s1(self, b)
        s2(self, c)
        s3(self, d)

    return init


def _init5(s0: Setter, s1: Setter, s2: Setter, s3: Setter, s4: Setter) -> Any:
    def init(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> None:
        s0(self, a)
        s1(self, b)
        s2(self, c)
        s3(self, d)
        s4(self, e)

    return init


def _init6(s0: Setter, s1: Setter, s2: Setter, s3: Setter, s4: Setter, s5: Setter) -> Any:
    def init(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> None:
        s0(self, a)
        s1(self, b)
        s2(self, c)
        s3(self, d)
        s4(self, e)
        s5(self, f)

    return init


def _init7(s0: Setter, s1: Setter, s2: Setter, s3: Setter, s4: Setter, s5: Setter, s6: Setter) -> Any:
    def init(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> None:
        s0(self, a)
        s1(self, b)
        s2(self, c)
        s3(self, d)
        s4(self, e)
        s5(self, f)
        s6(self, g)

    return init


def _init8(s0: Setter, s1: Setter, s2: Setter, s3: Setter, s4: Setter, s5: Setter, s6: Setter, s7: Setter) -> Any:
    def init(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> None:
        s0(self, a)
        s1(self, b)
        s2(self, c)
        s3(self, d)
        s4(self, e)
        s5(self, f)
        s6(self, g)
        s7(self, h)

    return init


def _init9(
    s0: Setter, s1: Setter, s2: Setter, s3: Setter, s4: Setter, s5: Setter, s6: Setter, s7: Setter, s8: Setter
) -> Any:
    def init(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any) -> None:
        s0(self, a)
        s1(self, b)
        s2(self, c)
        s3(self, d)
        s4(self, e)
        s5(self, f)
        s6(self, g)
        s7(self, h)
        s8(self, i)

    return init


INITIALIZERS: tuple[Callable[..., Any], ...] = (
    _init0,
    _init1,
    _init2,
    _init3,
    _init4,
    _init5,
    _init6,
    _init7,
    _init8,
    _init9,
)


def initializer(
    of: str, names: tuple[str, ...], defaults: tuple[Any, ...], setters: tuple[Setter, ...]
) -> Callable[..., None]:
    """The same for any number of fields; the last ones have the defaults."""
    count = len(names)
    required = count - len(defaults)
    default_of = dict(zip(names[required:], defaults, strict=True))

    def arranged(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if len(args) > count:
            raise TypeError(f"{of}.__init__() takes {count} argument{'s' * (count != 1)}, {len(args)} given")
        given = dict(zip(names, args, strict=False))
        for name in kwargs:
            if name in given:
                raise TypeError(f"{of}.__init__() got multiple values for argument {name!r}")
            if name not in names:
                raise TypeError(f"{of}.__init__() got an unexpected keyword argument {name!r}")
        known = default_of | given | kwargs
        missing = [name for name in names if name not in known]
        if missing:
            raise TypeError(f"{of}.__init__() is missing {', '.join(missing)}")
        return [known[name] for name in names]

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        values = args if not kwargs and len(args) == count else arranged(args, kwargs)
        for setter, value in zip(setters, values, strict=True):
            setter(self, value)

    return init


def completed(plain: Callable[..., None], left: tuple[tuple[str, Setter, Any], ...], missing: object) -> Any:
    """`plain`, followed by each field of `left` that has no value yet: (name, setter, arguments of `field()`)."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        for name, setter, found in left:
            if not found.init or getattr(self, name) is missing:
                setter(self, found.default if found.default_factory is missing else found.default_factory())

    return init
