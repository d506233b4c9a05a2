"""Converts the arguments of `run`, as typed by a person, to those of a kernel's call.

A scalar is a number. A buffer is a path ending in .npy, a list such as `1,2,3`, or one of the forms of `FORMS`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vyre_cuda.cli.failures import UsageError
from vyre_cuda.ir.call.call import argument_parameters
from vyre_cuda.ir.call.known import known_values
from vyre_cuda.ir.core.nodes import Parameter
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import Type, bf16, f16, f64, i64
from vyre_cuda.ir.semantics.elementwise import Array, apply

FORMS = {
    "zeros:N": "N zeros",
    "ones:N": "N ones",
    "arange:N": "0, 1, ... N - 1",
    "random:N": "N random elements: floats from [0, 1), integers from the whole range of the type",
    "bytes:PATH": "the bytes of a file, padded with zero bytes to whole elements",
}

_NAMED = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)=(.*)", re.DOTALL)
_RANDOM_BITS = 8  # of random numbers for the narrow float types, which can represent them exactly
_LARGEST_F16 = 65504
_BOOLS = {"0": False, "1": True, "false": False, "true": True}


@dataclass(frozen=True, slots=True)
class Given:
    """Arguments ready for a call: by position, by name, and arrays for outs (`out=`)."""

    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    outs: dict[str, Array] = field(default_factory=dict)


def read_arguments(program: Program, texts: Sequence[str], *, seed: int) -> Given:
    """The arguments of one call. Each random:N continues with the numbers of one generator, in the order typed."""
    given = Given()
    rng = np.random.default_rng(seed)
    takes = argument_parameters(program)
    by_name = {parameter.name: parameter for parameter in program.parameters}
    for text in texts:
        named = _NAMED.fullmatch(text)
        if named is None:
            if len(given.args) == len(takes):
                raise UsageError(f"{text} is one argument too many; {takes_text(program)}")
            given.args.append(_value(takes[len(given.args)], text, rng))
            continue
        name, value = named.groups()
        if name not in by_name:
            raise UsageError(f"{program.name} has no parameter {name}; {takes_text(program)}")
        if name in given.kwargs or name in given.outs:
            raise UsageError(f"{name} is given twice")
        place = given.outs if by_name[name].kind == "out" else given.kwargs
        place[name] = _value(by_name[name], value, rng)
    return given


def read_known(program: Program, given: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The values of --specialize, each with its name, as `Device.compile` takes them."""
    types = {p.name: p.type for p in program.parameters if not p.is_buffer}
    names = [name for name, _ in given]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"--specialize: {twice} is given twice")
    values = {name: _number(f"--specialize: {name}", types.get(name, program.index), text) for name, text in given}
    try:
        known_values(program, values)
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"--specialize: {error}") from None
    return values


def takes_text(program: Program) -> str:
    """What to type: `its arguments are x=f32[] y=f32[] a=f32`."""
    typed = [f"{p.name}={p.type}{_axes(p)}" for p in argument_parameters(program)]
    unsized = [f"{p.name}={p.type}{_axes(p)}" for p in program.parameters if p.kind == "out" and p.size is None]
    return f"its arguments are {' '.join([*typed, *unsized])}" if typed or unsized else "it takes no arguments"


def _axes(parameter: Parameter) -> str:
    """`[]` of a buffer, and `[:, :]` of one with two axes; nothing of a scalar."""
    return f"[{', '.join(':' * parameter.ndim) if parameter.shape else ''}]" if parameter.is_buffer else ""


def _value(parameter: Parameter, text: str, rng: np.random.Generator) -> Any:
    where, type_ = parameter.name, parameter.type
    if not parameter.is_buffer:
        return _number(where, type_, text)
    if text.endswith(".npy"):
        return _from_npy(where, type_, Path(text))
    form, colon, rest = text.partition(":")
    if not colon:
        numbers = text.removesuffix(",").split(",") if text.strip() else []
        if len(numbers) == 1 and not _begins_a_number(numbers[0]):
            raise _no_array(where, text)
        bits = [_bits(where, type_, part) for part in numbers]
        return np.array(bits, dtype=type_.unsigned).view(type_.dtype)
    if form == "bytes":
        return _from_bytes(where, type_, Path(rest))
    if f"{form}:N" not in FORMS:
        raise _no_array(where, text)
    return _generated(where, type_, form, _count(where, text, rest), rng)


def _no_array(where: str, text: str) -> UsageError:
    return UsageError(f"{where}: {text!r} is not an array; write PATH.npy, 1,2,3, or one of {', '.join(FORMS)}")


def _begins_a_number(text: str) -> bool:
    return text.strip().lstrip("+-.")[:1].isdigit() or text.strip().lower().lstrip("+-") in (*_BOOLS, "inf", "nan")


def _number(where: str, type_: Type, text: str) -> bool | int | float:
    text = text.strip()
    if type_.kind == "bool":
        if text.lower() not in _BOOLS:
            raise UsageError(f"{where}: {text!r} is not a bool (true, false, 1, 0)")
        return _BOOLS[text.lower()]
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        raise UsageError(f"{where}: {text!r} is not a number") from None
    if not type_.is_float:
        raise UsageError(f"{where}: {text!r} is not a whole number, and the type is {type_}")
    if math.isinf(number) and "inf" not in text.lower():
        raise UsageError(f"{where}: {text} is beyond the largest finite {type_}")
    return number


def _bits(where: str, type_: Type, text: str) -> int:
    try:
        return bits_of(type_, _number(where, type_, text))
    except OverflowError as error:
        raise UsageError(f"{where}: {error}") from None


def _from_npy(where: str, type_: Type, path: Path) -> Array:
    try:
        loaded: Array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"{where}: {path}: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        raise UsageError(f"{where}: {path} is not a .npy file of numbers: {error}") from None
    if type_ is bf16 and loaded.dtype.itemsize == type_.itemsize and loaded.dtype.kind in "uV":
        return loaded.view(type_.dtype)  # the file format has no bf16: its bits are kept as u16
    return loaded


def _from_bytes(where: str, type_: Type, path: Path) -> Array:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{where}: {path}: {error.strerror}") from None
    return np.frombuffer(data + bytes(-len(data) % type_.itemsize), type_.dtype)


def _count(where: str, text: str, digits: str) -> int:
    try:
        count = int(digits)
    except ValueError:
        raise UsageError(f"{where}: {text!r}: {digits!r} is not a number of elements") from None
    if count < 0:
        raise UsageError(f"{where}: {text!r}: a number of elements cannot be negative")
    return count


def _generated(where: str, type_: Type, form: str, count: int, rng: np.random.Generator) -> Array:
    dtype = type_.dtype
    if form == "zeros":
        return np.zeros(count, dtype)
    if form == "ones":
        return np.full(count, bits_of(type_, type_.kind == "bool" or 1), type_.unsigned).view(dtype)
    if form == "arange":
        if type_.kind == "bool" or (type_.is_integer and count - 1 > type_.maximum):
            raise UsageError(f"{where}: {type_} does not have {count} different values to count through")
        if type_ is f16 and count - 1 > _LARGEST_F16:
            raise UsageError(f"{where}: {count - 1} is beyond the largest finite f16")
        return (
            np.arange(count, dtype=dtype) if type_.is_integer else _as_floats(type_, np.arange(count, dtype=np.int64))
        )
    if type_.is_float:
        if type_.bits > 16:
            return rng.random(count, dtype=np.float32 if type_.bits == 32 else np.float64)
        return _as_floats(type_, rng.integers(0, 1 << _RANDOM_BITS, count) / (1 << _RANDOM_BITS))
    if type_.is_integer:
        return rng.integers(type_.minimum, type_.maximum, count, dtype=dtype.type, endpoint=True)
    return rng.integers(0, 2, count, dtype=np.uint8).astype(dtype)


def _as_floats(type_: Type, numbers: Array) -> Array:
    source = f64 if numbers.dtype.kind == "f" else i64
    with np.errstate(all="ignore"):
        return apply("cast", source, type_, [numbers]).view(type_.dtype)
