"""Expressions of the IR as terms and as values, and the locals they name.

An expression becomes a term when its statement is lowered, and what a statement needs of it a value. A `let` names a
term, whose value is computed there, or, of a sum, before the next branch or loop at the latest. A `var` is a mutable
register; what was last assigned is remembered as long as no other path can have changed it, so that a read is mostly
the assigned term itself. A read that must look at the register copies it: a value never changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_cuda.codegen.forms.isel import BITS, MACHINE_TYPE
from vyre_cuda.codegen.lowering.access_forms import RAW_TYPE, from_raw, raw_range
from vyre_cuda.codegen.lowering.extraction import Extraction
from vyre_cuda.codegen.lowering.isel_memory import Index, Memory
from vyre_cuda.codegen.lowering.isel_sync import lane_id, special
from vyre_cuda.codegen.ssa.intervals import FULL
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.codegen.terms.terms import Terms
from vyre_cuda.errors import InternalError
from vyre_cuda.ir.core.limits import MAX_GRID
from vyre_cuda.ir.core.nodes import AXES, Apply, Const, Expr, Id, Load, Local, Position, Scalar, Size
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, f16
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.codegen.lowering import halves
else:
    halves = later("vyre_cuda.codegen.lowering.halves")

State = dict[str, int]


class Locals:
    """The lets and vars of a program while its statements are lowered in order."""

    __slots__ = ("_extraction", "_registers", "_types", "builder", "state", "values")

    def __init__(self, builder: Builder, extraction: Extraction) -> None:
        self.builder = builder
        self._extraction = extraction
        self.values: dict[str, int] = {}  # classes of terms
        self.state: State = {}  # var -> the class of the value that its register surely holds
        self._registers: dict[str, int] = {}
        self._types: dict[str, Type] = {}

    def read(self, name: str) -> int:
        """The class of a let, counter or atomic result, or of the current value of a var."""
        value = self.values.get(name)
        if value is None:
            value = self.state.get(name)
        if value is None:
            register = self._registers[name]
            function = self.builder.function
            value = function.fresh("read", function.registers[register], (), register)
            type_ = self._types[name]
            self.builder.facts.observe(value)
            if type_.is_integer and type_.bits < 32:
                self.builder.facts.give_range(value, type_.minimum, type_.maximum)
            if type_ is f16:
                value = self.builder.convert("float.f16", "f32", value)
            value = self.state[name] = self._extraction.leaf(type_, value)
        return value

    def declare(self, name: str, class_: int, type_: Type) -> None:
        """Declare a new var."""
        self._registers[name] = self.builder.function.register("b16" if type_ is f16 else MACHINE_TYPE[type_])
        self._types[name] = type_
        self.assign(name, class_)

    def is_var(self, name: str) -> bool:
        """Whether it is a var, whose value can change."""
        return name in self._registers

    def define(self, name: str, value: int, type_: Type) -> None:
        """Name a value that is not made of others."""
        self.values[name] = self._extraction.leaf(type_, value)

    def assign(self, name: str, class_: int) -> None:
        value = self._extraction.used(class_)
        # As f32 an f16 NaN would lose sign and payload.
        held = halves.packed(self.builder, f16, value) if self._types[name] is f16 else value
        self.builder.function.effect("set", (held,), self._registers[name])
        self.state[name] = class_

    def forget(self, names: frozenset[str]) -> None:
        """These vars may have been assigned on another path."""
        for name in names:
            self.state.pop(name, None)


class Expressions:
    """Lowers the expressions of one program."""

    __slots__ = ("_block", "_loaded", "_memo", "builder", "extraction", "locals", "memory", "terms")

    def __init__(self, builder: Builder, memory: Memory, program: Program) -> None:
        self.builder = builder
        self.memory = memory
        self.terms = Terms(builder.facts.tight_range, builder.precision)
        self.extraction = Extraction(builder, self.terms)
        self.locals = Locals(builder, self.extraction)
        self._block = program.block
        self._memo: dict[int, int] = {}
        self._loaded: dict[tuple[str, Index], int] = {}

    def start_statement(self) -> None:
        """Forget what was evaluated for the previous statement, because it may have changed."""
        self._memo.clear()
        self._loaded.clear()

    def open_scope(self) -> None:
        self.builder.open_scope()
        self.terms.open_scope()

    def close_scope(self) -> None:
        self.extraction.forget()
        self.terms.close_scope()
        self.builder.close_scope()

    def value(self, expr: Expr) -> int:
        """The current value of an expression, which is used."""
        return self.extraction.used(self.term(expr))

    def stored(self, expr: Expr) -> int:
        """The current value of an expression, for somebody who does not look at more bits than the type has."""
        return self.extraction.stored(self.term(expr))

    def let(self, name: str, expr: Expr) -> None:
        """Name an expression. It is computed here, unless nobody needs it as it stands."""
        class_ = self.locals.values[name] = self.term(expr)
        self.extraction.named(class_)

    def ahead(self, name: str | None, expr: Expr) -> None:
        """Compute an expression here for a later statement, which names it if it is a let."""
        class_ = self.term(expr)
        if name is not None:
            self.locals.values[name] = class_
        self.extraction.needed(class_)

    def term(self, expr: Expr) -> int:
        """The class of an expression. One that occurs twice in a statement is evaluated once.

        That depends on the program's structure and not on which nodes are the same object: equal programs give the same
        text.
        """
        if type(expr) is Apply:
            found = self._memo.get(id(expr))
            if found is None:
                made = self.terms.apply(expr.op, expr.type, self._operands(expr.operands))
                found = self._memo[id(expr)] = made
            return found
        if type(expr) is Load:
            return self._load(expr)
        if type(expr) is Const:
            return self.terms.literal(expr.type, expr.bits)
        if type(expr) is Local:
            return self.locals.read(expr.name)
        if type(expr) is Position:
            raise InternalError("indices of several axes outside of an access")
        return self.extraction.leaf(expr.type, self._given(expr))

    def _given(self, expr: Id | Size | Scalar) -> int:
        """The value of what is given with the launch."""
        if isinstance(expr, Id):
            return self.launch_id(expr.kind, expr.axis)
        if isinstance(expr, Scalar):
            return self._scalar(expr.name, expr.type)
        return self.memory.size(expr.buffer) if expr.axis is None else self.memory.extent(expr.buffer, expr.axis)

    def index(self, expr: Expr) -> Index:
        """The index of an access."""
        if isinstance(expr, Position):
            return tuple([self.value(index) for index in expr.indices])
        return self.value(expr)

    def _load(self, expr: Load) -> int:
        found = self._memo.get(id(expr))
        if found is None:
            place = (expr.buffer, self.index(expr.index))
            found = self._loaded.get(place)
            if found is None:
                found = self._loaded[place] = self.extraction.leaf(expr.type, self.memory.load(*place))
            self._memo[id(expr)] = found
        return found

    def _operands(self, operands: tuple[Expr, ...]) -> tuple[int, ...]:
        """The classes of expressions."""
        term, lets = self.term, self.locals.values
        found = []
        for expr in operands:
            class_ = lets.get(expr.name) if type(expr) is Local else None
            found.append(term(expr) if class_ is None else class_)
        return tuple(found)

    def _scalar(self, name: str, type_: Type) -> int:
        b = self.builder
        raw = b.entry("parameter", RAW_TYPE[type_], (), ("scalar", name), within=raw_range(type_))
        return from_raw(b, type_, raw)

    # ---- launch coordinates ----

    def launch_id(self, kind: str, axis: int) -> int:
        """A launch coordinate as the index type, with the interval that the launch limits give it."""
        b = self.builder
        if kind == "lane_id":
            return self._as_index(lane_id(b, self._block))
        extent = self._block[axis]
        if kind == "block_dim":
            return b.constant(self.memory.index, extent)
        if kind != "global_id":
            return self._as_index(self._special(kind, axis))
        block, thread = self._special("block_id", axis), self._special("thread_id", axis)
        if extent == 1:
            return self._as_index(block)
        factor = b.constant("u32", extent)
        if BITS[self.memory.index] == 32:
            # A launch has no more threads than the type counts; as a u32 that is not a bound.
            within = (0, FULL["s32"][1]) if self.memory.index == "s32" else None
            return self._retyped(b.entry("multiply_add", "u32", (block, factor, thread), within=within))
        highest = MAX_GRID[axis] * extent - 1
        wide = b.entry("multiply_wide_add", "u64", (block, factor, self._widened(thread)), within=(0, highest))
        return self._retyped(wide)

    def _as_index(self, value: int) -> int:
        """A u32 made of entry values as the index type."""
        return self._retyped(value if BITS[self.memory.index] == 32 else self._widened(value))

    def _widened(self, value: int) -> int:
        b = self.builder
        if b.is_constant(value):
            return b.constant("u64", b.function.attrs[value])
        return b.entry("widen", "u64", (value,))

    def _retyped(self, value: int) -> int:
        """An unsigned value made of entry values as the index type, which has it too where it is signed."""
        b, index = self.builder, self.memory.index
        if index == b.function.types[value]:
            return value
        if b.is_constant(value):
            return b.constant(index, b.function.attrs[value])
        return b.entry("retype", index, (value,))

    def _special(self, kind: str, axis: int) -> int:
        """A 32-bit coordinate of the hardware."""
        if kind == "thread_id" and self._block[axis] == 1:
            return self.builder.constant("u32", 0)
        name = {"grid_dim": "%nctaid", "block_id": "%ctaid", "thread_id": "%tid"}[kind]
        return special(self.builder, f"{name}.{AXES[axis]}", self._block)
