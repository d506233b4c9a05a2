"""Barriers in control flow that differs between threads of a block are found, and uniform ones are left alone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.nodes import (
    Apply,
    Assign,
    Barrier,
    Break,
    Const,
    Continue,
    Expr,
    For,
    Id,
    If,
    Local,
    Return,
    Stmt,
    Var,
    While,
)
from vyre_cuda.ir.parse import parse
from vyre_cuda.ir.program import Program
from vyre_cuda.ir.types import bool_, u32
from vyre_cuda.ir.uniformity import find_divergent
from vyre_cuda.ir.walk import located

HEADER = """program p
block 64 2
in x: u32
inout h: u32
inout untouched: u32
scalar n: u32
shared tile: u32[64]
shared constant: u32[64]
let t = thread_id.x
"""
DIVERGENT = "less(t, n)"
UNIFORM = "less(n, u32:5)"

UNIFORM_BODIES = [
    "barrier",
    f"if {UNIFORM}\nbarrier\nelse\nbarrier\nend",
    f"if {DIVERGENT}\nstore h[t], t\nend\nbarrier",
    "for j = u32:0 to n step u32:1\nbarrier\nend",
    "for j = n to size(x) step block_dim.x\nif less(j, n)\nbarrier\nend\nend",
    "if less(thread_id.z, n)\nbarrier\nend",
    "if less(global_id.z, n)\nbarrier\nend",
    "if less(block_id.x, grid_dim.y)\nbarrier\nend",
    "let v = load(x[n])\nif less(v, n)\nbarrier\nend",
    "let v = load(untouched[n])\nif less(v, n)\nbarrier\nend",
    "let v = load(constant[n])\nif less(v, n)\nbarrier\nend",
    # A divergent value that is overwritten, and one that is not used.
    "var v = t\nv = n\nif less(v, n)\nbarrier\nend",
    f"var v = n\nif {DIVERGENT}\nv = t\nend\nv = n\nif less(v, n)\nbarrier\nend",
    f"var v = n\nif {DIVERGENT}\nv = t\nend\nbarrier",
    f"var v = n\nif {UNIFORM}\nv = u32:7\nelse\nv = n\nend\nif less(v, n)\nbarrier\nend",
    "var v = n\nfor j = u32:0 to n step u32:1\nv = t\nv = n\nend\nif less(v, n)\nbarrier\nend",
    "var v = n\nfor j = u32:0 to n step u32:1\nif less(v, n)\nbarrier\nend\nv = add(v, j)\nend",
    "var v = n\nwhile\nlet go = less(v, u32:9)\ntest go\nbarrier\nv = add(v, v)\nend\nbarrier",
    # Threads that leave together, or come back.
    f"if {UNIFORM}\nreturn\nend\nbarrier",
    f"for j = u32:0 to n step u32:1\nif {UNIFORM}\nbreak\nend\nbarrier\nend",
    f"for j = u32:0 to n step u32:1\nif {DIVERGENT}\nbreak\nend\nend\nbarrier",
    f"for j = u32:0 to n step u32:1\nbarrier\nif {DIVERGENT}\ncontinue\nend\nstore h[t], t\nend\nbarrier",
    "for j = u32:0 to t step u32:1\nstore h[t], t\nend\nbarrier",
    f"barrier\nif {DIVERGENT}\nreturn\nend",
    f'assert {DIVERGENT}, "m"\nbarrier',
]
# The body, and the path of the barrier.
DIVERGENT_BODIES: list[tuple[str, tuple[int | str, ...]]] = [
    (f"if {DIVERGENT}\nbarrier\nend", (1, "then", 0)),
    (f"if {DIVERGENT}\nelse\nbarrier\nend", (1, "orelse", 0)),
    (f"if {DIVERGENT}\nif {UNIFORM}\nbarrier\nend\nend", (1, "then", 0, "then", 0)),
    ("if less(thread_id.y, n)\nbarrier\nend", (1, "then", 0)),
    ("if less(global_id.x, n)\nbarrier\nend", (1, "then", 0)),
    ("for j = u32:0 to t step u32:1\nbarrier\nend", (1, "body", 0)),
    ("for j = t to n step u32:1\nbarrier\nend", (1, "body", 0)),
    ("for j = n to u32:9 step t\nbarrier\nend", (1, "body", 0)),
    (f"while\nbarrier\ntest {DIVERGENT}\nend", (1, "setup", 0)),
    (f"while\ntest {DIVERGENT}\nbarrier\nend", (1, "body", 0)),
    # Memory.
    ("let v = load(x[t])\nif less(v, n)\nbarrier\nend", (2, "then", 0)),
    ("store h[n], n\nlet v = load(h[n])\nif less(v, n)\nbarrier\nend", (3, "then", 0)),
    ("let v = load(tile[n])\nif less(v, n)\nbarrier\nend\nstore tile[n], n", (2, "then", 0)),
    (
        "let v = load(h[n])\nif less(v, n)\nbarrier\nend\natomic add h[n], n order relaxed scope device",
        (2, "then", 0),
    ),
    ("let v = atomic add h[n], n order relaxed scope device\nif less(v, n)\nbarrier\nend", (2, "then", 0)),
    # Variables.
    ("var v = t\nif less(v, n)\nbarrier\nend", (2, "then", 0)),
    (f"var v = n\nif {DIVERGENT}\nv = u32:7\nend\nif less(v, n)\nbarrier\nend", (3, "then", 0)),
    (f"var v = n\nif {UNIFORM}\nv = t\nend\nif less(v, n)\nbarrier\nend", (3, "then", 0)),
    (f"var v = n\nif {UNIFORM}\nelse\nv = t\nend\nif less(v, n)\nbarrier\nend", (3, "then", 0)),
    (f"var v = t\nif {UNIFORM}\nv = n\nend\nif less(v, n)\nbarrier\nend", (3, "then", 0)),
    (f"var v = t\nif {UNIFORM}\nv = n\nelse\nif less(v, n)\nbarrier\nend\nend", (2, "orelse", 0, "then", 0)),
    (
        f"var v = n\nwhile\nv = n\ntest {UNIFORM}\nv = t\nbreak\nend\nif less(v, n)\nbarrier\nend",
        (3, "then", 0),
    ),
    ("var v = n\nfor j = u32:0 to t step u32:1\nv = add(v, j)\nend\nif less(v, n)\nbarrier\nend", (3, "then", 0)),
    ("var v = n\nfor j = u32:0 to n step u32:1\nif less(v, n)\nbarrier\nend\nv = t\nend", (2, "body", 0, "then", 0)),
    (
        "var v = n\nvar w = n\nfor j = u32:0 to n step u32:1\nif less(w, n)\nbarrier\nend\nw = v\nv = t\nend",
        (3, "body", 0, "then", 0),
    ),
    (
        "var v = n\nfor j = u32:0 to n step u32:1\nif less(j, u32:3)\nv = t\nbreak\nend\nv = n\nend\n"
        "if less(v, n)\nbarrier\nend",
        (3, "then", 0),
    ),
    (
        "var v = n\nfor j = u32:0 to n step u32:1\nif less(v, n)\nbarrier\nend\nif less(j, u32:3)\nv = t\ncontinue\n"
        "end\nv = n\nend",
        (2, "body", 0, "then", 0),
    ),
    (
        f"var v = n\nfor j = u32:0 to n step u32:1\nif {DIVERGENT}\ncontinue\nend\nv = u32:7\nend\n"
        "if less(v, n)\nbarrier\nend",
        (3, "then", 0),
    ),
    # Threads that left.
    ("for j = u32:0 to t step u32:1\nwhile\nreturn\ntest bool_:true\nend\nend\nbarrier", (2,)),
    (f"if {DIVERGENT}\nreturn\nend\nbarrier", (2,)),
    (f"for j = u32:0 to n step u32:1\nif {DIVERGENT}\nreturn\nend\nend\nbarrier", (2,)),
    (f"for j = u32:0 to n step u32:1\nbarrier\nif {DIVERGENT}\nreturn\nend\nend", (1, "body", 0)),
    (f"for j = u32:0 to n step u32:1\nif {DIVERGENT}\nbreak\nend\nbarrier\nend", (1, "body", 1)),
    (f"for j = u32:0 to n step u32:1\nbarrier\nif {DIVERGENT}\nbreak\nend\nend", (1, "body", 0)),
    (f"for j = u32:0 to n step u32:1\nif {DIVERGENT}\ncontinue\nend\nbarrier\nend", (1, "body", 1)),
    (
        f"for j = u32:0 to n step u32:1\nfor k = u32:0 to n step u32:1\nif {DIVERGENT}\nreturn\nend\nend\nbarrier\nend",
        (1, "body", 1),
    ),
    (
        f"for j = u32:0 to n step u32:1\nbarrier\nfor k = u32:0 to n step u32:1\nif {DIVERGENT}\nreturn\nend\nend\nend",
        (1, "body", 0),
    ),
]


@pytest.mark.parametrize("body", UNIFORM_BODIES)
def test_uniform_barrier_is_accepted(body: str) -> None:
    assert find_divergent(parse(HEADER + body)) == []


@pytest.mark.parametrize("body, path", DIVERGENT_BODIES)
def test_divergent_barrier_is_found(body: str, path: tuple[int | str, ...]) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(HEADER + body)

    assert [diagnostic.path for diagnostic in caught.value.diagnostics] == [path]


def message(body: str) -> str:
    with pytest.raises(ProgramError) as caught:
        parse(HEADER + body, filename="f")
    return caught.value.diagnostics[0].message


def test_message_names_condition_and_source() -> None:
    expected = (
        "not all threads of a block may reach this barrier: `less(v, n)` (f:12) depends on an element of h, "
        "which the program writes"
    )

    assert expected == message("store h[n], n\nlet v = load(h[n])\nif less(v, n)\nbarrier\nend")


def test_message_names_how_threads_left() -> None:
    expected = (
        "not all threads of a block may reach this barrier: some threads leave by a `return` (f:11): "
        "`less(t, n)` (f:10) depends on thread_id.x"
    )

    assert expected == message("if less(t, n)\nreturn\nend\nbarrier")


@pytest.mark.slow
def test_large_program_is_analyzed_in_linear_time() -> None:
    chain = "".join(f"v{n} = v{n + 1}\n" for n in range(3000)) + "v3000 = t\n"
    text = "".join(f"var v{n} = n\n" for n in range(3001)) + f"for j = u32:0 to n step u32:1\n{chain}end\nbarrier"
    nested = "".join(f"for k{n} = u32:0 to n step u32:1\n" for n in range(60)) + "v = t\n" + "end\n" * 60

    assert find_divergent(parse(HEADER + text)) == []
    assert find_divergent(parse(HEADER + "var v = n\n" + nested + "barrier")) == []


# ---- random programs, run thread by thread ---------------------------------------------------------------------------

ZERO, ONE, THREE = (Const(u32, bits) for bits in (0, 1, 3))
THREAD = Id(u32, "thread_id", 0)


@dataclass
class Writer:
    """Draws statements over variables, some of them uniform, with barriers anywhere."""

    draw: st.DrawFn
    variables: list[Local] = field(default_factory=list)
    names: int = 0

    def fresh(self) -> Local:
        self.names += 1
        return Local(u32, f"v{self.names}")

    def value(self) -> Expr:
        leaves: list[Expr] = [ZERO, ONE, THREE, THREAD, *self.variables * 3]
        return self.draw(st.sampled_from(leaves))

    def condition(self) -> Expr:
        return Apply(bool_, "less", (self.value(), self.draw(st.sampled_from([ONE, THREE]))))

    def block(self, depth: int, in_loop: bool) -> tuple[Stmt, ...]:
        known = len(self.variables)
        out = [self.statement(depth, in_loop) for _ in range(self.draw(st.integers(1, 5)))]
        del self.variables[known:]
        return tuple(out)

    def statement(self, depth: int, in_loop: bool) -> Stmt:
        kinds: list[type] = [Barrier, Var, Assign, Assign, Assign]
        kinds += [If, If, For, While] if depth < 3 else []
        kinds += [Break, Continue] if in_loop else []
        kinds += [Return] if depth > 0 else []
        kind = self.draw(st.sampled_from(kinds))
        if kind is Assign and self.variables:
            return Assign(self.draw(st.sampled_from(self.variables)).name, self.value())
        if kind in (Var, Assign):
            name, value = self.fresh(), self.value()
            self.variables.append(name)
            return Var(name.name, value)
        if kind is If:
            orelse = self.block(depth + 1, in_loop) if self.draw(st.booleans()) else ()
            return If(self.condition(), self.block(depth + 1, in_loop), orelse)
        if kind is For:
            counter, stop = self.fresh(), Apply(u32, "remainder", (self.value(), Const(u32, 4)))
            return For(counter.name, ZERO, stop, ONE, self.block(depth + 1, True))
        if kind is While:
            return While(self.block(3, False), self.condition(), self.block(depth + 1, True))
        statement: Stmt = kind()
        return statement


class Left(Exception):
    """Thrown by break, continue and return; carries the class of the statement."""


class Endless(Exception):
    """A loop that makes too many passes to be run."""


@dataclass
class Thread:
    """One thread of a program of variables alone; `trace` is the barriers that it meets."""

    number: int
    values: dict[str, int] = field(default_factory=dict)
    trace: list[int] = field(default_factory=list)
    passes: int = 0

    def run(self, program: Program, seen: set[int]) -> list[int]:
        with suppress(Left):
            self.body(program.body)
        return [barrier for barrier in self.trace if barrier in seen]

    def value(self, expr: Expr) -> int:
        match expr:
            case Const():
                return expr.bits
            case Local():
                return self.values[expr.name]
            case Id():
                return self.number
            case Apply(op="less"):
                return int(self.value(expr.operands[0]) < self.value(expr.operands[1]))
            case Apply(op="remainder"):
                return self.value(expr.operands[0]) % self.value(expr.operands[1])
            case _:
                raise AssertionError(expr)

    def body(self, body: tuple[Stmt, ...]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, statement: Stmt) -> None:
        match statement:
            case Var() | Assign():
                self.values[statement.name] = self.value(statement.value)
            case If():
                self.body(statement.then if self.value(statement.condition) else statement.orelse)
            case For():
                for j in range(self.value(statement.start), self.value(statement.stop), self.value(statement.step)):
                    self.values[statement.name] = j
                    if not self.one_pass(statement.body):
                        return
            case While():
                self.body(statement.setup)
                while self.value(statement.condition) and self.one_pass(statement.body):
                    self.body(statement.setup)
            case Barrier():
                self.trace.append(id(statement))
            case _:
                raise Left(type(statement))

    def one_pass(self, body: tuple[Stmt, ...]) -> bool:
        self.passes += 1
        if self.passes > 200:
            raise Endless
        try:
            self.body(body)
        except Left as left:
            if left.args[0] is Return:
                raise
            return left.args[0] is Continue
        return True


@st.composite
def random_programs(draw: st.DrawFn) -> Program:
    return Program("p", (), Writer(draw).block(0, False), block=(4, 1, 1))


@pytest.mark.slow
@settings(max_examples=800)
@given(random_programs())
def test_threads_meet_the_same_barriers_of_those_accepted(program: Program) -> None:
    refused = {diagnostic.path for diagnostic in find_divergent(program)}
    accepted = {id(s) for path, s in located(program.body) if isinstance(s, Barrier) and path not in refused}
    try:
        first, *others = (Thread(number).run(program, accepted) for number in range(4))
    except Endless:
        reject()

    assert all(other == first for other in others)
