"""`and`, `or` and conditional expressions on values of the device.

An operand that reads memory becomes the body of an `if`, so that it reads only where Python would; one that only
computes is evaluated in any case; one that has an effect is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vyre_cuda.frontend.building.values import condition, current, is_dynamic, scope_of, zero
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import where
from vyre_cuda.ir.builder.scopes import Scope, caller, program_error
from vyre_cuda.ir.builder.values import Value, constant, node_of, place
from vyre_cuda.ir.core.nodes import Assign, Break, Continue, Expr, For, If, Let, Load, Source, Stmt, Var, While
from vyre_cuda.ir.core.types import Type
from vyre_cuda.ir.core.walk import expressions, operands, statements
from vyre_cuda.records import FrozenRecord

_PURE = (Let, Var, Assign, If, For, While, Break, Continue)


class Part(FrozenRecord, eq=False):
    """An operand that was evaluated apart: its value and the statements that it needs."""

    value: Any
    needs: tuple[Stmt, ...]

    @property
    def reads_memory(self) -> bool:
        roots = [node_of(self.value)] if isinstance(self.value, Value) else []
        if any(not isinstance(statement, Let) for statement in self.needs):
            return True
        roots.extend(root for statement in self.needs for root in operands(statement))
        return any(isinstance(expression, Load) for expression in expressions(roots))


def both(builder: Builder, left: Any, make: Callable[[], Any]) -> Any:
    """`left and make()` for a bool_ of the device."""
    return _joined(builder, left, make, word="and", stops_at=False)


def either(builder: Builder, left: Any, make: Callable[[], Any]) -> Any:
    """`left or make()` for a bool_ of the device."""
    return _joined(builder, left, make, word="or", stops_at=True)


def _joined(builder: Builder, left: Any, make: Callable[[], Any], *, word: str, stops_at: bool) -> Any:
    scope, source = scope_of(builder), caller()
    first = condition(scope, left, f"operand of `{word}`")
    part = _apart(scope, make, f"operand of `{word}`", source)
    if not isinstance(part.value, (bool, Value)):
        raise program_error(f"an operand of `{word}` is the Python value {part.value!r}; it must be a bool", source)
    if not part.reads_memory:
        second = _in_place(scope, part)
        return first | second if stops_at else first & second
    result = builder.var(f"{word}_value", constant(first.type, stops_at, source))
    taken = node_of(place(scope, ~first, source) if stops_at else first)
    scope.append(If(taken, (*part.needs, _assigned(result.name, part.value, first.type, source)), (), source))
    return result.read()


def choice(builder: Builder, test: Any, make: Callable[[], Any], make_other: Callable[[], Any]) -> Any:
    """`make() if test else make_other()` for a bool_ of the device."""
    scope, source = scope_of(builder), caller()
    held = condition(scope, test, "condition")
    parts = [_apart(scope, each, "arm of a conditional expression", source) for each in (make, make_other)]
    if not any(isinstance(part.value, Value) for part in parts):
        shown = " and ".join(repr(part.value) for part in parts)
        raise program_error(
            f"the arms of the conditional expression are {shown}, which have no type: write vc.f32(...), vc.i32(...) "
            "or similar around one",
            source,
        )
    if not any(part.reads_memory for part in parts):
        return where(held, *(_in_place(scope, part) for part in parts))
    type_ = _common_type(parts, source)
    result = builder.var("choice", zero(type_, source))
    arms = [(*part.needs, _assigned(result.name, part.value, type_, source)) for part in parts]
    scope.append(If(node_of(held), arms[0], arms[1], source))
    return result.read()


def _apart(scope: Scope, make: Callable[[], Any], what: str, source: Source) -> Part:
    """Evaluate an operand in a block of its own."""
    block = scope.enter("if_", source)
    value = current(make())
    if is_dynamic(value):
        value = place(scope, value, source, None, what)
    needs = scope.leave(block, source)
    effect = _effect(needs)
    if effect is not None:
        raise program_error(f"an {what} has an effect ({effect}): write an `if` instead", source)
    return Part(value, needs)


def _effect(needs: Sequence[Stmt]) -> str | None:
    """What the statements change beyond their own variables."""
    own = {statement.name for statement in statements(tuple(needs)) if isinstance(statement, Var)}
    for statement in statements(tuple(needs)):
        if not isinstance(statement, _PURE):
            return type(statement).__name__.lower()
        if isinstance(statement, Assign) and statement.name not in own:
            return f"an assignment to {statement.name}"
    return None


def _in_place(scope: Scope, part: Part) -> Any:
    """The value, usable in the current block, which takes over what it needs."""
    for statement in part.needs:
        scope.append(statement)
    if not isinstance(part.value, Value) or part.value._block is None:
        return part.value
    return Value(node_of(part.value), caller(), scope, size=part.value._size, block=scope.block)


def _assigned(name: str, value: Any, type_: Type, source: Source) -> Assign:
    node: Expr = node_of(value if isinstance(value, Value) else constant(type_, value, source))
    return Assign(name, node, source)


def _common_type(parts: Sequence[Part], source: Source) -> Type:
    types = {part.value.type for part in parts if isinstance(part.value, Value)}
    if len(types) != 1:
        named = " and ".join(sorted(type_.name for type_ in types))
        raise program_error(f"the arms of the conditional expression are {named}; they must have one type", source)
    return types.pop()
