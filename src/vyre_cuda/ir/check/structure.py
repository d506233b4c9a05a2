"""Whether a program is made of the right Python objects and within the limits.

A program that was put together by hand may hold anything. What passes here can be walked, printed and validated without
surprises: fields have their declared types, names and ops exist as strings, trees are within the limits. Nothing here
recurses, and a tree that shares subtrees without end is abandoned as soon as a limit is exceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vyre_cuda.errors import Diagnostic, counted
from vyre_cuda.ir.core.limits import MAX_AXES, MAX_DEPTH, MAX_EXPRESSIONS, MAX_NESTING, MAX_STATEMENTS
from vyre_cuda.ir.core.nodes import (
    AXES,
    ID_KINDS,
    PARAMETER_KINDS,
    Apply,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    Const,
    Continue,
    For,
    GridBarrier,
    Id,
    If,
    Let,
    Load,
    Local,
    LocalArray,
    Parameter,
    Position,
    Print,
    Return,
    Scalar,
    SharedArray,
    Size,
    Store,
    Table,
    Var,
    Warp,
    While,
    elements,
)
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.types import TYPES
from vyre_cuda.ir.core.walk import Path, bodies, children, operands
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.ir.core.program import Program
    from vyre_cuda.ir.text import text
else:
    text = later("vyre_cuda.ir.text.text")

_TEXT_LENGTH = 60


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 64


def _is_type(value: Any) -> bool:
    return any(value is known for known in TYPES)


def _is_tuple(value: Any) -> bool:
    return isinstance(value, tuple)


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and (not value or 2 <= len(value) <= MAX_AXES)


Rule = tuple[str, Callable[[Any], bool], str]

_NAME: Rule = ("name", _is_text, "a string")
_BUFFER: Rule = ("buffer", _is_text, "a string")
_TYPE: Rule = ("type", _is_type, f"one of the types {', '.join(t.name for t in TYPES)}")

_EXPR_RULES: dict[type, tuple[Rule, ...]] = {
    Const: (_TYPE, ("bits", _is_number, "an int of at most 64 bits")),
    Local: (_TYPE, _NAME),
    Scalar: (_TYPE, _NAME),
    Size: (
        _TYPE,
        _BUFFER,
        ("axis", lambda value: value is None or (_is_number(value) and 0 <= value < MAX_AXES), "0 to 3 or None"),
    ),
    Position: (_TYPE, ("indices", _is_tuple, "a tuple")),
    Id: (
        _TYPE,
        ("kind", lambda value: _is_text(value) and value in ID_KINDS, f"one of {', '.join(ID_KINDS)}"),
        ("axis", lambda value: _is_number(value) and 0 <= value < len(AXES), "0, 1 or 2"),
    ),
    Load: (_TYPE, _BUFFER),
    Apply: (
        _TYPE,
        ("op", lambda value: _is_text(value) and value in OPS, "the name of an op"),
        ("operands", _is_tuple, "a tuple"),
    ),
}
_STATEMENT_RULES: dict[type, tuple[Rule, ...]] = {
    Let: (_NAME,),
    Var: (_NAME,),
    Assign: (_NAME,),
    Store: (_BUFFER,),
    Atomic: (
        ("result", lambda value: value is None or _is_text(value), "a string or None"),
        ("op", _is_text, "a string"),
        _BUFFER,
        ("operands", _is_tuple, "a tuple"),
        ("order", _is_text, "a string"),
        ("scope", _is_text, "a string"),
    ),
    Warp: (
        ("result", _is_text, "a string"),
        ("op", _is_text, "a string"),
        ("operands", _is_tuple, "a tuple"),
        ("combine", _is_text, "a string"),
    ),
    If: (("then", _is_tuple, "a tuple"), ("orelse", _is_tuple, "a tuple")),
    For: (_NAME, ("body", _is_tuple, "a tuple")),
    While: (("setup", _is_tuple, "a tuple"), ("body", _is_tuple, "a tuple")),
    Break: (),
    Continue: (),
    Return: (),
    Barrier: (),
    GridBarrier: (),
    Assert: (("message", _is_text, "a string"),),
    Print: (("format", _is_text, "a string"), ("values", _is_tuple, "a tuple")),
}
_PARAMETER_RULES: tuple[Rule, ...] = (
    _NAME,
    ("kind", lambda value: _is_text(value) and value in PARAMETER_KINDS, f"one of {', '.join(PARAMETER_KINDS)}"),
    _TYPE,
    ("shape", _is_shape, f"() or a tuple of 2 to {MAX_AXES} extents"),
    ("zeroed", lambda value: isinstance(value, bool), "a bool"),
)
_EXTENTS: Rule = (
    "shape",
    lambda value: _is_shape(value) and all(map(_is_number, value)),
    f"() or a tuple of 2 to {MAX_AXES} ints of at most 64 bits",
)
_SHARED_RULES: tuple[Rule, ...] = (
    _NAME,
    _TYPE,
    ("size", _is_number, "an int of at most 64 bits"),
    _EXTENTS,
)
_TABLE_RULES: tuple[Rule, ...] = (
    _NAME,
    _TYPE,
    ("data", lambda value: isinstance(value, bytes), "bytes"),
    _EXTENTS,
)
_PROGRAM_RULES: tuple[Rule, ...] = (
    _NAME,
    ("parameters", _is_tuple, "a tuple"),
    ("body", _is_tuple, "a tuple"),
    (
        "block",
        lambda value: _is_tuple(value) and len(value) == 3 and all(map(_is_number, value)),
        "a tuple of three ints of at most 64 bits",
    ),
    ("index", _is_type, f"one of the types {', '.join(t.name for t in TYPES)}"),
    ("work", lambda value: value is None or _is_tuple(value), "a tuple of expressions or None"),
    ("shared", _is_tuple, "a tuple"),
    ("arrays", _is_tuple, "a tuple"),
    ("min_blocks", _is_number, "an int of at most 64 bits"),
)


_TYPE_IDS = frozenset(map(id, TYPES))
# Most nodes are well formed; this finds out without going through the rules one by one.
_WELL_MADE: dict[type, Callable[[Any], bool]] = {
    Const: lambda e: id(e.type) in _TYPE_IDS and type(e.bits) is int and _fits(e),
    Local: lambda e: id(e.type) in _TYPE_IDS and type(e.name) is str,
    Scalar: lambda e: id(e.type) in _TYPE_IDS and type(e.name) is str,
    Size: lambda e: id(e.type) in _TYPE_IDS and type(e.buffer) is str and e.axis is None,
    Load: lambda e: id(e.type) in _TYPE_IDS and type(e.buffer) is str,
    Apply: lambda e: id(e.type) in _TYPE_IDS and type(e.op) is str and e.op in OPS and type(e.operands) is tuple,
}


def find_malformed(program: Program) -> list[Diagnostic]:
    """Everything that is not as the node classes declare it, or exceeds a limit."""
    checker = _Checker()
    if checker.fields(program, _PROGRAM_RULES, ()):
        checker.program(program)
    return checker.found


def render_malformed(diagnostics: Sequence[Diagnostic]) -> str:
    """The findings as a list; a program like this cannot be printed."""
    out = [f"{counted(len(diagnostics), 'error')} in a program that was put together by hand"]
    for diagnostic in diagnostics:
        where = ".".join(str(part) for part in diagnostic.path) or "program"
        known = text.format_source_line(diagnostic.source)
        out.append(f"    {where}: {diagnostic.message}" + (f" ({known})" if known else ""))
    return "\n".join(out)


class _Checker:
    def __init__(self) -> None:
        self.found: list[Diagnostic] = []
        self.expressions = 0
        self.statements = 0

    def report(self, message: str, path: Path, node: Any = None, operand: int | None = None) -> None:
        self.found.append(Diagnostic(message, path, operand, getattr(node, "source", None)))

    def fields(self, node: Any, rules: tuple[Rule, ...], path: Path, operand: int | None = None) -> bool:
        """Report every field that breaks its rule; True if none does."""
        good = True
        for name, holds, wanted in rules:
            value = getattr(node, name)
            if not holds(value):
                good = False
                kind = type(node).__name__
                self.report(f"{kind}.{name} is {_shown(value)}; it must be {wanted}", path, node, operand)
        return good

    def program(self, program: Program) -> None:
        parameters: tuple[Any, ...] = program.parameters
        for number, parameter in enumerate(parameters):
            path: Path = ("parameters", number)
            if not isinstance(parameter, Parameter):
                self.report(f"{_shown(parameter)} is not a Parameter", path)
            elif self.fields(parameter, _PARAMETER_RULES, path):
                before = len(self.found)
                self.trees(parameter.declared, path, parameter)
                known = len(self.found) == before
                if known and parameter.shape and parameter.size != elements(parameter.shape):
                    self.report("Parameter.size is not the product of its shape (ir.core.nodes.elements)", path)
        shared_arrays: tuple[Any, ...] = program.shared
        for number, shared in enumerate(shared_arrays):
            path = ("shared", number)
            if not isinstance(shared, SharedArray):
                self.report(f"{_shown(shared)} is not a SharedArray", path)
            else:
                self.fields(shared, _SHARED_RULES, path)
        own_arrays: tuple[Any, ...] = program.arrays
        for number, array in enumerate(own_arrays):
            path = ("arrays", number)
            if isinstance(array, LocalArray):
                self.fields(array, _SHARED_RULES, path)
            elif not isinstance(array, Table):
                self.report(f"{_shown(array)} is neither a LocalArray nor a Table", path)
            elif self.fields(array, _TABLE_RULES, path) and len(array.data) % array.type.itemsize:
                length = counted(len(array.data), "byte")
                self.report(f"Table.data has {length}, which is not a multiple of the size of {array.type}", path)
        self.trees(program.work or (), ("work",), program)
        self.body(program.body)

    def body(self, body: tuple[Any, ...]) -> None:
        stack: list[tuple[Path, tuple[Any, ...], int]] = [((), body, 0)]
        while stack:
            prefix, statements, level = stack.pop()
            for number, statement in enumerate(statements):
                path = (*prefix, number)
                self.statements += 1
                if self.statements > MAX_STATEMENTS:
                    self.report(f"the program has more than {MAX_STATEMENTS} statements", path, statement)
                    return
                rules = _STATEMENT_RULES.get(type(statement))
                if rules is None:
                    self.report(f"{_shown(statement)} is not a statement", path)
                    continue
                if not self.fields(statement, rules, path):
                    continue
                if not self.trees(operands(statement), path, statement):
                    return
                nested = bodies(statement)
                if nested and level == MAX_NESTING:
                    self.report(f"statements are nested more than {MAX_NESTING} levels deep", path, statement)
                else:
                    stack.extend(((*path, name), inner, level + 1) for name, inner in reversed(nested))

    def trees(self, roots: tuple[Any, ...], path: Path, owner: Any) -> bool:
        """Check expressions; False when the limit on their number is exceeded, which ends all checking."""
        count = _well_made(roots)
        if 0 <= count <= MAX_EXPRESSIONS - self.expressions:
            self.expressions += count
            return True
        stack = [(root, 1) for root in reversed(roots)]
        number = -1
        while stack:
            expr, depth = stack.pop()
            number += 1
            self.expressions += 1
            if self.expressions > MAX_EXPRESSIONS:
                shared = "subtrees count each time they are used; bind shared ones with a let"
                self.report(f"the program has more than {MAX_EXPRESSIONS} expressions ({shared})", path, owner)
                return False
            if depth > MAX_DEPTH:
                message = f"the expression is more than {MAX_DEPTH} levels deep; bind parts of it with a let"
                self.report(message, path, owner, number)
                return True
            well_made = _WELL_MADE.get(type(expr))
            if (well_made is not None and well_made(expr)) or self.expr_fields(expr, path, owner, number):
                stack.extend((child, depth + 1) for child in reversed(children(expr)))
        return True

    def expr_fields(self, expr: Any, path: Path, owner: Any, number: int) -> bool:
        """Report what is wrong with one expression; True if nothing is."""
        rules = _EXPR_RULES.get(type(expr))
        if rules is None:
            self.report(f"{_shown(expr)} is not an expression", path, owner, number)
            return False
        if not self.fields(expr, rules, path, number):
            return False
        if isinstance(expr, Id) and expr.kind == "lane_id" and expr.axis != 0:
            self.report(f"Id.axis is {expr.axis}; lane_id has one axis, 0", path, expr, number)
            return False
        if isinstance(expr, Const) and not _fits(expr):
            self.report(f"Const.bits is {expr.bits}; it is not a bit pattern of {expr.type}", path, expr, number)
            return False
        return True


def _well_made(roots: tuple[Any, ...]) -> int:
    """How many expressions there are in these trees, -1 if any may not be well formed, or the trees are too deep or too
    many.
    """
    count, level = 0, list(roots)
    for _ in range(MAX_DEPTH):
        count += len(level)
        if not level or count > MAX_EXPRESSIONS:
            return count
        below: list[Any] = []
        for expr in level:
            holds = _WELL_MADE.get(type(expr))
            if holds is None or not holds(expr):
                return -1
            if isinstance(expr, Apply):
                below += expr.operands
            elif isinstance(expr, Load):
                below.append(expr.index)
        level = below
    return count if not level else -1


def _fits(expr: Const) -> bool:
    return 0 <= expr.bits < (2 if expr.type.kind == "bool" else 1 << expr.type.bits)


def _shown(value: Any) -> str:
    """The value if it is short; otherwise its class, because a repr may be endless."""
    if value is None or isinstance(value, (bool, float)) or _is_number(value):
        return repr(value)
    if isinstance(value, str):
        return repr(value[:_TEXT_LENGTH])
    return f"an object of class {type(value).__name__}"
