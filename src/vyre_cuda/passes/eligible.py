"""Which programs can have several elements a thread (`elements.py`), and what their elements are."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from vyre_cuda.errors import Error
from vyre_cuda.ir.core.nodes import (
    Apply,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Expr,
    For,
    GridBarrier,
    Id,
    If,
    Let,
    Load,
    Local,
    Print,
    Return,
    Size,
    Store,
    Table,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.core.ops import FUNCTIONS
from vyre_cuda.ir.core.program import Program, primary_buffer
from vyre_cuda.ir.core.types import Type
from vyre_cuda.ir.core.walk import Body, buffers_written, children, expressions, operands, statements

_COST_OF_FUNCTION = 16
# What a statement is called where the program is refused for it.
_CALLED = {
    For: "a loop",
    While: "a loop",
    Return: "a return inside a branch",
    Assert: "an assertion",
    Atomic: "an atomic",
    Barrier: "a barrier",
    GridBarrier: "a barrier of the grid",
    Warp: "a warp operation",
    Print: "a print",
}


class Refused(Error):
    """The program keeps one element a thread; the message says why."""

    code = "elements"


def check(program: Program, body: Body, own: set[str], most_cost: int) -> None:
    """Raises Refused, with the reason."""
    if program.shared:
        raise Refused("it has shared arrays")
    if program.arrays:
        tables = all(isinstance(array, Table) for array in program.arrays)
        raise Refused("it has tables" if tables else "its threads have arrays of their own")
    if program.block[1:] != (1, 1):
        raise Refused("its blocks have more than one axis")
    for statement in statements(body):
        if not isinstance(statement, (Let, Var, Assign, Store, If)):
            raise Refused(f"it has {_CALLED.get(type(statement), type(statement).__name__)}")
        for expr in expressions(operands(statement)):
            if isinstance(expr, Id) and (expr.kind, expr.axis) != ("global_id", 0):
                raise Refused(f"it uses {expr.kind}")
    if cost_of(body) > most_cost and _cost_of_distinct(body) > most_cost:
        raise Refused("it computes so much for each element that memory does not limit its speed")
    if all(type_.bits == 64 for type_, _ in accessed(body)):
        raise Refused("it reads and writes eight bytes at a time, which is enough to keep memory busy")
    for name in buffers_written(body):
        if any(not is_own(index, own) for index in _places(body, name)):
            raise Refused(f"it reads {name}, which it also writes, at other places than its own element")


def accessed(body: Body) -> Iterator[tuple[Type, Expr]]:
    """The type and the index of each load and store."""
    for statement in statements(body):
        for expr in expressions(operands(statement)):
            if isinstance(expr, Load):
                yield expr.type, expr.index
        if isinstance(statement, Store):
            yield statement.value.type, statement.index


def cost_of(body: Body) -> int:
    """About how many instructions an element takes."""
    return sum(map(_cost, expressions(expr for statement in statements(body) for expr in operands(statement))))


def _cost_of_distinct(body: Body) -> int:
    """The same where equal expressions count once, like those of indices, which are computed once."""
    numbers: dict[Hashable, int] = {}
    number_of: dict[int, int] = {}  # by id
    total = 0
    for expr in reversed(list(expressions(expr for statement in statements(body) for expr in operands(statement)))):
        parts = tuple([number_of[id(part)] for part in children(expr)])
        name = expr.op if isinstance(expr, Apply) else expr.buffer if isinstance(expr, Load) else ""
        key: Hashable = (type(expr), name, expr.type, parts) if parts else expr
        if key not in numbers:
            numbers[key] = len(numbers)
            total += _cost(expr)
        number_of[id(expr)] = numbers[key]
    return total


def _cost(expr: Expr) -> int:
    return _COST_OF_FUNCTION if isinstance(expr, Apply) and expr.op in FUNCTIONS else 1


def work_of(program: Program) -> Expr:
    """How many threads a launch is to have at least, as the host computes it."""
    if program.work is None:
        primary = primary_buffer(program)
        if primary is None:
            raise Refused("its work is not known")
        return Size(program.index, primary.name)
    if len(program.work) > 1:
        raise Refused("its work has more than one axis")
    (work,) = program.work
    if work.type is not program.index:
        raise Refused(f"its work is of type {work.type}, not of its index type")
    return work


def _places(body: Body, buffer: str) -> Iterator[Expr]:
    """The indices at which a buffer is accessed, if some access is a load."""
    found: list[Expr] = []
    loads = False
    for statement in statements(body):
        if isinstance(statement, Store) and statement.buffer == buffer:
            found.append(statement.index)
        for expr in expressions(operands(statement)):
            if isinstance(expr, Load) and expr.buffer == buffer:
                loads = True
                found.append(expr.index)
    return iter(found if loads else ())


def own_names(body: Body) -> set[str]:
    """The lets that are the thread's number."""
    found: set[str] = set()
    for statement in statements(body):
        if isinstance(statement, Let) and is_own(statement.value, found):
            found.add(statement.name)
    return found


def is_own(expr: Expr, own: set[str]) -> bool:
    """Whether it is the thread's number."""
    return isinstance(expr, Id) if not isinstance(expr, Local) else expr.name in own
