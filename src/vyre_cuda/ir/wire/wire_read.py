"""Wire bytes to programs, for bytes from untrusted sources.

Everything that `wire.encode` would not have written is refused with a ProgramError: numbers longer than needed,
repeated names, values out of range, trailing bytes, a program that is not valid. No memory is allocated for counts that
the bytes cannot satisfy, and recursion is bounded by the limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from vyre_cuda.errors import counted
from vyre_cuda.ir.check.validate import check
from vyre_cuda.ir.core.limits import (
    MAX_AXES,
    MAX_DEPTH,
    MAX_EXPRESSIONS,
    MAX_NESTING,
    MAX_PARAMETERS,
    MAX_PRINTED_VALUES,
    MAX_STATEMENTS,
)
from vyre_cuda.ir.core.nodes import (
    AXES,
    ID_KINDS,
    ORDERS,
    PARAMETER_KINDS,
    SCOPES,
    Apply,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    Const,
    Continue,
    Expr,
    For,
    GridBarrier,
    Id,
    If,
    Let,
    Load,
    Local,
    LocalArray,
    OwnArray,
    Parameter,
    ParameterKind,
    Position,
    Print,
    Return,
    Scalar,
    SharedArray,
    Size,
    Stmt,
    Store,
    Table,
    Var,
    Warp,
    While,
    elements,
)
from vyre_cuda.ir.core.ops import ATOMICS_BY_CODE, WARP_OPS_BY_CODE, result_type, warp_result_type
from vyre_cuda.ir.core.ops import BY_CODE as OP_BY_CODE
from vyre_cuda.ir.core.types import Type, u32
from vyre_cuda.ir.wire.wire_tags import (
    ARRAYS,
    FIRST_VERSION,
    MAGIC,
    MIN_BLOCKS,
    PRINT,
    SHAPED_ARRAYS,
    UNZEROED,
    UNZEROED_OUT,
    VERSION,
    WITH_MIN_BLOCKS,
    ExprTag,
    StatementTag,
    first_version,
)
from vyre_cuda.ir.wire.wire_units import Units

if TYPE_CHECKING:
    from vyre_cuda.ir.core.program import Program

_ID_CODES = ID_KINDS.index("lane_id") * len(AXES) + 1  # lane_id has one axis
_PLAIN: dict[int, Stmt] = {
    StatementTag.BREAK: Break(),
    StatementTag.CONTINUE: Continue(),
    StatementTag.RETURN: Return(),
    StatementTag.BARRIER: Barrier(),
    StatementTag.GRID_BARRIER: GridBarrier(),
}

P = TypeVar("P", bound="Program")


class Reader(Units):
    """Reads one program. `values` maps the numbers of scalars and of locals declared so far to their nodes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.version = FIRST_VERSION  # the first that has what was read so far
        self.index: Type = u32
        self.values: dict[str, Local | Scalar] = {}
        self.buffers: dict[str, Type] = {}
        self.statement_count = 0
        self.expression_count = 0

    def needs(self, version: int) -> None:
        """What was read now exists from this version on."""
        self.version = max(self.version, version)

    # ---- sections ----

    def program(self, make: Callable[..., P]) -> P:
        if self.data[: len(MAGIC)] != MAGIC:
            raise self.fault(f"they do not begin with {MAGIC!r}")
        self.at = len(MAGIC)
        version = self.number()
        if not FIRST_VERSION <= version <= VERSION:
            raise self.fault(f"format version {version}; this package reads versions {FIRST_VERSION} to {VERSION}")
        name = self.name()
        min_blocks = self.index_type()
        if self.index.kind == "signed":
            self.needs(2)
        block = (self.number(), self.number(), self.number())
        parameters = self.read_parameters()
        shared = self.read_shared()
        arrays = self.read_arrays() if version >= ARRAYS else ()
        work = tuple(self.expr() for _ in range(self.below(len(AXES) + 1, "the number of work expressions"))) or None
        body = self.body(0)
        if self.at != len(self.data):
            raise self.fault(f"the program has {counted(len(self.data) - self.at, 'byte')} after its end")
        if version != self.version:
            raise self.fault(f"format version {version}; the program is one of version {self.version}")
        program = make(
            name=name,
            parameters=parameters,
            body=body,
            block=block,
            index=self.index,
            work=work,
            shared=shared,
            arrays=arrays,
            min_blocks=min_blocks,
        )
        check(program)
        return program

    def index_type(self) -> int:
        """Read the index type; the blocks that a multiprocessor should hold, or 0."""
        code = self.number()
        min_blocks = 0
        if code >= WITH_MIN_BLOCKS:
            self.needs(MIN_BLOCKS)
            code -= WITH_MIN_BLOCKS
            min_blocks = self.number()
            if not min_blocks:
                raise self.fault("the blocks of a multiprocessor are written, but are 0")
        self.index = self.of_code(code)
        return min_blocks

    def read_parameters(self) -> tuple[Parameter, ...]:
        heads = []
        for _ in range(self.below(MAX_PARAMETERS + 1, "the number of parameters")):
            name = self.name()
            kind, zeroed = self.kind()
            type_ = self.type()
            heads.append((name, kind, type_, self.axes(kind), zeroed))
            if kind == "scalar":
                self.values[name] = Scalar(type_, name)
            else:
                self.buffers[name] = type_
        return tuple(self.parameter(*head) for head in heads)

    def kind(self) -> tuple[ParameterKind, bool]:
        """The kind of a parameter, and whether it is zeroed."""
        number = self.number()
        if number == UNZEROED_OUT:
            self.needs(UNZEROED)
            return "out", False
        if number >= len(PARAMETER_KINDS):
            raise self.fault(f"a parameter's kind is {number}; it must be below {len(PARAMETER_KINDS)}")
        return PARAMETER_KINDS[number], True

    def axes(self, kind: ParameterKind) -> tuple[bool, ...]:
        """Which extents follow; none if there is neither a size nor more than one axis."""
        count = self.below(MAX_AXES + 1, "the number of axes")
        if count > 1 or (count and kind != "out"):
            self.needs(3)
        given = self.below(1 << count, "the axes whose extents are given") if count > 1 else 1
        return tuple([bool(given >> axis & 1) for axis in range(count)])

    def parameter(self, name: str, kind: ParameterKind, type_: Type, axes: tuple[bool, ...], zeroed: bool) -> Parameter:
        shape = tuple([self.expr() if given else None for given in axes])
        if len(shape) < 2:
            return Parameter(name, kind, type_, shape[0] if shape else None, zeroed=zeroed)
        return Parameter(name, kind, type_, elements(shape), shape=shape, zeroed=zeroed)

    def read_shared(self) -> tuple[SharedArray, ...]:
        out = []
        for _ in range(self.count("shared arrays")):
            shared = self.shared_array(self.name(), self.type(), self.number())
            self.buffers[shared.name] = shared.type
            out.append(shared)
        return tuple(out)

    def shared_array(self, name: str, type_: Type, size: int) -> SharedArray:
        """With the size 0, which no array has, the extents of several axes follow."""
        if size:
            return SharedArray(name, type_, size)
        self.needs(3)
        count = self.below(MAX_AXES + 1, "the number of axes")
        if count < 2:
            raise self.fault(
                f"a shared array has {counted(count, 'extent')}; with fewer than two it has a size instead"
            )
        shape = tuple([self.number() for _ in range(count)])
        return SharedArray(name, type_, math.prod(shape), shape=shape)

    def array(self, name: str, type_: Type, size: int) -> OwnArray:
        """With the size 0 a table follows; with 0 elements, an array with several axes."""
        if size:
            return LocalArray(name, type_, size)
        elements = self.number()
        if elements:
            return Table(name, type_, self.take(elements * type_.itemsize))
        self.needs(SHAPED_ARRAYS)
        is_table = self.below(2, "the kind of an array")
        count = self.below(MAX_AXES + 1, "the number of axes")
        if count < 2:
            raise self.fault(f"an array has {counted(count, 'extent')}; with fewer than two it has a size instead")
        shape = tuple([self.number() for _ in range(count)])
        size = math.prod(shape)
        if is_table:
            return Table(name, type_, self.take(size * type_.itemsize), shape=shape)
        return LocalArray(name, type_, size, shape=shape)

    def read_arrays(self) -> tuple[OwnArray, ...]:
        out: list[OwnArray] = []
        for _ in range(self.count("arrays")):
            self.needs(ARRAYS)
            array = self.array(self.name(), self.type(), self.number())
            self.buffers[array.name] = array.type
            out.append(array)
        return tuple(out)

    # ---- expressions ----

    def expr(self, depth: int = 1) -> Expr:
        self.expression_count += 1
        if depth > MAX_DEPTH or self.expression_count > MAX_EXPRESSIONS:
            raise self.fault(f"an expression more than {MAX_DEPTH} levels deep, or more than {MAX_EXPRESSIONS} in all")
        tag = self.number()
        match tag:
            case ExprTag.CONST:
                type_ = self.type()
                return Const(type_, int.from_bytes(self.take(type_.itemsize), "little"))
            case ExprTag.NAME:
                name = self.name()
                if name not in self.values:
                    raise self.fault(f"{name!r} is neither a scalar nor a local declared before")
                return self.values[name]
            case ExprTag.SIZE:
                return Size(self.index, self.name())
            case ExprTag.EXTENT:
                return Size(self.index, self.name(), axis=self.number())
            case ExprTag.POSITION:
                count = self.below(MAX_AXES + 1, "the number of indices")
                return Position(self.index, tuple([self.expr(depth + 1) for _ in range(count)]))
            case ExprTag.ID:
                kind, axis = divmod(self.below(_ID_CODES, "an id"), len(AXES))
                return Id(self.index, ID_KINDS[kind], axis)
            case ExprTag.LOAD:
                name = self.name()
                return Load(self.type_of(name), name, self.expr(depth + 1))
            case ExprTag.APPLY:
                return self.apply(depth)
            case _:
                raise self.fault(f"unknown expression tag {tag}")

    def apply(self, depth: int) -> Apply:
        op = OP_BY_CODE.get(self.number())
        if op is None:
            raise self.fault("no op has this code")
        target = self.type() if op.result == "explicit" else None
        operands = []
        for _ in range(op.arity):
            operands.append(self.expr(depth + 1))
        try:
            type_ = result_type(op, tuple(operand.type for operand in operands), target)
        except TypeError as error:
            raise self.fault(str(error)) from None
        self.needs(first_version(op, operands[-1].type))
        return Apply(type_, op.name, tuple(operands))

    def type_of(self, buffer: str) -> Type:
        if buffer not in self.buffers:
            raise self.fault(f"{buffer!r} is neither a buffer nor a shared array")
        return self.buffers[buffer]

    # ---- statements ----

    def body(self, level: int) -> tuple[Stmt, ...]:
        count = self.count("statements")
        self.statement_count += count
        if self.statement_count > MAX_STATEMENTS or level > MAX_NESTING:
            raise self.fault(f"more than {MAX_STATEMENTS} statements, or more than {MAX_NESTING} nesting levels")
        out = []
        for _ in range(count):
            out.append(self.statement(level))
        return tuple(out)

    def declare(self, name: str, type_: Type) -> str:
        if name in self.values:
            raise self.fault(f"{name!r} is declared twice")
        self.values[name] = Local(type_, name)
        return name

    def statement(self, level: int) -> Stmt:
        tag = self.number()
        match tag:
            case StatementTag.LET | StatementTag.VAR:
                name, value = self.name(), self.expr()
                return (Let if tag == StatementTag.LET else Var)(self.declare(name, value.type), value)
            case StatementTag.ASSIGN:
                return Assign(self.name(), self.expr())
            case StatementTag.STORE:
                return Store(self.name(), self.expr(), self.expr())
            case StatementTag.ATOMIC:
                return self.atomic()
            case StatementTag.WARP:
                return self.warp()
            case StatementTag.IF:
                return If(self.expr(), self.body(level + 1), self.body(level + 1))
            case StatementTag.FOR:
                name, start, stop, step = self.name(), self.expr(), self.expr(), self.expr()
                return For(self.declare(name, start.type), start, stop, step, self.body(level + 1))
            case StatementTag.WHILE:
                return While(self.body(level + 1), self.expr(), self.body(level + 1))
            case StatementTag.ASSERT:
                return Assert(self.expr(), self.name())
            case StatementTag.PRINT:
                self.needs(PRINT)
                format_ = self.name()
                count = self.below(MAX_PRINTED_VALUES + 1, "the number of printed values")
                return Print(format_, tuple([self.expr() for _ in range(count)]))
            case _ if tag in _PLAIN:
                return _PLAIN[tag]
            case _:
                raise self.fault(f"unknown statement tag {tag}")

    def atomic(self) -> Atomic:
        row = ATOMICS_BY_CODE.get(self.number())
        if row is None:
            raise self.fault("no atomic operation has this code")
        result = self.name() if self.below(2, "a flag") else None
        buffer = self.name()
        index = self.expr()
        operands = tuple(self.expr() for _ in range(row.operands))
        order = ORDERS[self.below(len(ORDERS), "a memory order")]
        scope = SCOPES[self.below(len(SCOPES), "a memory scope")]
        if result is not None:
            self.declare(result, self.type_of(buffer))
        return Atomic(result, row.name, buffer, index, operands, order, scope)

    def warp(self) -> Warp:
        row = WARP_OPS_BY_CODE.get(self.number())
        if row is None:
            raise self.fault("no warp operation has this code")
        result = self.name()
        operands = tuple(self.expr() for _ in range(1 + row.lane))
        combine = ""
        if row.combines:
            op = OP_BY_CODE.get(self.number())
            if op is None or op.name not in row.combines:
                raise self.fault(f"{row.name} cannot combine with the op of this code")
            combine = op.name
        self.declare(result, warp_result_type(row, operands[0].type))
        return Warp(result, row.name, operands, combine)
