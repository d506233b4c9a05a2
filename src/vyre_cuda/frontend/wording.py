"""What is said about a mistake in a kernel function: in the words of functions, with what to write instead."""

from __future__ import annotations

import inspect
import re
import sys

from vyre_cuda.frontend.other_names import missing_attribute, of_undefined, signature_of, type_in
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
        "a value of the device has no truth value in Python, which runs this: compare single values, and decorate a "
        "function with @vc.func",
    ),
    (
        "must be real number, not Value",
        "a value of the device in a Python function: write the one of vc, as in vc.sqrt(x) for math.sqrt(x); "
        "docs/functions.md lists them",
    ),
    (
        "operand 'Value' does not support ufuncs (__array_ufunc__=None)",
        "a value of the device in a NumPy function: write the one of vc, as in vc.sqrt(x) for np.sqrt(x); "
        "docs/functions.md lists them",
    ),
    (
        "float() argument must be a string or a real number, not 'Value'",
        "a value of the device where Python needs a number: write vc.f32(x), or another type",
    ),
    (
        "int() argument must be a string, a bytes-like object or a real number, not 'Value'",
        "a value of the device where Python needs a number: write vc.i32(x), or another type",
    ),
    ("'Value' object is not callable", "this is a number, not a function: write it without (...)"),
    (
        "'Value' object cannot be interpreted as an integer",
        "a value of the device where Python needs a whole number: decorate the function with @vc.func, whose `for` "
        "loops on the device",
    ),
    *(
        (said, 'a value of the device in a Python string: write an f-string, as in print(f"x is {x}")')
        for said in (
            "sequence item 0: expected str instance, Value found",
            "can't multiply sequence by non-int of type 'Value'",
            'can only concatenate str (not "Value") to str',
        )
    ),
    *(
        (f"'LaunchId' object is not {what}", "an id has three axes: write one, as in vc.global_id.x")
        for what in ("callable", "subscriptable")
    ),
    (
        "Type.__call__() takes 2 positional arguments but",
        "a type takes one value, as in vc.f32(x); with the type itself,",
    ),
    (
        "list indices must be integers or slices, not Value",
        "a Python list is indexed with a value of the device: make it a NumPy array above the kernel, with "
        ".flags.writeable = False, or choose with vc.where(...)",
    ),
    (
        "tuple indices must be integers or slices, not Value",
        "a Python tuple is indexed with a value of the device: make it a NumPy array above the kernel, with "
        ".flags.writeable = False, or choose with vc.where(...)",
    ),
    (
        "'Value' object is not iterable",
        "a value of the device is not a Python sequence: write `for i in range(n)`, which loops on the device",
    ),
    (
        "a LaunchId where an expression or a number is needed; read an element as x[i]",
        "an id of three axes where one number is needed; write its axis, as in vc.global_id.x",
    ),
    (" or ints, not a Value", " or ints, not a value of the device: write a number, or take it from a vc.const"),
    (" or ints, not a Size", " or ints, not a size of the device: write a number, or take it from a vc.const"),
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
# The classes of values of the device, which all are a Value to a user.
_KINDS = re.compile(r"""(['"]|slices, not |not a |instance, )(?:Unplaced|Variable|Scalar)\b""")


def message_of(error: Exception) -> str:
    """What the exception says, by its kind."""
    if isinstance(error, UnboundLocalError):
        name = str(error).split("'")[1] if "'" in str(error) else "a name"
        return f"{name} is used before it is assigned"
    if isinstance(error, NameError):
        return f"{error}: {of_undefined(error.name or '')}"
    if isinstance(error, AttributeError):
        return missing_attribute(error)
    if isinstance(error, RecursionError):
        return "the functions call each other without end: write a loop"
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], Expression):
        return (
            "a Python dict is looked up with a value of the device: make it a NumPy array above the kernel, with "
            ".flags.writeable = False, or write if and elif"
        )
    if isinstance(error, IndexError) and str(error).startswith("only integers, slices"):
        return (
            "a NumPy array is indexed with a value of the device in a Python function: decorate the function with "
            "@vc.func, where a read-only array is a table"
        )
    if isinstance(error, (KeyError, IndexError, ZeroDivisionError, OverflowError)):
        return f"{type(error).__name__} when the program was built: {error}"
    return str(error)


def reworded(message: str) -> str:
    """A message in terms of what a kernel function can write."""
    message = _KINDS.sub(r"\1Value", message)
    for ours, theirs in _IN_OTHER_WORDS:
        message = message.replace(ours, theirs)
    if message.startswith("unsupported operand type(s) for ") and "'complex'" in message:
        message = f"{message}: there are no complex numbers on the device; keep the parts in two arrays"
    if message.startswith("unsupported operand type(s) for divmod()"):
        message = "divmod(...) of a value of the device: write a // b and a % b"
    if instead := type_in(message):
        message = f"{message}: write {instead}"
    if "'Buffer'" in message:
        message += ": read an element, as in x[i]"
    if message == "'Value' object is not subscriptable":
        return "a value of the device has no elements: of an array of two axes, write x[i, j] for x[i][j]"
    if message.endswith(" an integer type"):
        message += ": write a whole number, or vc.f32(...) around what it is combined with"
    return message + _parameters(message)


def _parameters(message: str) -> str:
    """The parameters of a function of the package that was called with others."""
    name, called, rest = message.partition("() ")
    if not called or not rest.startswith(("missing ", "takes ", "got an unexpected ", "got multiple ")):
        return ""
    package = sys.modules["vyre_cuda"]
    function = getattr(package, name, None) if name in package.__all__ else None
    return f": write {signature_of(function)}" if inspect.isfunction(function) else ""
