"""What selfhost.py compares with: random programs, dead code removed as it is told, and value numbers in Python."""

from __future__ import annotations

import operator
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import vyre_cuda as vc
from vyre_cuda.ir.core import nodes
from vyre_cuda.ir.core.walk import Body, bodies, operands
from vyre_cuda.passes.rebuild import with_bodies, with_body

BINARY = (operator.add, operator.mul, operator.sub, operator.xor, vc.minimum)


class Maker:
    """A random program; half of its branches and counted loops are silent, without stores, so they may be dead."""

    def __init__(self, seed: int) -> None:
        self.random, self.b = random.Random(seed), vc.Builder(f"random_{seed}", block=32)
        self.x, self.y = self.b.input("x", vc.u32), self.b.inout("y", vc.u32)
        self.out = self.b.output("out", vc.u32, size=self.x.size)
        self.values: list[Any] = [vc.global_id.x, self.b.scalar("n", vc.u32), self.x.size]
        self.variables: list[Any] = []
        self.block(2, silent=False)
        self.store()

    def expr(self, depth: int = 2) -> Any:
        r = self.random
        kind = r.randrange(10) if depth else r.randrange(4)
        if kind < 2:
            return r.choice([*self.values, *self.variables])
        if kind == 2:
            return vc.u32(r.choice([0, 1, 2, 3, 7, 40, 2**31]))
        if kind == 3:
            return r.choice([self.x, self.x, self.y])[r.choice(self.values)]
        left, right = self.expr(depth - 1), self.expr(depth - 1)
        if kind == 4:
            return vc.where(left < right, left, self.expr(depth - 1))
        return vc.u32(vc.f32(left) * 0.5) if kind == 5 else r.choice(BINARY)(left, right)

    def store(self) -> None:
        r, recent = self.random, [*self.values, *self.variables][-4:]
        r.choice([self.out, self.y])[r.choice(self.values)] = self.expr() + r.choice(recent)

    def block(self, depth: int, *, silent: bool) -> None:
        values, variables = len(self.values), len(self.variables)
        for _ in range(self.random.randint(2, 4)):
            self.statement(depth, silent=silent)
        del self.values[values:], self.variables[variables:]

    def statement(self, depth: int, *, silent: bool) -> None:
        r, b = self.random, self.b
        kind = r.randrange(20)
        if kind < 9:
            self.values.append(b.let("a", self.expr()))
        elif kind < 11:
            self.variables.append(b.var("v", self.expr()))
        elif kind < 14 and self.variables:
            r.choice(self.variables).set(self.expr())
        elif kind < 16 and not silent:
            self.store()
        elif kind < 18 and depth:
            with b.if_(self.expr() < self.expr()):
                self.block(depth - 1, silent=silent or r.random() < 0.5)
            if r.random() < 0.5:
                with b.else_():
                    self.block(depth - 1, silent=silent or r.random() < 0.5)
        elif depth:
            self.loop(depth - 1, silent=silent or r.random() < 0.5)

    def loop(self, depth: int, *, silent: bool) -> None:
        b, count = self.b, self.random.randrange(1, 4)
        if silent or self.random.random() < 0.7:
            with b.for_(self.values[1] % count) as counter:
                self.passes(depth, counter, silent=silent)
        else:
            passed = b.var("passed", vc.u32(0))
            with b.while_(lambda: passed < count):
                passed += 1
                self.passes(depth, passed, silent=silent)

    def passes(self, depth: int, counter: Any, *, silent: bool) -> None:
        """The body of a loop, which ends with a store if it is not silent."""
        r, b = self.random, self.b
        self.values.append(counter)
        self.block(depth, silent=silent)
        if r.random() < 0.6:
            with b.if_(self.expr() < counter):
                self.block(0, silent=silent)
                (b.break_ if silent or r.random() < 0.5 else b.continue_)()
                if r.random() < 0.3:
                    self.block(0, silent=silent)
        self.block(0, silent=silent)
        if not silent:
            self.store()
        self.values.pop()


def random_program(seed: int) -> vc.Program:
    return Maker(seed).b.build()


def without_dead(program: vc.Program, live: npt.NDArray[np.bool_]) -> vc.Program:
    """The program without the statements that are not live."""
    flags = iter(live.tolist())

    def kept(body: Body) -> Body:
        found = []
        for each in body:
            is_live = next(flags)
            inside = tuple([kept(inner) for _, inner in bodies(each)])
            if is_live:
                found.append(with_bodies(each, inside))
        return tuple(found)

    return with_body(program, kept(program.body))


class Numbering:
    """Value numbers by a dictionary, for the expressions of programs in the order of their bytes."""

    def __init__(self, programs: Sequence[vc.Program]) -> None:
        self.known: dict[tuple[Any, ...], int] = {}
        self.found: list[int] = []
        for self.k, program in enumerate(programs):
            self.names: dict[str, int] = {}
            self.written = {p.name for p in program.parameters if p.is_writable}
            for size in [size for p in program.parameters for size in p.declared] + list(program.work or ()):
                self.expression(size)
            self.body(program.body)

    def number(self, *key: Any) -> int:
        return self.known.setdefault(key, len(self.known))

    def body(self, body: Body) -> None:
        for each in body:
            inside = [inner for _, inner in bodies(each)]
            if isinstance(each, nodes.While):
                self.body(inside.pop(0))
            values = [self.expression(expr) for expr in operands(each)]
            if isinstance(each, nodes.Let):
                self.names[each.name] = values[0]
            elif isinstance(each, nodes.For):
                self.names[each.name] = self.number("counter", self.k, each.name)
            for inner in inside:
                self.body(inner)

    def expression(self, expr: nodes.Expr) -> int:
        at = len(self.found)
        self.found.append(0)
        match expr:
            case nodes.Local(_, name) if name in self.names:
                value = self.names[name]
            case nodes.Const(type_, bits):
                value = self.number("const", type_, bits)
            case nodes.Id(_, kind, axis):
                value = self.number("id", kind, axis)
            case nodes.Size(_, name) | nodes.Scalar(_, name):
                value = self.number(type(expr), self.k, name)
            case nodes.Load(_, name, index):
                place = self.expression(index)
                value = self.number("load", self.k, name, place, at if name in self.written else None)
            case nodes.Apply(type_, op, each):
                value = self.number(op, type_, *[self.expression(operand) for operand in each])
            case _:
                value = self.number("variable", at)
        self.found[at] = value
        return value


def is_same_partition(left: npt.NDArray[np.uint32], right: npt.NDArray[np.uint32]) -> bool:
    """Whether both say the same of which places are equal."""
    if left.size != right.size:
        return False
    pairs = np.unique(left.astype(np.uint64) << np.uint64(32) | right).size
    return bool(pairs == np.unique(left).size == np.unique(right).size)


def evaluated(program: vc.Program) -> bytes:
    x = np.arange(40, dtype=np.uint32) * 7
    y, out = vc.evaluate(program, x, x + 3, 5)
    return bytes(y.tobytes() + out.tobytes())
