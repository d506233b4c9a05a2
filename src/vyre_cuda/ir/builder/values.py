"""Expressions as Python objects that make typed nodes; errors are raised at the line that is wrong.

A `Value` is immutable and pure: evaluating it anywhere in its block gives the same result. The block is the innermost
one that was open where it was made, and the value ends with it. A tree never grows past
`MAX_TREE` nodes: bigger operands are bound to a `let` first, so a program is as long as its source. What belongs
to no builder yet (constants, ids and ops on them) is an `Unplaced` value and gets its nodes, and ids their index type,
where a builder first uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from vyre_cuda.errors import type_name
from vyre_cuda.ir.builder.operators import Expression, Number, Operand
from vyre_cuda.ir.builder.scopes import Block, Scope, caller, out_of_block, program_error, running
from vyre_cuda.ir.core.nodes import Apply, Const, Expr, Local, Source
from vyre_cuda.ir.core.ops import OPS, Op, result_type
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import Type, bool_, by_dtype

MAX_TREE = 64
_SMALL_TREE = 20  # three operands of this many nodes and their op stay within MAX_TREE

# Ops by operator: the row whose types fit the operands is chosen.
BY_SYMBOL: dict[str, tuple[Op, ...]] = {}
for _op in OPS.values():
    BY_SYMBOL[_op.symbol] = (*BY_SYMBOL.get(_op.symbol, ()), _op)
BY_SYMBOL |= {"~": (OPS["invert"], OPS["logical_not"]), "neg": (OPS["negative"],), "abs": (OPS["absolute"],)}


class Value(Expression):
    """An expression of a program; `type` is its type and `dtype` the corresponding NumPy dtype."""

    __slots__ = ("_block", "_bound", "_node", "_scope", "_size", "_source")

    _scope: Scope | None
    _source: Source

    def __init__(
        self, node: Expr, source: Source, scope: Scope | None = None, *, size: int = 1, block: Block | None = None
    ) -> None:
        self._node = node
        self._source = source
        self._scope = scope
        self._size = size  # nodes of the tree
        self._block = block  # where it was made, if it reads a buffer or a local; otherwise it can be used anywhere
        self._bound: Value | None = None  # the local that holds this value, once it had to be bound

    @property
    def type(self) -> Type:
        """Its type."""
        return self._node.type

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of its type."""
        return self.type.dtype

    def read(self) -> Value:
        return self

    def _apply(self, symbol: str, *operands: Operand) -> Value:
        return operate(BY_SYMBOL[symbol], operands)

    def __repr__(self) -> str:
        return f"<{self.type} expression of line {self._source[1]}>"


class Unplaced(Value):
    """An expression that no builder has used yet; `make` returns its value in the scope that does."""

    __slots__ = ("_known", "_make", "_operands")

    def __init__(self, make: Maker, operands: tuple[Operand, ...], known: Type | None, source: Source) -> None:
        self._make = make
        self._operands = operands
        self._known = known
        self._source = source
        self._scope = None

    @property
    def type(self) -> Type:
        if self._known is None:
            raise TypeError("this expression takes its type from the builder that uses it: bind it with b.let first")
        return self._known

    def __repr__(self) -> str:
        return f"<{self._known or 'index'} expression of line {self._source[1]}>"


Maker: TypeAlias = "Callable[[Scope, Sequence[Operand]], Value]"
# ---- making expressions ---------------------------------------------------------------------------------------------


def apply(name: str, *operands: Operand) -> Value:
    """The op of this name, applied."""
    return operate((OPS[name],), operands)


def operate(rows: tuple[Op, ...], operands: Sequence[Operand], explicit: Type | None = None) -> Value:
    """Apply the row that takes the operands' type. Raises ProgramError with the rule that they break."""
    source = caller()
    values = tuple(_read(operand, source, rows[0].name) for operand in operands)
    scope = next((v._scope for v in values if isinstance(v, Value) and v._scope is not None), None)
    if scope is None:
        scope = running.scope
        if scope is None:
            return _unplaced_op(rows, values, explicit, source)
    return _place_op(scope, rows, values, explicit, source)


def constant(type_: Type, number: Any, source: Source) -> Value:
    """A literal of this type. Raises ProgramError if out of range, TypeError if it is not such a number."""
    try:
        return Value(Const(type_, bits_of(type_, number), source), source)
    except OverflowError as error:
        raise program_error(str(error), source) from None


def place(scope: Scope, operand: Operand, source: Source, type_: Type | None = None, what: str = "value") -> Value:
    """The operand as a value of this builder, of type `type_` if given; `what` names it in errors."""
    scope.require_unbuilt(source)
    value = _read(operand, source, what)
    if not isinstance(value, Value):
        type_ = _own_type(value) if type_ is None else type_
        if type_ is None:
            raise TypeError(f"the {what} {value!r} has no type: write vc.f32({value!r}), vc.u32(...) or similar")
        return constant(type_, value, source)
    placed = _placed(scope, value, source)
    if type_ is not None and placed.type is not type_:
        raise program_error(f"the {what} is {placed.type}; it must be {type_} (write vc.{type_}(...))", source)
    return placed


def local(scope: Scope, node: Local) -> Value:
    """The value of a local of the current block."""
    if scope.runs:
        return leaf(scope, node, node.source or scope.block.source)
    return Value(node, node.source or scope.block.source, scope, block=scope.block)


def bind(scope: Scope, value: Value, name: str, source: Source) -> Value:
    """The value as a new local of the current block."""
    return value if scope.runs else local(scope, scope.let(name, value._node, source))


def leaf(scope: Scope, node: Expr, source: Source) -> Value:
    """The value of an id, a size or a scalar parameter, which can be used anywhere."""
    value: Value = scope.value(node, source) if scope.runs else Value(node, source, scope)
    return value


def read_here(scope: Scope, value: Value, source: Source) -> Value:
    """The value as it is now, as a new local of the current block."""
    if scope.runs:
        return value
    return scope.append_read("t", value._node, source, lambda made: local(scope, made))


def move_into(block: Block, values: Iterable[Value]) -> None:
    """These values, which nothing has used outside of it, belong to this block."""
    for value in values:
        value._block = block


def node_of(value: Value) -> Expr:
    """The nodes of a placed value."""
    return value._node


def made_here(scope: Scope, node: Expr, operands: Sequence[Value], source: Source) -> Value:
    """The value of a node that holds the trees of `operands`, for use in the current block."""
    if scope.runs:
        return leaf(scope, node, source)
    return Value(node, source, scope, size=1 + sum(v._size for v in operands), block=scope.block)


def fitting(scope: Scope, operands: Sequence[Value], source: Source) -> list[Value]:
    """The operands, with big ones bound to locals if a node above them would make a tree of over MAX_TREE nodes."""
    if sum(v._size for v in operands) < MAX_TREE:
        return list(operands)
    return [_bound(scope, v, source) if v._size > _SMALL_TREE else v for v in operands]


def _bound(scope: Scope, value: Value, source: Source) -> Value:
    if value._bound is None or not _is_visible(value._bound):
        value._bound = read_here(scope, value, source)
    return value._bound


def _read(operand: Operand, source: Source, what: str) -> Value | Number | np.generic:
    """The operand as a value, or as a number that still has to take a type."""
    if isinstance(operand, Expression):
        return operand.read()
    if isinstance(operand, np.generic):
        if by_dtype(operand.dtype) is None:
            raise TypeError(f"{what}: programs have no type for {operand.dtype}")
        return operand
    if isinstance(operand, (bool, int, float)):
        return operand
    raise TypeError(f"{what}: {_instead_of_value(operand)}")


def _instead_of_value(operand: Any) -> str:
    """What was given where a value is needed, and what to write."""
    if isinstance(operand, (np.dtype, Type)):
        return "a type where an expression or a number is needed; calling a type converts a value, as in vc.f32(x)"
    said = f"{type_name(operand)} where an expression or a number is needed"
    return said if operand is None or isinstance(operand, str) else f"{said}; read an element as x[i]"


def _own_type(operand: Any) -> Type | None:
    """The type of an operand that determines its own type: for a NumPy scalar, that of its dtype."""
    if isinstance(operand, Value):
        return operand.type
    return by_dtype(operand.dtype) if isinstance(operand, np.generic) else None


def _typed(
    rows: tuple[Op, ...], operands: Sequence[Operand], explicit: Type | None, source: Source
) -> tuple[Op, list[Value], Type]:
    """Choose the row, turn the numbers into constants and check the types."""
    lead = int(rows[0].leading_bool)
    common = next((o.type for o in operands[lead:] if isinstance(o, Value)), None)
    common = next(filter(None, map(_own_type, operands[lead:])), None) if common is None else common
    if common is None:
        raise TypeError(
            f"no operand of {rows[0].name} has a type: write vc.f32(...), vc.u32(...) or similar around one"
        )
    op = next((row for row in rows if common in row.types), rows[0])
    values = [
        o if isinstance(o, Value) else constant(bool_ if position < lead else common, o, source)
        for position, o in enumerate(operands)
    ]
    try:
        return op, values, result_type(op, tuple(v.type for v in values), explicit)
    except TypeError as error:
        raise program_error(str(error), source) from None


def _unplaced_op(
    rows: tuple[Op, ...], operands: tuple[Operand, ...], explicit: Type | None, source: Source
) -> Unplaced:
    if any(isinstance(o, Unplaced) and o._known is None for o in operands):
        known = bool_ if rows[0].result == "bool" else explicit
    else:
        known = _typed(rows, operands, explicit, source)[2]
    return Unplaced(lambda scope, placed: _place_op(scope, rows, placed, explicit, source), operands, known, source)


def _place_op(
    scope: Scope, rows: tuple[Op, ...], operands: Sequence[Operand], explicit: Type | None, source: Source
) -> Value:
    scope.require_unbuilt(source)
    placed = [_placed(scope, o, source) if isinstance(o, Value) else o for o in operands]
    op, values, result = _typed(rows, placed, explicit, source)
    values = fitting(scope, values, source)
    node = Apply(result, op.name, tuple(v._node for v in values), source)
    if scope.runs:
        return leaf(scope, node, source)
    if any(v._block is not None for v in values):
        return made_here(scope, node, values, source)
    return Value(node, source, scope, size=1 + sum(v._size for v in values))


def _placed(scope: Scope, value: Value, source: Source) -> Value:
    if isinstance(value, Unplaced):
        return _place_graph(scope, value)
    if value._scope is not None and value._scope is not scope:
        raise program_error(
            f"a value of the builder of {value._scope.program} is used in the builder of {scope.program}", source
        )
    if not _is_visible(value):
        assert value._block is not None  # a value without a block is visible
        raise out_of_block(value._node.name if isinstance(value._node, Local) else "a value", value._block, source)
    return value


def _place_graph(scope: Scope, root: Unplaced) -> Value:
    """Place an unplaced value, operands first, each shared one once; without recursion, because it may be deep."""
    todo = [root]
    while todo:
        value = todo[-1]
        missing = [o for o in value._operands if isinstance(o, Unplaced) and _known_place(scope, o) is None]
        if missing:
            todo.extend(missing)
            continue
        todo.pop()
        if _known_place(scope, value) is None:
            operands = [scope.placed[id(o)][1] if isinstance(o, Unplaced) else o for o in value._operands]
            scope.placed[id(value)] = (value, value._make(scope, operands))
    placed: Value = scope.placed[id(root)][1]
    return placed


def _known_place(scope: Scope, value: Unplaced) -> Value | None:
    known = scope.placed.get(id(value))
    return known[1] if known is not None and _is_visible(known[1]) else None


def _is_visible(value: Value) -> bool:
    return value._block is None or value._block.is_open


def _convert(type_: Type, value: Any) -> Value:
    """What calling a type does: cast an expression, or make a constant."""
    if isinstance(value, Expression):
        return operate((OPS["cast"],), (value,), explicit=type_)
    made = constant(type_, value, caller())
    return made if running.scope is None else leaf(running.scope, made._node, made._source)


Type.convert = _convert
