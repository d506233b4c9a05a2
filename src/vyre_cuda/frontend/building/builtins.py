"""Python's own functions in kernels: those that mean something else on the device say what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vyre_cuda.errors import type_name
from vyre_cuda.frontend.building.text import as_text
from vyre_cuda.frontend.building.values import is_dynamic
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.scopes import caller, program_error
from vyre_cuda.ir.core.printing import escaped

_NO_TEXT = 'text has no meaning on the device; print shows a value, print(f"x = {x}")'
_INSTEAD: dict[Any, str] = {
    all: "combine conditions with `and`; vc.all asks the whole warp",
    any: "combine conditions with `or`; vc.any asks the whole warp",
    ascii: _NO_TEXT,
    bin: _NO_TEXT,
    bool: "write vc.bool_(x), or compare with 0",
    chr: _NO_TEXT,
    complex: "there are no complex numbers on the device: keep two arrays",
    divmod: "write a // b and a % b",
    enumerate: "write `for i in range(x.size)` and x[i]",
    filter: "write a loop with an `if`",
    format: _NO_TEXT,
    float: "write vc.f32(x) or vc.f64(x)",
    hex: _NO_TEXT,
    hash: "compute one from the bits of the value",
    int: "write vc.i32(x), or another type",
    isinstance: "ask for x.type",
    iter: "write `for i in range(x.size)` and x[i]",
    len: "write x.size",
    list: "write `for i in range(x.size)` and x[i]",
    map: "write a loop",
    max: "write vc.maximum(a, b)",
    min: "write vc.minimum(a, b)",
    oct: _NO_TEXT,
    range: "range(...) of the device belongs into a `for` statement",
    repr: _NO_TEXT,
    reversed: "write `for i in range(n - 1, -1, -1)`",
    round: "write vc.rint(x)",
    set: "sets have no meaning on the device",
    sorted: "sorting has no meaning on the device",
    str: _NO_TEXT,
    sum: "write a loop, or vc.warp_reduce",
    type: "ask for x.type",
    tuple: "write `for i in range(x.size)` and x[i]",
    zip: "write `for i in range(x.size)` and x[i], y[i]",
}
_REFUSED: dict[Any, str] = {
    eval: "eval has no meaning in a kernel",
    exec: "exec has no meaning in a kernel",
    globals: "globals() has no meaning in a kernel: write the name",
    input: "a kernel cannot ask: pass a scalar",
    locals: "locals() has no meaning in a kernel: write the name",
    next: "next(...) would run once, when the kernel is built: loop over vc.unrolled(...)",
    open: "a kernel cannot open files: pass an array",
    vars: "vars(...) has no meaning in a kernel: write the name of the attribute",
}


def replaced(builder: Builder, function: Any) -> Any:
    """What a call of one of Python's functions calls; another function of that name is itself."""
    if not callable(function) or isinstance(function, Buffer):
        return function
    if function is breakpoint:
        return _nothing
    if function is print:
        return _print(builder)
    if _holds(_REFUSED, function):
        raise program_error(_REFUSED[function], caller())
    return _only_python(function) if _holds(_INSTEAD, function) else function


def _holds(table: dict[Any, str], function: Any) -> bool:
    return any(function is each for each in table)


def _only_python(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*arguments: Any, **named: Any) -> Any:
        is_sum = function is sum  # which adds values of the device, to a first one too
        for value in arguments[:1] if is_sum else (*arguments, *named.values()):
            elements = value if isinstance(value, (list, tuple)) else ()
            if is_dynamic(value) or isinstance(value, Buffer) or (not is_sum and any(map(is_dynamic, elements))):
                if function in _CONTAINERS and not isinstance(value, Buffer) and not is_dynamic(value):
                    continue
                raise program_error(
                    f"{function.__name__}(...) of a value of the device: {_INSTEAD[function]}", caller()
                )
        return function(*arguments, **named)

    return called


# They take Python's tuples and lists of values as they are.
_CONTAINERS = (enumerate, filter, len, list, map, reversed, tuple, zip, iter, isinstance)


def _nothing(*_: Any, **__: Any) -> None:
    """A breakpoint, which only the function as Python has."""


def _print(builder: Builder) -> Callable[..., None]:
    def called(*arguments: Any, sep: Any = " ", **named: Any) -> None:
        if named:
            given = ", ".join(f"{name}=" for name in named)
            raise program_error(
                f"print in a kernel takes no {given}; each print is a line on standard output", caller()
            )
        if sep is not None and not isinstance(sep, str):
            raise program_error(f"sep of print is {type_name(sep)}; it must be a str", caller())
        between = escaped(" " if sep is None else sep)
        texts = [as_text(argument) for argument in arguments]
        builder.print(between.join(text.format for text in texts), *(value for text in texts for value in text.values))

    return called


def same_for_all(function: Any) -> Any:
    """The function, unless it draws a random number or reads a clock: once, while the program is built."""
    reason = why_once(function)
    if reason is not None:
        raise program_error(reason, caller())
    return function


def why_once(function: Any) -> str | None:
    """Why a kernel cannot call this function of Python, which gives another value at each call."""
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or type(owner).__module__
    if not callable(function) or not isinstance(module, str) or isinstance(function, type):
        return None
    if f"{module}.".startswith(("random.", "_random.", "secrets.", "numpy.random.")):
        return (
            f"{function.__name__}(...) is called once, when the kernel is built, so all threads have the "
            "same number: write vc.uniform(seed, i) or vc.normal(seed, i)"
        )
    if module == "time":
        return f"{function.__name__}(...) is called once, when the kernel is built: pass its value as a scalar"
    return None
