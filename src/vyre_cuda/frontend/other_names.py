"""Names of NumPy, Numba, CUDA, Triton and Warp, and what to write for them here."""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from typing import Any

from vyre_cuda.ir.core.types import BY_NAME

_TYPES = {
    **{f"float{bits}": f"vc.f{bits}" for bits in (16, 32, 64)},
    **{f"{sign}int{bits}": f"vc.{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("bool", "int1"), "vc.bool_"),
    "bfloat16": "vc.bf16",
    "float": "vc.f32 or vc.f64",
    "int": "vc.i32 or vc.i64",
    "half": "vc.f16",
    "double": "vc.f64",
}
# What the package does not have, and what to write.
_CALLED_HERE = {
    **_TYPES,
    **dict.fromkeys(("grid", "tid", "thread_index", "get_global_id", "arange"), "vc.global_id.x"),
    **dict.fromkeys(("program_id", "block_index"), "vc.block_id.x"),
    **dict.fromkeys(("syncthreads", "sync_threads", "debug_barrier"), "vc.barrier()"),
    **dict.fromkeys(("load", "ld"), "x[i]"),
    **dict.fromkeys(("store", "st"), "x[i] = value"),
    **dict.fromkeys(("local_id", "get_local_id", "threadIdx"), "vc.thread_id"),
    **dict.fromkeys(("blockIdx", "group_id", "get_group_id"), "vc.block_id"),
    **dict.fromkeys(("blockDim", "blocksize"), "vc.block_dim"),
    **dict.fromkeys(("gridDim", "gridsize", "num_programs"), "vc.grid_dim"),
    **dict.fromkeys(("zeros", "empty"), "vc.output(type, shape), or vc.local(type, n) for an array of each thread"),
    **dict.fromkeys(("constexpr", "static"), "vc.const"),
    "laneid": "vc.lane_id",
    "max": "vc.maximum(a, b)",
    "min": "vc.minimum(a, b)",
    "round": "vc.rint(x)",
    "sum": "a loop, or vc.warp_reduce(x, \"add\")",
    "array": "vc.In[type] for a parameter, or a NumPy array above the kernel, with .flags.writeable = False",
    "atomic": "vc.atomic_add(x, i, value) and the like",
    "atomicAdd": "vc.atomic_add(x, i, value)",
    "atomicCAS": "vc.atomic_compare_exchange(x, i, expected, value)",
    "dot": "a loop over the elements",
    "jit": "vc.kernel",
}  # fmt: skip
# What a number does not have.
_OF_NUMBERS = {
    **dict.fromkeys(("astype", "item", "to", "cast"), "write vc.i32(x), or another type"),
    **dict.fromkeys(("real", "conj", "conjugate"), "all numbers are real: write the value alone"),
    "imag": "all numbers are real, so it would be 0",
    **dict.fromkeys(("dtype",), "write x.type"),
    **dict.fromkeys(("shape", "size", "ndim", "T", "flatten", "reshape"), "it is one number"),
    **dict.fromkeys(("x", "y", "z"), "it is one number; vc.global_id has axes"),
}
# What an array does not have.
_OF_ARRAYS = {
    **dict.fromkeys(("T", "transpose"), "write its indices in the other order, x[j, i]"),
    **dict.fromkeys(("sum", "max", "min", "mean", "prod", "any", "all", "dot"), "write a loop over its elements"),
    **dict.fromkeys(("astype", "view", "item", "load", "get"), "read an element, x[i], and convert that, vc.f32(x[i])"),
    **dict.fromkeys(("store", "set", "put"), "write x[i] = value"),
    **dict.fromkeys(("fill", "copy"), "write x[i] = value in each thread"),
    **dict.fromkeys(("flat", "ravel", "flatten", "reshape"), "write the index of each axis, x[i, j]"),
    **dict.fromkeys(("strides", "stride", "data", "ptr"), "an index counts elements of an axis, x[i, j]"),
}


def missing_attribute(error: AttributeError) -> str:
    """An AttributeError with what to write instead."""
    said, owner, name = str(error), error.obj, error.name or ""
    if "module 'vyre_cuda'" in said:
        return said  # which says it
    kind = type(owner).__name__
    if kind in ("Value", "Unplaced", "Variable", "Scalar"):
        way = _OF_NUMBERS.get(name) or _function(name, "x") or "its type is x.type"
        return f"a value of the device has no attribute {name!r}: {way}"
    if kind == "Buffer":
        way = _OF_ARRAYS.get(name) or _function(name, "x[i]") or "it has x.size, x.shape and x[i]"
        return f"an array of a kernel has no attribute {name!r}: {way}"
    if kind == "LaunchId":
        return f"an id has the axes x, y and z, and no {name!r}: write vc.global_id.x and the like"
    if inspect.isfunction(owner) and owner.__module__.startswith("vyre_cuda."):
        return f"vc.{owner.__name__} is a function and has no {name!r}: write {signature_of(owner)}"
    return said


def instead(name: str) -> str:
    """What to write for a name that the package does not have."""
    if name in _CALLED_HERE:
        return f": write {_CALLED_HERE[name]}"
    names = difflib.get_close_matches(name, sys.modules["vyre_cuda"].__all__, cutoff=0.8)
    return f": it has {' and '.join(names)}" if names else ": docs/functions.md lists its functions"


def of_undefined(name: str) -> str:
    """What to write for a name that nothing defines."""
    if name in sys.modules["vyre_cuda"].__all__:
        return f"write vc.{name}"
    if name in _CALLED_HERE:
        return f"write {_CALLED_HERE[name]}"
    return "assign it before, in the kernel or above it"


def type_instead(given: Any) -> str:
    """Which type to write instead of one of Python or NumPy, or of its name. "" if that is not known."""
    name = given if isinstance(given, str) else getattr(given, "__name__", None) or getattr(given, "name", "")
    if not isinstance(name, str):
        return ""
    name = name.rpartition(".")[2]
    return f"vc.{name}" if name in BY_NAME else _TYPES.get(name.rstrip("_"), "")


def type_in(message: str) -> str:
    """The same for the first word of a message, which is the repr of what is none."""
    found = re.match(r"""(?:<class '([\w.]+)'>|dtype\('(\w+)'\)|'(\w+)') where a type such as vc\.f32 is""", message)
    return type_instead(next(filter(None, found.groups()))) if found else ""


def signature_of(function: Any) -> str:
    """A call of a function of the package with what it needs."""
    needed = [each.name for each in inspect.signature(function).parameters.values() if each.default is each.empty]
    return f"vc.{function.__name__}({', '.join(needed)})"


def _function(name: str, argument: str) -> str:
    """The function of the package for what is a method of NumPy."""
    package = sys.modules["vyre_cuda"]
    found = getattr(package, name, None) if name in package.__all__ else None
    return f"write vc.{name}({argument})" if inspect.isfunction(found) else ""
