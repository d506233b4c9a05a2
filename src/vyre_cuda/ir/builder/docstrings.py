"""Docstrings of families of functions, whose parameters and errors are the same: each function says what it computes,
and these sections are added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from vyre_cuda.ir.core.ops import ATOMICS, OPS, WARP_OPS
from vyre_cuda.ir.core.types import FLOATS, INTEGERS, NUMBERS, TYPES, Type

_KINDS = (
    (TYPES, "any type"),
    (NUMBERS, "an integer or float type"),
    (INTEGERS, "an integer type"),
    (FLOATS, "a float type"),
)
_NOT_AN_OPERAND = "An operand is neither an expression nor a number."


def describe(function: Callable[..., Any], sections: Callable[[tuple[str, ...]], str]) -> None:
    """Add what `sections` says of these parameters to a docstring; nothing where docstrings are dropped."""
    if not function.__doc__:
        return
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    function.__doc__ += sections(names[1:] if names[0] == "self" else names)


def _sections(parameters: Mapping[str, str], returns: str, raises: Mapping[str, str]) -> str:
    lines = [*_section("Parameters", parameters), *(_section("Returns", {"Value": returns}) if returns else ())]
    return "\n" + "\n".join([*lines, *_section("Raises", raises)])


def _section(title: str, entries: Mapping[str, str]) -> list[str]:
    lines = ["", title, "-" * len(title)]
    for name, text in entries.items():
        lines += [name, f"    {text}"]
    return lines


# ---- families -------------------------------------------------------------------------------------------------------


def describe_op(function: Callable[..., Any], op: str) -> None:
    """An op of the table, on operands of one type, behind the condition of `where`."""
    row = OPS[op]
    describe(function, lambda names: _of_operands(names, _kind(row.types), row.result == "bool"))


@cache
def _of_operands(names: tuple[str, ...], kind: str, gives_truth: bool) -> str:
    operand = f"An expression of {kind}"
    if len(names) - ("condition" in names) > 1:
        operand += ", the same for all operands, or a number, which takes their type"
    return _sections(
        {name: "An expression of bool_." if name == "condition" else f"{operand}." for name in names},
        "bool_" if gives_truth else "An expression of the operands' type.",
        {
            "ProgramError": "An operand has another type, or a number is not a value of its type.",
            "TypeError": _NOT_AN_OPERAND,
        },
    )


def describe_atomic(function: Callable[..., Any], op: str) -> None:
    """An atomic: a method of the builder, or a function of kernels."""
    row = ATOMICS[op]
    orders = " or ".join(f'"{order}"' for order in row.orders) if len(row.orders) == 2 else _ORDERS
    value = "An expression of the buffer's type, or a number."
    texts = {
        "buffer": f"An inout or output buffer, or a shared array, of {_kind(row.types)}.",
        "index": "The element: an integer, or one for each axis. Out of bounds nothing happens and 0 is returned.",
        **dict.fromkeys(("value", "expected", "desired"), value),
        "order": f"The memory order: {orders}.",
        "scope": 'The threads that it is atomic and ordered for: "block", "device" or "system".',
    }
    returns = "The value before, of the buffer's type." if row.result else ""
    raises = {
        "ProgramError": "The buffer is read-only or of another type, or order or scope is unknown.",
        "TypeError": _NOT_AN_OPERAND,
    }
    describe(function, lambda names: _sections({name: texts[name] for name in names}, returns, raises))


_ORDERS = '"relaxed", "acquire", "release" or "acq_rel"'


def describe_warp_op(function: Callable[..., Any], op: str) -> None:
    """A warp operation: a method of the builder, or a function of kernels."""
    row = WARP_OPS[op]
    lane = "an integer, whose low 32 bits are used."
    texts = {
        "condition": "An expression of bool_.",
        "value": f"This thread's value: an expression of {_kind(row.types)}.",
        "lane": f"The number of a thread in the warp, from 0: {lane}",
        "delta": f"A distance in lanes: {lane}",
        "mask": f"The bits of the lane's number that differ: {lane}",
        "op": '"sum", "min", "max", "and", "or" or "xor", or the full name of the op, such as "bitwise_and".',
        "inclusive": "Whether this lane's value is included.",
    }
    returns = {"bool": "bool_", "u32": "u32, a bit for each lane."}.get(
        row.result, "An expression of the value's type."
    )
    raises = {
        "ProgramError": "A type that the operation does not take; from `build`: a branch before may part the warp.",
        "TypeError": _NOT_AN_OPERAND,
    }
    describe(function, lambda names: _sections({name: texts[name] for name in names}, returns, raises))


def _kind(types: tuple[Type, ...]) -> str:
    return next((kind for known, kind in _KINDS if known is types), "") or " or ".join(map(str, types))
