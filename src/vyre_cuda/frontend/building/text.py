"""Text with values of the device in it, which print takes: the arguments of print and f-strings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from vyre_cuda.frontend.building.values import current, is_dynamic
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.ids import LaunchId
from vyre_cuda.ir.builder.scopes import caller, program_error
from vyre_cuda.ir.core.printing import escaped
from vyre_cuda.records import FrozenRecord

# A value of an f-string with its conversion (the code of r, s or a; -1: none) and its format.
Shown: TypeAlias = "tuple[Any, int, str]"


class Text(FrozenRecord, eq=False):
    """A format of Builder.print, and the values in it."""

    format: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        raise program_error(
            "an f-string with a value of the device can only be printed: print(...) it, and leave the value out here",
            caller(),
        )

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return str(self)


def as_text(argument: Any) -> Text:
    """An argument of print: what Python knows is printed as Python does."""
    if isinstance(argument, Text):
        return argument
    if is_dynamic(argument):
        return Text("{}", (current(argument),))
    if isinstance(argument, Buffer):
        raise program_error(f"{argument.name} is a buffer: print its elements, as in {argument.name}[i]", caller())
    _require_plain(argument)
    return Text(escaped(str(argument)), ())


def joined(parts: Sequence[str | Shown]) -> str | Text:
    """An f-string: a str where Python knows all of its values."""
    texts = [Text(escaped(part), ()) if isinstance(part, str) else _shown(*part) for part in parts]
    if any(text.values for text in texts):
        return Text("".join(text.format for text in texts), tuple(value for text in texts for value in text.values))
    return "".join(part if isinstance(part, str) else _python(*part) for part in parts)


def require_known(*values: Any) -> None:
    """ProgramError for a value of the device, which text of Python cannot hold."""
    for value in values:
        if is_dynamic(value) or isinstance(value, (Buffer, Text)):
            raise program_error(
                "a value of the device in a Python string, which is made when the kernel is built: write an f-string, "
                'as in print(f"x is {x}")',
                caller(),
            )


def formatter(text: str) -> Callable[..., str]:
    """`text.format`, for what Python knows."""

    def called(*values: Any, **named: Any) -> str:
        require_known(*values, *named.values())
        return text.format(*values, **named)

    return called


def _shown(value: Any, conversion: int, spec: str) -> Text:
    if not is_dynamic(value) and not isinstance(value, (Buffer, Text)):
        return Text(escaped(_python(value, conversion, spec)), ())
    if spec or conversion >= 0:
        given = f":{spec}" if spec else f"!{chr(conversion)}"
        raise program_error(
            f"{given} in an f-string with a value of the device: print shows all digits that its type has", caller()
        )
    return as_text(value)


def _python(value: Any, conversion: int, spec: str) -> str:
    _require_plain(value)
    convert = _CONVERSIONS.get(conversion)
    return format(value if convert is None else convert(value), spec)


def _require_plain(value: Any) -> None:
    """ProgramError for what has values of the device in it, of which Python would show no values."""
    if isinstance(value, LaunchId):
        raise program_error("an id has three axes: print one, as in vc.global_id.x", caller())
    if isinstance(value, (dict, tuple, list, set)):
        for each in (*value, *value.values()) if isinstance(value, dict) else value:
            if is_dynamic(each) or isinstance(each, Buffer):
                kind = type(value).__name__.lstrip("_").lower()
                raise program_error(
                    f"a {kind} with values of the device: print them one by one, as in print(a[0], a[1])", caller()
                )
            _require_plain(each)


_CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}
