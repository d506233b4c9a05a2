"""What a call or `program` gives for the open parameters of a kernel function: TypeVars and consts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from vyre_cuda.errors import counted, type_name
from vyre_cuda.frontend.parameters import NO_DEFAULT, KernelParameter
from vyre_cuda.ir.core.types import Type, by_dtype
from vyre_cuda.records import FrozenRecord


class Open(FrozenRecord, eq=False):
    """The parameters that a program is specialized for: by TypeVar, by const."""

    types: Mapping[str, Type]
    constants: Mapping[str, Any]


def given_by_name(name: str, parameters: Sequence[KernelParameter], given: Mapping[str, Any]) -> Open:
    """Open parameters by name, all of them. TypeError for one that is missing, unknown or no type."""
    variables = type_variables(parameters)
    consts = {each.name: each for each in parameters if each.kind == "const"}
    unknown = [each for each in given if each not in variables and each not in consts]
    if unknown:
        has = ", ".join([*variables, *consts]) or "none"
        raise TypeError(f"{name} has no open parameter {unknown[0]}; it has {has}")
    for each in variables:
        if each in given and not isinstance(given[each], Type):
            raise TypeError(f"{name}: {each}={given[each]!r} is not a type such as vc.f32")
    constants = {each: given.get(each, consts[each].default) for each in consts}
    missing = [each for each in variables if each not in given]
    missing += [each for each, value in constants.items() if value is NO_DEFAULT]
    if missing:
        wanted = ", ".join(f"{each}=..." for each in missing)
        raise TypeError(f"{name} leaves {', '.join(missing)} open: write {name}.program({wanted})")
    return Open({each: given[each] for each in variables}, constants)


def type_variables(parameters: Sequence[KernelParameter]) -> list[str]:
    """The names of the TypeVars, in the order of their first use."""
    return list(dict.fromkeys(each.type.__name__ for each in parameters if isinstance(each.type, TypeVar)))


def bound(
    name: str,
    parameters: Sequence[KernelParameter],
    options: Sequence[str],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments by parameter, and the options. TypeError for too many, unknown ones, and for two of one."""
    taken = [each for each in parameters if each.is_argument]
    if len(args) > len(taken):
        outs = [each.name for each in parameters if each.kind == "out"]
        way = f" (pass {', '.join(outs)} by out=)" if outs else ""
        listed = f" ({', '.join(each.name for each in taken)})" if taken else ""
        raise TypeError(f"{name} takes {counted(len(taken), 'argument')}{listed}; {len(args)} given{way}")
    found = {each.name: value for each, value in zip(taken, args, strict=False)}
    others: dict[str, Any] = {}
    names = {each.name for each in taken}
    for key, value in kwargs.items():
        if key in found:
            raise TypeError(f"{name} got two values for {key}")
        if key not in names and key not in options:
            raise TypeError(f"{name} has no parameter {key}; it takes {', '.join(each.name for each in taken)}")
        (found if key in names else others)[key] = value
    for each in taken:
        if each.kind == "const" and each.name not in found and each.default is not NO_DEFAULT:
            found[each.name] = each.default
    missing = [each.name for each in taken if each.name not in found]
    if missing:
        raise TypeError(f"{name}: missing argument{'s' * (len(missing) > 1)}: {', '.join(missing)}")
    return found, others


def open_of(
    name: str, parameters: Sequence[KernelParameter], arguments: Mapping[str, Any], given: Mapping[str, Any]
) -> Open:
    """The open parameters of a call: types from the dtypes of its arrays, consts as they are. `given` fixes some."""
    types: dict[str, Type] = {each: given[each] for each in type_variables(parameters) if each in given}
    origin: dict[str, str] = dict.fromkeys(types, "")
    for each in parameters:
        variable = each.type.__name__ if isinstance(each.type, TypeVar) else None
        if variable is None or each.kind in ("scalar", "out"):
            continue
        found = _type_of(name, each.name, arguments[each.name])
        if types.setdefault(variable, found) is not found:
            before = f" of {origin[variable]}" if origin[variable] else ""
            raise TypeError(f"{name}: {each.name} is {found}, and {variable} is already {types[variable]}{before}")
        origin.setdefault(variable, each.name)
    missing = [each for each in type_variables(parameters) if each not in types]
    if missing:
        raise TypeError(f"{name}: no array gives the type {missing[0]}; write {name}.on(device, {missing[0]}=vc.f32)")
    constants = {each.name: arguments[each.name] for each in parameters if each.kind == "const"}
    return Open(types, constants)


def _type_of(name: str, parameter: str, array: Any) -> Type:
    dtype = getattr(array, "dtype", None)
    if not isinstance(dtype, np.dtype):
        raise TypeError(f"{name}: {parameter} takes an array, not {type_name(array)}")
    found = by_dtype(dtype)
    if found is None:
        raise TypeError(f"{name}: {parameter} is an array of {dtype}, for which there is no type")
    return found
