"""The globals of a rewritten function: those of the user's, the names of closures, and what a specialization fixes."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import numpy as np

from vyre_cuda.errors import type_name
from vyre_cuda.frontend.building.builtins import why_once
from vyre_cuda.frontend.captures import Missing, can_be_written, is_fixed
from vyre_cuda.frontend.rewriting.function import Rewritten
from vyre_cuda.frontend.rewriting.syntax import refused
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.scopes import caller, program_error
from vyre_cuda.ir.core.program import ProgramSource


def namespace_of(
    builder: Builder, function: FunctionType, rewritten: Rewritten, filename: str, fixed: Mapping[str, Any]
) -> dict[str, Any]:
    """The names that the function finds around it. ProgramError for a captured value that can change."""
    names = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            names.pop(name, None)
    names.update(fixed)
    for name, node in rewritten.outer.items():
        value = names.get(name, getattr(builtins, name, Missing))
        if isinstance(value, np.ndarray):
            names[name] = _table(builder, name, value, filename, node)
        elif isinstance(value, ProgramSource):
            names[name] = NestedKernel(name, value)
        elif not _is_allowed(value):
            raise refused(filename, node, _changes(name, value))
        elif (reason := why_once(value)) is not None:
            raise refused(filename, node, reason)
    return names


class NestedKernel:
    """A kernel in a kernel: anything but a call."""

    def __init__(self, name: str, kernel: ProgramSource) -> None:
        self._name = name
        self._kernel = kernel

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        message = f"{self._name} is a kernel: a kernel calls functions, plain ones or those made by @vc.func"
        raise program_error(message, caller())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


def _is_allowed(value: Any) -> bool:
    if hasattr(type(value), "__cuda_array_interface__"):
        return False
    return value is Missing or is_fixed(value) or type(value).__module__.partition(".")[0] in _OURS


# What these define does not change: types, ids, functions of kernels; partial functions.
_OURS = ("vyre_cuda", "functools")


def _changes(name: str, value: Any) -> str:
    kind = type_name(value)
    if hasattr(type(value), "__cuda_array_interface__"):
        return f"{name} is {kind}, whose contents can change: pass it as a parameter"
    if isinstance(value, (list, set, bytearray)):
        return f"{name} is {kind}, which can change after the kernel is built: make it a tuple"
    return (
        f"{name} is {kind}, which can change after the kernel is built: take numbers, types, functions or tuples "
        "of them from around a kernel, and pass other objects as vc.const"
    )


def _table(builder: Builder, name: str, array: Any, filename: str, node: ast.Name) -> Any:
    if can_be_written(array):
        what, first = (
            ("an array", "") if array.flags.writeable else ("a view of memory", f"copy it, {name} = {name}.copy(), ")
        )
        raise refused(
            filename,
            node,
            f"{name} is {what} that can be written after the kernel is built: {first}set {name}.flags.writeable = "
            "False, or pass it as a parameter",
        )
    return builder.table(name, array)
