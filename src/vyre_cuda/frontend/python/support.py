"""What rewritten functions call (`rewrite.py`): where Python itself would lose the type of a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from vyre_cuda.frontend.building.declarations import Declaration
from vyre_cuda.frontend.building.values import any_equal
from vyre_cuda.frontend.current import running as building
from vyre_cuda.frontend.python.running import RunningScope
from vyre_cuda.frontend.python.scalar import Scalar
from vyre_cuda.ir.builder.blocks import bounds
from vyre_cuda.ir.builder.functions import logical_not
from vyre_cuda.ir.builder.operators import Expression
from vyre_cuda.ir.builder.scopes import caller, program_error, running
from vyre_cuda.ir.builder.values import Value, node_of, place
from vyre_cuda.ir.core.nodes import Assert, Const
from vyre_cuda.ir.core.scalars import value_of
from vyre_cuda.ir.core.types import Type, bool_

# ---- names


def typed(type_: Type, value: Any) -> Scalar:
    """The first value of a variable that has an annotation."""
    return _placed(value, type_)


def kept(names: dict[str, Any], name: str, tests: Sequence[str]) -> Any:
    """The value of a name that was first assigned under these conditions; None if it has ended with one of them."""
    return None if any(isinstance(names.get(test), Expression) for test in tests) else names.get(name)


def assigned(name: str, old: Any, value: Any) -> Any:
    """The new value of a name: a number takes the type that the old value has."""
    if isinstance(value, Declaration):
        return value.declare(building("a declaration"), name)
    if isinstance(old, Scalar) and isinstance(value, (Expression, bool, int, float)):
        return _placed(value, old.type)
    return value


def assigned_together(names: Sequence[str], old: Sequence[Any], values: Any) -> list[Any]:
    """The new values of several names; all are known before the first is set."""
    return [assigned(name, one, value) for name, one, value in zip(names, old, values, strict=True)]


# ---- conditions


def both(left: Any, make: Callable[[], Any]) -> Any:
    """`left and make()`"""
    if not isinstance(left, Expression):
        return left and make()
    return _placed(make() if left else False, bool_)


def either(left: Any, make: Callable[[], Any]) -> Any:
    """`left or make()`"""
    if not isinstance(left, Expression):
        return left or make()
    return _placed(True if left else make(), bool_)


def negated(value: Any) -> Any:
    """`not value`"""
    return logical_not(value) if isinstance(value, Expression) else not value


def among(value: Any, elements: Any) -> Any:
    """`value in elements`"""
    return any_equal(value, elements) if isinstance(elements, (tuple, list)) else value in elements


def not_among(value: Any, elements: Any) -> Any:
    """`value not in elements`"""
    return negated(among(value, elements))


def chosen(condition: Any, one: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """`one() if condition else other()`: a number takes the type of the other arm."""
    taken, left = (one, other) if condition else (other, one)
    value = taken()
    if not isinstance(condition, Expression) or isinstance(value, Expression):
        return value
    pattern = left()
    return _placed(value, pattern.type) if isinstance(pattern, Value) else value


def asserted(condition: Any, message: Any) -> None:
    """`assert condition, message`: the thread ends where the condition does not hold."""
    scope, source = _scope(), caller()
    held = place(scope, condition, source, bool_, "condition")
    scope.append(Assert(node_of(held), str(message), source))


# ---- loops


def counted(*limits: Any) -> Iterator[Scalar]:
    """The counter of `for i in range(...)`, typed as `Builder.for_` types it."""
    scope, source = _scope(), caller()
    lo, hi, step = (0, *limits, 1) if len(limits) == 1 else (*limits, 1)[:3]
    start, stop = bounds(scope, lo, hi, source)
    by = _number(place(scope, step, source, start.type, "step"))
    if by == 0:
        if not isinstance(step, Expression):
            raise program_error("with a step of 0 the loop never runs", source)
        return
    for count in range(_number(start), _number(stop), by):
        yield start.type(count)


# ---- parts of the above


def _placed(value: Any, type_: Type) -> Scalar:
    """The value of this type; ProgramError if it has another one."""
    scope, source = _scope(), caller()
    return scope.value(node_of(place(scope, value, source, type_)), source)


def _number(value: Value) -> int:
    node = node_of(value)
    assert isinstance(node, Const)  # every value of a scope that runs is known
    return int(value_of(node.type, node.bits))


def _scope() -> RunningScope:
    scope = running.scope
    assert isinstance(scope, RunningScope)  # rewritten functions are called by `Launch` alone
    return scope
