"""Expressions of the IR as values, and the locals they name.

A `let` is a value. A `var` is a mutable register; what was last assigned is remembered as long as no other path can
have changed it, so that a read is mostly the assigned value itself. A read that must look at the register copies it:
a value never changes.
"""

from __future__ import annotations

from vyre_cuda.ir.nodes import AXES, Apply, Const, Expr, Id, Load, Local, Scalar, Size
from vyre_cuda.ir.program import Program
from vyre_cuda.ir.types import Type, bool_
from vyre_cuda.ir.walk import assert_never
from vyre_cuda.ptx.isel import MACHINE_TYPE
from vyre_cuda.ptx.isel_memory import Memory
from vyre_cuda.ptx.isel_sync import special
from vyre_cuda.ptx.legalize import apply_op
from vyre_cuda.ptx.peephole import Builder, wrap

# The most blocks of a launch per axis on every CUDA device (CUDA C++ programming guide, compute capabilities).
_MAX_GRID = (2**31 - 1, 65535, 65535)

State = dict[str, int]


class Locals:
    """The lets and vars of a program while its statements are lowered in order."""

    __slots__ = ("_registers", "builder", "state", "values")

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.values: dict[str, int] = {}
        self.state: State = {}  # var -> the value that its register surely holds
        self._registers: dict[str, int] = {}

    def read(self, name: str) -> int:
        """The value of a let, counter or atomic result, or of a var at this moment."""
        value = self.values.get(name)
        if value is None:
            value = self.state.get(name)
        if value is None:
            register = self._registers[name]
            function = self.builder.function
            value = self.state[name] = function.fresh("read", function.registers[register], (), register)
            self.builder.facts.observe(value)
        return value

    def declare(self, name: str, value: int) -> None:
        """A new var."""
        function = self.builder.function
        self._registers[name] = function.register(function.types[value])
        self.assign(name, value)

    def assign(self, name: str, value: int) -> None:
        self.builder.function.effect("set", (value,), self._registers[name])
        self.state[name] = value

    def forget(self, names: frozenset[str]) -> None:
        """These vars may have been assigned on another path."""
        for name in names:
            self.state.pop(name, None)


class Expressions:
    """Lowers the expressions of one program."""

    __slots__ = ("_block", "_memo", "builder", "locals", "memory")

    def __init__(self, builder: Builder, memory: Memory, program: Program) -> None:
        self.builder = builder
        self.memory = memory
        self.locals = Locals(builder)
        self._block = program.block
        self._memo: dict[int, int] = {}

    def start_statement(self) -> None:
        """What was evaluated for the statement before may have changed."""
        self._memo.clear()

    def value(self, expr: Expr) -> int:
        """The value of an expression at this moment. A node met twice in one statement is evaluated once."""
        match expr:
            case Local():
                return self.locals.read(expr.name)
            case Const():
                return self.builder.constant(*_literal(expr.type, expr.bits))
            case Apply() | Load():
                found = self._memo.get(id(expr))
                if found is None:
                    found = self._memo[id(expr)] = self._compute(expr)
                return found
            case Id():
                return self.launch_id(expr.kind, expr.axis)
            case Size():
                return self.memory.size(expr.buffer)
            case Scalar():
                return self._scalar(expr.name, expr.type)
            case _:
                assert_never(expr)

    def _compute(self, expr: Apply | Load) -> int:
        if isinstance(expr, Load):
            return self.memory.load(expr.buffer, self.value(expr.index))
        operands = [self.value(operand) for operand in expr.operands]
        return apply_op(self.builder, expr.op, MACHINE_TYPE[expr.type], operands)

    def _scalar(self, name: str, type_: Type) -> int:
        b = self.builder
        function = b.function
        if type_ is not bool_:
            return function.entry_value("parameter", MACHINE_TYPE[type_], (), ("scalar", name))
        byte = function.entry_value("parameter", "u32", (), ("scalar", name))
        return function.entry_value("not_equal", "pred", (byte, b.constant("u32", 0)))

    def launch_id(self, kind: str, axis: int) -> int:
        """A launch coordinate, with the interval that the launch limits give it."""
        extent = self._block[axis]
        if kind == "block_dim":
            return self.builder.constant("u32", extent)
        if kind == "grid_dim":
            return self._special("%nctaid", axis, 1, _MAX_GRID[axis])
        if kind == "block_id":
            return self._special("%ctaid", axis, 0, _MAX_GRID[axis] - 1)
        if kind == "thread_id":
            return self._special("%tid", axis, 0, extent - 1) if extent > 1 else self.builder.constant("u32", 0)
        if extent == 1:
            return self.launch_id("block_id", axis)
        b = self.builder
        operands = (self.launch_id("block_id", axis), b.constant("u32", extent), self.launch_id("thread_id", axis))
        made = b.function.entry_value("multiply_add", "u32", operands)
        b.facts.observe(made)
        return made

    def _special(self, name: str, axis: int, low: int, high: int) -> int:
        b = self.builder
        made = special(b, f"{name}.{AXES[axis]}")
        if made >= len(b.facts.ranges):
            b.facts.give_range(made, low, high)
        return made


def _literal(type_: Type, bits: int) -> tuple[str, int]:
    machine = MACHINE_TYPE[type_]
    return machine, wrap("s32", bits) if machine == "s32" else bits
