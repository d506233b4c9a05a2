"""Names and types of expressions, with a diagnostic for each mistake.

Types are derived from declarations and the op table, never taken from the nodes; a node that claims another type is a
finding. An expression that uses something already reported has no type (None) and causes no further finding.
"""

from __future__ import annotations

from vyre_cuda.errors import Diagnostic, counted
from vyre_cuda.ir.core.identifiers import RESERVED, is_identifier
from vyre_cuda.ir.core.nodes import (
    Apply,
    Const,
    Expr,
    Id,
    Load,
    Local,
    OwnArray,
    Parameter,
    Position,
    Scalar,
    SharedArray,
    Size,
    Source,
)
from vyre_cuda.ir.core.ops import OPS, Op, result_type
from vyre_cuda.ir.core.types import Type, bool_
from vyre_cuda.ir.core.walk import Path, assert_never, expressions
from vyre_cuda.records import Record, field

_SHOWN_NAME = 60
# Of ops on operands of types that they take, as an expression says its own type.
_RESULTS: dict[tuple[str, tuple[Type | None, ...], Type], Type] = {}
# Nobody reads more, and untrusted text must not fill the memory with messages.
MAX_FINDINGS = 1000


class LocalInfo(Record):
    """What is known about a local: `type` is None after an error, `kind` is let, var or counter."""

    type: Type | None
    kind: str
    in_scope: bool = True


class Context(Record):
    """The names of a program, the place being checked and the findings so far."""

    index: Type
    parameters: dict[str, Parameter] = field(default_factory=dict)
    shared: dict[str, SharedArray] = field(default_factory=dict)
    arrays: dict[str, OwnArray] = field(default_factory=dict)
    locals: dict[str, LocalInfo] = field(default_factory=dict)
    declared_later: frozenset[str] = frozenset()
    found: list[Diagnostic] = field(default_factory=list)
    path: Path = ()
    source: Source | None = None
    number: int = 0

    def at(self, path: Path, source: Source | None) -> None:
        """Go to a statement or header line; its expressions are numbered from 0 as they are visited."""
        self.path = path
        self.source = source
        self.number = 0

    def report(self, message: str, operand: int | None = None, source: Source | None = None) -> None:
        if len(self.found) < MAX_FINDINGS:
            self.found.append(Diagnostic(message, self.path, operand, source or self.source))

    # ---- names ----

    def is_free(self, name: str) -> bool:
        """Report why `name` cannot be declared here; True if it can."""
        shown = name[:_SHOWN_NAME]
        if not is_identifier(name):
            self.report(f"{shown!r} is not a name; a name is letters, digits and _, and does not begin with a digit")
        elif name in RESERVED:
            self.report(f"{shown} is a keyword; choose another name")
        elif any(name in names for names in (self.parameters, self.shared, self.arrays, self.locals)):
            self.report(f"{shown} is declared twice; names are unique in a program")
        else:
            return True
        return False

    def declare(self, name: str, type_: Type | None, kind: str) -> LocalInfo | None:
        """Declare a local at this place; None if the name is refused."""
        if not self.is_free(name):
            return None
        info = LocalInfo(type_, kind)
        self.locals[name] = info
        return info

    def buffer_type(self, name: str, operand: int | None = None, source: Source | None = None) -> Type | None:
        """The element type of a buffer or an array; reports a name that is neither."""
        owner = self.parameters.get(name) or self.shared.get(name) or self.arrays.get(name)
        if owner is None:
            self.report(self._no_such("buffer or shared array", name), operand, source)
            return None
        if isinstance(owner, Parameter) and not owner.is_buffer:
            self.report(f"{name} is a by-value scalar; it has no elements", operand, source)
            return None
        return owner.type

    def _no_such(self, what: str, name: str) -> str:
        shown = name[:_SHOWN_NAME]
        return f"{shown} is a local; a {what} is needed" if name in self.locals else f"there is no {what} {shown}"

    # ---- types ----

    def index_expr(self, expr: Expr, buffer: str) -> None:
        """Check the index of an access: one of any integer type for each axis."""
        owner = self.parameters.get(buffer) or self.shared.get(buffer) or self.arrays.get(buffer)
        ndim, count = 1 if owner is None else owner.ndim, 1
        if isinstance(expr, Position):
            count = len(expr.indices)
            if owner is not None and (ndim != count or count == 1):
                self.report(_wrong_axes(buffer, ndim, count), self.number, expr.source)
            if expr.type is not self.index:
                self.report(f"the node's type is {expr.type}, not {self.index}", self.number, expr.source)
            self.number += 1
            for index in expr.indices:
                self._index(index)
            return
        if ndim > 1:
            self.report(_wrong_axes(buffer, ndim, 1), self.number, expr.source)
        self._index(expr)

    def _index(self, expr: Expr) -> None:
        operand = self.number
        type_ = self.type_of(expr)
        if type_ is not None and not type_.is_integer:
            self.report(f"the index is {type_}; it must be of an integer type", operand, expr.source)

    def typed_expr(self, expr: Expr, wanted: Type | None, what: str) -> None:
        """Check an expression that must be of one type; None when that type is not known."""
        operand = self.number
        type_ = self.type_of(expr)
        if type_ is not None and wanted is not None and type_ is not wanted:
            self.report(f"{what} is {type_}; it must be {wanted}", operand, expr.source)

    def type_of(self, expr: Expr) -> Type | None:
        """The type of an expression, None if something in it is wrong."""
        operand = self.number
        self.number += 1
        if isinstance(expr, Apply):
            derived = self._apply(expr, operand)
        elif isinstance(expr, Local):
            info = self.locals.get(expr.name)
            if info is None or not info.in_scope:
                self._no_local(expr, info, operand)
                return None
            derived = info.type
        elif isinstance(expr, Const):
            return expr.type
        else:
            derived = self._other(expr, operand)
        if derived is not None and derived is not expr.type:
            self.report(f"the node's type is {expr.type}, but its operands give {derived}", operand, expr.source)
        return derived

    def _other(self, expr: Load | Scalar | Size | Position | Id, operand: int) -> Type | None:
        match expr:
            case Load():
                derived = self.buffer_type(expr.buffer, operand, expr.source)
                self.index_expr(expr.index, expr.buffer)
                return derived
            case Scalar():
                return self._scalar(expr, operand)
            case Size():
                derived = self.index if self.buffer_type(expr.buffer, operand, expr.source) is not None else None
                self._axis(expr, operand)
                return derived
            case Position():
                self.report("several indices are the index of an access and not a value", operand, expr.source)
                for index in expr.indices:
                    self._index(index)
                return None
            case Id():
                return self.index
            case _:
                assert_never(expr)

    def _axis(self, expr: Size, operand: int) -> None:
        owner = self.parameters.get(expr.buffer) or self.shared.get(expr.buffer) or self.arrays.get(expr.buffer)
        ndim = 1 if owner is None else owner.ndim
        if owner is not None and expr.axis is not None and (ndim == 1 or expr.axis >= ndim):
            axes = f"{ndim} axes, numbered from 0" if ndim > 1 else f"one axis; write size({expr.buffer})"
            self.report(f"there is no axis {expr.axis} of {expr.buffer}, which has {axes}", operand, expr.source)

    def _no_local(self, expr: Local, info: LocalInfo | None, operand: int) -> None:
        """Report a name that means no local here."""
        name = expr.name
        shown = name[:_SHOWN_NAME]
        if info is not None:
            message = f"{shown} is not defined here; it is defined in the block that ended above"
        elif name in self.parameters or name in self.shared or name in self.arrays:
            owner = self.parameters.get(name)
            scalar = owner is not None and not owner.is_buffer
            use = "a by-value scalar, not a local" if scalar else f"a buffer; load {shown}[...] or take size({shown})"
            message = f"{shown} is {use}"
        elif name in self.declared_later:
            message = f"{shown} is not defined here; it is defined below"
        else:
            message = f"{shown} is not defined"
        self.report(message, operand, expr.source)

    def _scalar(self, expr: Scalar, operand: int) -> Type | None:
        owner = self.parameters.get(expr.name)
        if owner is None or owner.is_buffer:
            self.report(f"there is no by-value scalar {expr.name[:_SHOWN_NAME]}", operand, expr.source)
            return None
        return owner.type

    def _apply(self, expr: Apply, operand: int) -> Type | None:
        types = tuple(map(self.type_of, expr.operands))
        found = _RESULTS.get((expr.op, types, expr.type))
        if found is not None:
            return found
        op = OPS[expr.op]
        known = tuple(type_ for type_ in types if type_ is not None)
        if len(known) < len(types):
            return {"bool": bool_, "explicit": expr.type}.get(op.result)
        try:
            found = _RESULTS[expr.op, types, expr.type] = result_type(op, known, expr.type)
            return found
        except TypeError as error:
            culprit = _culprit(op, known)
            place = operand
            if culprit is not None:
                place += 1 + sum(1 for _ in expressions(expr.operands[:culprit]))
            self.report(str(error), place, expr.source if culprit is None else expr.operands[culprit].source)
            return None


def _wrong_axes(buffer: str, ndim: int, count: int) -> str:
    return f"{buffer} has {counted(ndim, 'axis', 'axes')}; {counted(count, 'index', 'indices')} given"


def _culprit(op: Op, types: tuple[Type, ...]) -> int | None:
    """The one operand that makes the op impossible, None if it is not a single one."""
    if len(types) != op.arity:
        return None
    first = int(op.leading_bool)
    if op.leading_bool and types[0] is not bool_:
        return 0
    return next((at for at in range(first + 1, len(types)) if types[at] is not types[first]), None)
