"""Values that a kernel is compiled for: the rule for `specialize=`.

Each is that of a scalar (`"w"`), of the elements of a buffer (`"x.size"`) or of an extent of a buffer with several axes
(`"x.shape[0]"`). What the declared sizes and shapes make of them is known as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from vyre_cuda.ir.call.geometry import host_size, wider_index
from vyre_cuda.ir.core.nodes import Parameter
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.scalars import bits_of, value_of
from vyre_cuda.records import FrozenRecord


class Known(FrozenRecord):
    """One value, as bits of the scalar's or the index type. `axis` is that of an extent, else None."""

    name: str
    parameter: str
    axis: int | None
    bits: int


def known_values(program: Program, given: Mapping[str, Any] | None) -> tuple[Known, ...]:
    """The values that `specialize=` gives, in the order of `_places`.

    ValueError: the program has no such name, or no call could have these sizes. TypeError, OverflowError: a value is of
    another kind or out of range.
    """
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise TypeError(
            f'specialize={given!r}: a dict of values by name, such as {{"w": 28, "x.size": 784}}, is needed'
        )
    found = {name: _known(program, name, value) for name, value in given.items()}
    known = tuple([found[name] for name in _places(program) if name in found])
    settled(program, known)
    return known


def known_of(program: Program, name: str, bits: int) -> Known:
    """The value of this name. KeyError if the program has no such name."""
    place, axis = _places(program)[name]
    return Known(name, program.parameters[place].name, axis, bits)


def python_values(program: Program, known: tuple[Known, ...]) -> dict[str, bool | int | float]:
    """The values by name, as `specialize=` takes them."""
    types = {p.name: p.type for p in program.parameters if not p.is_buffer}
    return {each.name: value_of(types.get(each.parameter, program.index), each.bits) for each in known}


def settled(program: Program, known: tuple[Known, ...]) -> tuple[dict[str | tuple[str, int], int], dict[str, int]]:
    """The sizes and extents, and the bits of the scalars, that follow. ValueError: the declarations contradict them."""
    buffers = [p for p in program.parameters if p.is_buffer]
    names = {p.name for p in buffers}
    scalars = {each.parameter: each.bits for each in known if each.parameter not in names}
    sizes: dict[str | tuple[str, int], int] = {
        each.parameter if each.axis is None else (each.parameter, each.axis): each.bits
        for each in known
        if each.parameter in names
    }
    before = -1
    while before != len(sizes):  # a declaration may need the size of a later buffer
        before = len(sizes)
        for parameter in buffers:
            _settle(program, parameter, sizes, scalars)
    return sizes, scalars


def _settle(
    program: Program, parameter: Parameter, sizes: dict[str | tuple[str, int], int], scalars: Mapping[str, int]
) -> None:
    """Enter what the declaration of one buffer says."""
    name = parameter.name
    for axis, expr in enumerate(parameter.shape or (parameter.size,)):
        what = _called(name, axis if parameter.shape else None)
        try:
            value = None if expr is None else host_size(f"{program.name}: specialize: {what}", expr, sizes, scalars)
        except KeyError:  # it needs what is not known
            continue
        if value is not None:
            _enter(program, sizes, (name, axis) if parameter.shape else name, value)
    extents = [sizes.get((name, axis)) for axis in range(len(parameter.shape))]
    if extents and None not in extents:
        _enter(program, sizes, name, math.prod([extent for extent in extents if extent is not None]))


def _enter(program: Program, sizes: dict[str | tuple[str, int], int], key: str | tuple[str, int], value: int) -> None:
    what = _called(*key) if isinstance(key, tuple) else _called(key, None)
    if value > program.index.maximum:
        raise ValueError(
            f"{program.name}: specialize: {what} would be {value}; {program.index} indices reach "
            f"{program.index.maximum} ({wider_index(program)})"
        )
    if sizes.setdefault(key, value) != value:
        raise ValueError(f"{program.name}: specialize: {what} is {sizes[key]}, and must be {value} as it is declared")


def _called(buffer: str, axis: int | None) -> str:
    return f"{buffer}.size" if axis is None else f"{buffer}.shape[{axis}]"


def _known(program: Program, name: Any, value: Any) -> Known:
    places = _places(program)
    if not isinstance(name, str) or name not in places:
        there = f"there are {', '.join(places)}" if places else "the program has no parameters"
        raise ValueError(f"{program.name}: specialize: there is no {name!r}; {there}")
    place, axis = places[name]
    parameter = program.parameters[place]
    bits = _count(program, name, value) if parameter.is_buffer else _scalar(program, parameter, value)
    return Known(name, parameter.name, axis, bits)


def _places(program: Program) -> dict[str, tuple[int, int | None]]:
    """What may be known by name, scalars and sizes before extents: the parameter's number, the axis of an extent."""
    found: dict[str, tuple[int, int | None]] = {}
    for place, p in enumerate(program.parameters):
        found[_called(p.name, None) if p.is_buffer else p.name] = place, None
    for place, p in enumerate(program.parameters):
        found |= {_called(p.name, axis): (place, axis) for axis in range(len(p.shape))}
    return found


def _scalar(program: Program, parameter: Parameter, value: Any) -> int:
    try:
        return bits_of(parameter.type, value)
    except (TypeError, OverflowError) as error:
        raise type(error)(f"{program.name}: specialize: {parameter.name}: {error}{_unknown(value)}") from None


def _unknown(value: Any) -> str:
    """What is wrong with a value that is not a number, such as a symbol."""
    if isinstance(value, (int, float, np.generic)):
        return ""
    return "; only a number is known when the kernel is compiled"


def _count(program: Program, name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{program.name}: specialize: {name}: {value!r} where an int is needed{_unknown(value)}")
    if not 0 <= value <= program.index.maximum:
        raise OverflowError(
            f"{program.name}: specialize: {name}: {value} is out of range of {program.index} indices (0 to "
            f"{program.index.maximum})"
        )
    return int(value)
