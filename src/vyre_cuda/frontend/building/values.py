"""What a value of a kernel function is: on the device, or Python's, known when the program is built."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, TypeGuard

from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.handles import Variable
from vyre_cuda.ir.builder.operators import Expression
from vyre_cuda.ir.builder.scopes import Scope, caller, program_error
from vyre_cuda.ir.builder.values import Value, constant, place
from vyre_cuda.ir.core.nodes import Source
from vyre_cuda.ir.core.types import Type, bool_


def is_dynamic(value: object) -> TypeGuard[Expression]:
    """Whether it is computed on the device."""
    return isinstance(value, Expression)


def scope_of(builder: Builder) -> Scope:
    return builder._scope


def condition(scope: Scope, value: Expression, what: str) -> Value:
    """A placed value of type bool_."""
    source = caller()
    placed = place(scope, value, source, None, what)
    if placed.type is not bool_:
        zero = "0.0" if placed.type.is_float else "0"
        raise program_error(
            f"the {what} is {placed.type}; it must be bool_ (compare it, as in value != {zero})", source
        )
    return placed


def zero(type_: Type, source: Source) -> Value:
    """A constant 0, or False."""
    return constant(type_, False if type_ is bool_ else 0, source)


def current(value: Any) -> Any:
    """The value now, of a variable too."""
    return value.read() if isinstance(value, Variable) else value


def any_equal(value: Any, elements: Sequence[Any]) -> Any:
    """`value in elements`: a bool_ of the device if any of them is a value of the device."""
    if not is_dynamic(value) and not any(map(is_dynamic, elements)):
        return value in elements
    value = current(value)
    return functools.reduce(operator.or_, [value == current(each) for each in elements]) if elements else False
