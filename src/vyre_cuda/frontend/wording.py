"""What is said about a mistake in a kernel function: in the words of functions, with what to write instead."""

from __future__ import annotations

import difflib
import inspect
import sys

from vyre_cuda.ir.builder.operators import Expression

# What the Builder and Python say, and what a kernel function is told.
_IN_OTHER_WORDS = (
    ("(declare it with b.inout)", "(annotate it as vc.InOut)"),
    ("bind it with b.let first", "assign it to a name first"),
    (
        "(to use a value after its block, set a b.var that was made before the block)",
        "(assign it before the block too)",
    ),
    ("the with-block", "the block"),
    (
        "an expression has no truth value in Python, only on the device: branch with b.if_(...), choose with "
        "vc.where(...), combine with & and |, and write 0 <= i < n as (0 <= i) & (i < n)",
        "a value of the device has no truth value in Python, which runs this function: decorate it with @vc.func",
    ),
    ("must be real number, not Value", "a value of the device in a function of Python: write vc.sqrt(x) and the like"),
    (
        "operand 'Value' does not support ufuncs (__array_ufunc__=None)",
        "a value of the device in a function of NumPy: write vc.sqrt(x) and the like",
    ),
    (
        "float() argument must be a string or a real number, not 'Value'",
        "a value of the device where Python needs a number: write vc.f32(x), or another type",
    ),
    (
        "int() argument must be a string, a bytes-like object or a real number, not 'Value'",
        "a value of the device where Python needs a number: write vc.i32(x), or another type",
    ),
    (
        "list indices must be integers or slices, not Value",
        "a list of Python is indexed with a value of the device: make it a NumPy array above the kernel, with "
        ".flags.writeable = False, or choose with vc.where(...)",
    ),
    (
        "tuple indices must be integers or slices, not Value",
        "a tuple of Python is indexed with a value of the device: make it a NumPy array above the kernel, with "
        ".flags.writeable = False, or choose with vc.where(...)",
    ),
    (
        "'Value' object is not iterable",
        "a value of the device is no sequence of Python: write `for i in range(n)`, which loops on the device",
    ),
    (
        "LaunchId where an expression or a number is needed; read an element as x[i]",
        "an id of three axes where one number is needed; write its axis, as in vc.global_id.x",
    ),
    (" or ints, not Value", " or ints, not a value of the device: write a number, or take it from a vc.const"),
    (" or ints, not Size", " or ints, not a size of the device: write a number, or take it from a vc.const"),
    ("the name is taken (declare parameters before locals)", "the name is taken: use another one"),
    ("b.for_", "range"),
    ("a for_ needs integers", "range needs integers"),
    ("for_ block", "`for` block"),
    ("while_ test block", "condition of the `while`"),
    ("while_ block", "`while` block"),
    ("if_ block", "`if` block"),
    ("else_ block", "`else` block"),
    ("break_ outside", "`break` outside"),
    ("continue_ outside", "`continue` outside"),
)

# Names of NumPy, Numba, CUDA and Triton, and what they are called here.
_CALLED_HERE = {
    **dict.fromkeys(("grid", "tid", "thread_index", "get_global_id", "arange"), "vc.global_id.x"),
    **dict.fromkeys(("program_id", "block_index"), "vc.block_id.x"),
    **dict.fromkeys(("syncthreads", "sync_threads", "debug_barrier"), "vc.barrier()"),
    **{f"float{bits}": f"vc.f{bits}" for bits in (16, 32, 64)},
    **{f"{sign}int{bits}": f"vc.{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("bool", "int1"), "vc.bool_"),
    **dict.fromkeys(("load", "ld"), "x[i]"),
    **dict.fromkeys(("store", "st"), "x[i] = value"),
    "zeros": "vc.output(type, shape), or vc.local(type, n) for an array of each thread",
    "empty": "vc.output(type, shape), or vc.local(type, n) for an array of each thread",
    "threadIdx": "vc.thread_id",
    "blockIdx": "vc.block_id",
    "blockDim": "vc.block_dim",
    "gridDim": "vc.grid_dim",
    "laneid": "vc.lane_id",
    "max": "vc.maximum(a, b)",
    "min": "vc.minimum(a, b)",
    "round": "vc.rint(x)",
    "sum": "a loop, or vc.warp_reduce(x, \"add\")",
    "array": "a NumPy array above the kernel, with .flags.writeable = False",
    "atomicAdd": "vc.atomic_add(x, i, value)",
    "atomicCAS": "vc.atomic_compare_exchange(x, i, expected, value)",
}  # fmt: skip


def message_of(error: Exception) -> str:
    """What the exception says, by its kind."""
    if isinstance(error, UnboundLocalError):
        name = str(error).split("'")[1] if "'" in str(error) else "a name"
        return f"{name} is used before it is assigned"
    if isinstance(error, NameError):
        return f"{error}: assign it before, in the kernel or above it"
    if isinstance(error, AttributeError):
        return _no_attribute(error)
    if isinstance(error, RecursionError):
        return "the functions call each other without end: write a loop"
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], Expression):
        return (
            "a dict of Python is asked for a value of the device: make it a NumPy array above the kernel, with "
            ".flags.writeable = False, or write if and elif"
        )
    if isinstance(error, IndexError) and str(error).startswith("only integers, slices"):
        return (
            "a NumPy array is indexed with a value of the device in a function of Python: decorate the function with "
            "@vc.func, where a read-only array is a table"
        )
    if isinstance(error, (KeyError, IndexError, ZeroDivisionError, OverflowError)):
        return f"{type(error).__name__} when the program was built: {error}"
    return str(error)


def reworded(message: str) -> str:
    """A message in terms of what a kernel function can write."""
    for ours, theirs in _IN_OTHER_WORDS:
        message = message.replace(ours, theirs)
    if "'Buffer'" in message:
        message += ": read an element, as in x[i]"
    if "where the integer type" in message:
        message += ": write a whole number, or vc.f32(...) around what it is combined with"
    return message + _parameters(message)


def _no_attribute(error: AttributeError) -> str:
    said = str(error)
    if "module 'vyre_cuda'" in said:
        return f"{said}{_instead(said.split(chr(39))[-2])}"
    if said.startswith("'Value' object has no attribute "):
        name = said.split("'")[-2]
        way = ": write vc.i32(x), or another type" if name in ("astype", "item", "to") else "; its type is x.type"
        return f"a value of the device has no attribute {name!r}{way}"
    if said.startswith("'Buffer' object has no attribute "):
        return f"an array of a kernel has no attribute {said.split(chr(39))[-2]!r}: it has x.size, x.shape and x[i]"
    if said.startswith("'LaunchId' object has no attribute "):
        return f"an id has the axes x, y and z, and no {said.split(chr(39))[-2]!r}"
    return said


def _instead(name: str) -> str:
    """What to write for a name that the package does not have."""
    if name in _CALLED_HERE:
        return f": write {_CALLED_HERE[name]}"
    names = difflib.get_close_matches(name, sys.modules["vyre_cuda"].__all__, cutoff=0.8)
    return f": it has {' and '.join(names)}" if names else ": docs/functions.md lists its functions"


def _parameters(message: str) -> str:
    """The parameters of a function of the package that was called with others."""
    name, called, rest = message.partition("() ")
    if not called or not rest.startswith(("missing ", "takes ", "got an unexpected ", "got multiple ")):
        return ""
    package = sys.modules["vyre_cuda"]
    function = getattr(package, name, None) if name in package.__all__ else None
    if not inspect.isfunction(function):
        return ""
    needed = [each.name for each in inspect.signature(function).parameters.values() if each.default is each.empty]
    return f": write vc.{name}({', '.join(needed)})"
