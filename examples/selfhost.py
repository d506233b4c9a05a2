"""Programs that analyze programs: dead code and value numbers of many at once, in kernels of the same language.

The batch is the wire bytes of all programs, one after the other. A thread reads each program; what it finds at a byte
(an expression, a statement, an edge) stands at the place of that byte in columns. Liveness is reachability over the
edges, in a graph that repeats until nothing changes. Value numbers are the closure of the table of all expressions.

The answers are compared with the pass that the compiler runs, `passes.dce`, whose programs must be the same bytes; with
a dictionary in Python for the value numbers; and some programs are evaluated before and after.

The programs have lets, variables, assignments, stores, branches, both kinds of loops, breaks and code behind them. They
have no return and no assertion; jumps are in loops or in branches without else; a continue is only in a loop that ends
with a store, where the pass cannot leave it out. The reader refuses all other statements.

Run it: `python examples/selfhost.py --programs 200 --device auto`.
"""

from __future__ import annotations

import argparse
import operator
import random
import sys
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

import vyre_cuda as vc
from vyre_cuda import egraph
from vyre_cuda.ir.core import nodes
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.types import TYPES
from vyre_cuda.ir.core.walk import Body, bodies, operands
from vyre_cuda.ir.wire.wire_tags import ExprTag, StatementTag
from vyre_cuda.passes.dce import remove_dead_code
from vyre_cuda.passes.rebuild import with_bodies, with_body

T = TypeVar("T")
Column = npt.NDArray[np.uint32]
# The first rows are the 256 values of a byte: a constant has those of its bytes as children.
DIGITS = 256
# What is in the upper four bits of an operation; the lower ones are a code, or the place that makes it the only one.
DIGIT, CONST, ID, APPLY, SIZE, LOAD, ALONE = (kind << 28 for kind in range(1, 8))
PLACES = 1 << 28
# What a name stands for.
READ, WRITTEN, SCALAR, COUNTER, LET, VAR = range(1, 7)
# What a reader has still to read, from the top of its stack; behind a jump with UNREACHED.
EXPR, SECTIONS, START, BODY, UNREACHED = 0, 1, 2, 3, 4


def column(size: int, values: dict[int, int]) -> Column:
    made = np.zeros(size, np.uint32)
    made[list(values)] = list(values.values())
    made.flags.writeable = False
    return made


ARITY = column(128, {op.code: op.arity for op in OPS.values()})
EXPLICIT = column(128, {op.code: 1 for op in OPS.values() if op.result == "explicit"})
BYTES = column(16, {each.code: each.itemsize for each in TYPES})


# ---- reading -------------------------------------------------------------------------------------------------------


class Columns(NamedTuple):
    """What is known of each byte, by its place in the batch."""

    op: Any  # of an expression, or of what a name declares: its operation, 0 where there is no row
    offset: Any  # where its children begin
    length: Any
    children: Any  # rows
    value: Any  # of an expression: the row with its value, which for the name of a let is another one
    parent: Any  # of a statement: the one that it is in, or the first byte of the program
    needed: Any  # of an edge: what is live
    by: Any  # if this is
    live: Any


class Scratch(NamedTuple):
    """What a reader remembers: by the place of its program and the depth of its stack, or the number of a name."""

    stack: Any  # four words: what, and three of that
    sort: Any
    home: Any  # where a name was declared; its place is the node that is live if the name is read
    slot: Any  # of a let: where among the children its value is


@vc.func
def varint(text, at):
    """A number (LEB128), and where it ends."""
    p, byte = at + 1, vc.u32(text[at])
    value, shift = byte & 127, vc.u32(7)
    while byte > 127:
        byte = vc.u32(text[p])
        value, shift, p = value | (byte & 127) << shift, shift + 7, p + 1
    return value, p


@vc.func
def name(text, at, first, known):
    """The entry of a name, where it ends, and the end of the entries."""
    number, p = varint(text, at)
    entry = first + number
    if entry == known:
        length, q = varint(text, p)
        return entry, q + length, known + 1
    return entry, p, known


@vc.func
def push(s, top, what, number, statement, loop):
    s.stack[top, :4] = what, number, statement, loop
    return top + 1


@vc.func
def expect(s, top, free, count, statement):
    """Expressions of a statement, whose values go to the next children."""
    for k in range(count):
        s.stack[top + k, :4] = vc.u32(EXPR), free + count - 1 - k, statement, vc.u32(0)
    return free + count, top + count


@vc.func
def header(text, c, s, first):
    """The parameters; returns as `statement` does."""
    good = vc.bool_(text[first + 4] == 1)  # the version of the format
    _called, p, known = name(text, first + 5, first, first)
    p += 1  # the index type: u32 in this version
    for _ in range(3):
        _threads, p = varint(text, p)
    count, p = varint(text, p)
    sizes = vc.u32(0)
    for _ in range(count):
        home = p
        entry, p, known = name(text, p, first, known)
        kind, axes = vc.u32(text[p]), vc.u32(text[p + 2])
        good = good and kind < len(nodes.PARAMETER_KINDS) and axes < 2
        s.home[entry] = home
        s.sort[entry] = vc.u32(READ) if kind == 0 else vc.u32(SCALAR) if kind == 3 else WRITTEN
        if kind == 3:
            c.op[home] = ALONE | home
        sizes, p = sizes + axes, p + 3
    top = push(s, first, SECTIONS, 0, 0, 0)
    free, top = expect(s, top, first, sizes, vc.u32(0))
    return good, p, known, free, top


@vc.func
def expression(text, c, s, first, p, free, top, child, statement):
    """One node, whose value becomes a child; returns as `statement` does, without the names."""
    tag, row, q = vc.u32(text[p]), p, p + 1
    good, length, op = vc.bool_(True), vc.u32(0), ALONE | p
    if tag in (ExprTag.NAME, ExprTag.SIZE, ExprTag.LOAD):
        entry, q, _end = name(text, q, first, vc.u32(PLACES))
        sort, home = s.sort[entry], s.home[entry]
        if tag == ExprTag.SIZE:
            op = SIZE | home
        elif tag == ExprTag.LOAD:
            length = vc.u32(sort == READ)  # what is written may have another value elsewhere
            op = LOAD | home if sort == READ else op
            c.offset[p] = free
            free, top = expect(s, top, free, vc.u32(1), statement)
        elif sort != VAR:
            row = c.children[s.slot[entry]] if sort == LET else home
        if tag == ExprTag.NAME and sort >= COUNTER and statement != 0:
            c.needed[p], c.by[p] = home, statement
    elif tag == ExprTag.CONST:
        length, op = BYTES[text[q]], CONST | vc.u32(text[q])
        c.offset[p] = free
        for k in range(length):
            c.children[free + k] = vc.u32(text[q + 1 + k])
        q, free = q + 1 + length, free + length
    elif tag == ExprTag.ID:
        op, q = ID | vc.u32(text[q]), q + 1
    elif tag == ExprTag.APPLY:
        code = vc.u32(text[q])
        length, op, q = ARITY[code], APPLY | code, q + 1
        if EXPLICIT[code] != 0:
            op, q = op | vc.u32(text[q]) << 8, q + 1
        c.offset[p] = free
        free, top = expect(s, top, free, length, statement)
    else:
        good = vc.bool_(False)
    if row == p:
        c.op[p], c.length[p] = op, length
    c.value[p] = row
    c.children[child] = row
    return good, q, free, top


@vc.func
def statement(text, c, s, first, p, known, free, top, parent, loop, reached):
    """Up to its first expression: whether it can be read; where it ends, and the ends of names, children and stack."""
    tag, q, good = vc.u32(text[p]), p + 1, vc.bool_(True)
    inside = vc.u32(START) if reached else vc.u32(START | UNREACHED)
    c.parent[p] = parent
    if reached and tag in (StatementTag.STORE, StatementTag.WHILE):
        c.live[p] = 1
    if tag in (StatementTag.LET, StatementTag.VAR, StatementTag.ASSIGN, StatementTag.STORE, StatementTag.FOR):
        entry, q, known = name(text, q, first, known)
        if tag in (StatementTag.LET, StatementTag.VAR, StatementTag.FOR):
            s.home[entry], s.slot[entry] = p + 1, free
            s.sort[entry] = (
                vc.u32(LET) if tag == StatementTag.LET else vc.u32(VAR) if tag == StatementTag.VAR else COUNTER
            )
            if tag == StatementTag.FOR:
                c.op[p + 1] = ALONE | p + 1
        if reached and tag != StatementTag.STORE:
            c.needed[p + 1], c.by[p + 1] = p, s.home[entry]
    if tag in (StatementTag.LET, StatementTag.VAR, StatementTag.ASSIGN):
        free, top = expect(s, top, free, vc.u32(1), p)
    elif tag == StatementTag.STORE:
        free, top = expect(s, top, free, vc.u32(2), p)
    elif tag == StatementTag.IF:
        top = push(s, push(s, top, inside, 0, p, loop), inside, 0, p, loop)
        free, top = expect(s, top, free, vc.u32(1), p)
    elif tag == StatementTag.FOR:
        free, top = expect(s, push(s, top, inside, 0, p, p), free, vc.u32(3), p)
    elif tag == StatementTag.WHILE:
        free, top = expect(s, push(s, top, inside, 0, p, p), free, vc.u32(1), p)
        top = push(s, top, inside, 0, p, p)
    elif tag in (StatementTag.BREAK, StatementTag.CONTINUE):
        if reached:
            c.needed[p], c.by[p] = p, loop
        s.stack[top - 1, 0] = BODY | UNREACHED
    else:
        good = vc.bool_(False)
    return good, q, known, free, top


@vc.kernel(block=32)
def read(
    text: vc.In[vc.u8],
    starts: vc.In[vc.u32],
    op: vc.Out[vc.u32],
    offset: vc.Out[vc.u32],
    length: vc.Out[vc.u32],
    children: vc.Out[vc.u32],
    value: vc.Out[vc.u32],
    parent: vc.Out[vc.u32],
    needed: vc.Out[vc.u32],
    by: vc.Out[vc.u32],
    live: vc.Out[vc.u32],
    stack: vc.Out[vc.u32, 2],
    sort: vc.Out[vc.u32],
    home: vc.Out[vc.u32],
    slot: vc.Out[vc.u32],
    refused: vc.Out[vc.u32],
):
    """Each thread reads a program; `refused` is the place of what it cannot read, 0 if there is nothing."""
    k = vc.work(vc.maximum(refused.size, DIGITS))
    if k < DIGITS:
        op[k] = vc.u32(DIGIT | k)
    if k >= refused.size:
        return
    c = Columns(op, offset, length, children, value, parent, needed, by, live)
    s = Scratch(stack, sort, home, slot)
    first = starts[k]
    good, p, known, free, top = header(text, c, s, first)
    at = p
    while good and top > first:
        at, top = p, top - 1
        what, number, above, loop = stack[top, :4]
        if what == EXPR:
            good, p, free, top = expression(text, c, s, first, p, free, top, number, above)
        elif what == SECTIONS:
            good = text[p] == 0  # shared arrays
            top = push(s, top, START, 0, first, 0)
            free, top = expect(s, top, free, vc.u32(text[p + 1]), vc.u32(0))
            p += 2
        elif what % UNREACHED == START:
            number, p = varint(text, p)
            top = push(s, top, what + 1, number, above, loop)
        elif number > 0:
            top = push(s, top, what, number - 1, above, loop)
            reached = what == BODY
            good, p, known, free, top = statement(text, c, s, first, p, known, free, top, above, loop, reached)
    if not good or p != starts[k + 1]:
        refused[k] = at


# ---- what is live --------------------------------------------------------------------------------------------------


@vc.func
def flow(live, state, here, there):
    if vc.atomic_load(live, here) != 0:
        if vc.atomic_load(live, there) == 0:
            vc.atomic_store(live, there, 1)
            vc.atomic_store(state, 0, 1)


@vc.kernel(block=256)
def spread(
    parent: vc.In[vc.u32],
    needed: vc.In[vc.u32],
    by: vc.In[vc.u32],
    live: vc.InOut[vc.u32],
    state: vc.InOut[vc.u32],
):
    """Each edge, and from each statement to what it is in. Bytes without them have 0, where nothing is."""
    i = vc.work(parent.size)
    flow(live, state, by[i], needed[i])
    flow(live, state, vc.u32(i), parent[i])


@vc.kernel(block=32)
def settle(state: vc.InOut[vc.u32]):
    if vc.work(1) == 0:
        state[:3] = 0, vc.u32(state[0] == 0), state[2] + 1


class Batch:
    """Programs, given as wire bytes, on a device."""

    def __init__(self, device: vc.Device, programs: Sequence[bytes]) -> None:
        self.text = np.frombuffer(b"".join([bytes(DIGITS), *programs]), np.uint8)
        self.starts = np.cumsum([DIGITS, *map(len, programs)]).astype(np.uint32)
        if self.text.size > PLACES:
            raise ValueError(f"the programs have {self.text.size:,} bytes; at most {PLACES:,} are possible")
        self.device, size = device, self.text.size
        self.given = [device.array(each) for each in (self.text, self.starts)]
        self.columns = Columns(*(device.empty(size, vc.u32) for _ in Columns._fields))
        self.scratch = Scratch(device.empty((size, 4), vc.u32), *(device.empty(size, vc.u32) for _ in range(3)))
        self.refused, self.state = device.empty(len(programs), vc.u32), device.empty(3, vc.u32)
        c = self.columns
        with device.record() as self.graph:
            self.state.fill(0)
            with self.graph.repeat(until=self.state[1:]):
                spread.on(device).launch(c.parent, c.needed, c.by, c.live, self.state)
                settle.on(device).launch(self.state)

    def read(self) -> None:
        """Fill the columns. Raises ValueError for a program with what the reader does not know."""
        self.given[0].copy_from(self.text)
        read.on(self.device).launch(*self.given, *self.columns, *self.scratch, self.refused)
        places = self.refused.numpy()
        if places.any():
            k = int(np.flatnonzero(places)[0])
            raise ValueError(f"program {k}: the reader does not know what is at its byte {places[k] - self.starts[k]}")

    def spread(self) -> int:
        """Find what is live; returns the number of rounds."""
        self.graph.replay()
        return int(self.state.numpy()[2])

    def live(self) -> list[npt.NDArray[np.bool_]]:
        """Of each program, whether each of its statements is live, in the order of their bytes."""
        return self.of_each(self.columns.parent.numpy(), self.columns.live.numpy() != 0)

    def of_each(self, at: Column, values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Of each program, the values where `at` is not 0."""
        places = np.flatnonzero(at)
        return np.split(values[places], np.searchsorted(places, self.starts)[1:-1])

    def table(self) -> tuple[egraph.Table, Column]:
        """The rows of all expressions, and the row of each expression, in the order of their bytes."""
        op, offset, length, children, value = (each.numpy() for each in self.columns[:5])
        rows = np.flatnonzero(op)
        number = np.zeros(op.size, np.uint32)
        number[rows] = np.arange(rows.size)
        return egraph.Table(op[rows], offset[rows], length[rows], number[children]), number[value[value != 0]]


# ---- the same in Python --------------------------------------------------------------------------------------------


def without_dead(program: vc.Program, live: npt.NDArray[np.bool_]) -> vc.Program:
    """The program without the statements that are not live."""
    flags = iter(live.tolist())

    def kept(body: Body) -> Body:
        found = []
        for statement in body:
            is_live = next(flags)
            inside = tuple(kept(inner) for _, inner in bodies(statement))
            if is_live:
                found.append(with_bodies(statement, inside))
        return tuple(found)

    return with_body(program, kept(program.body))


class Numbering:
    """Value numbers by a dictionary, for the expressions of a batch in the order of their bytes."""

    def __init__(self) -> None:
        self.known: dict[tuple[Any, ...], int] = {}
        self.numbers: list[int] = []

    def batch(self, programs: Sequence[vc.Program]) -> Numbering:
        for k, program in enumerate(programs):
            self.program(k, program)
        return self

    @property
    def found(self) -> Column:
        return np.array(self.numbers, np.uint32)

    def program(self, k: int, program: vc.Program) -> None:
        self.of = k
        self.written = {p.name for p in program.parameters if p.is_writable}
        self.names: dict[str, int] = {}
        for parameter in program.parameters:
            for size in parameter.declared:
                self.expression(size)
        for size in program.work or ():
            self.expression(size)
        self.body(program.body)

    def body(self, body: Body) -> None:
        for statement in body:
            match statement:
                case nodes.While(setup, condition, inner):
                    self.body(setup)
                    self.expression(condition)
                    self.body(inner)
                case nodes.Let(name, value):
                    self.names[name] = self.expression(value)
                case nodes.For(name):
                    self.names[name] = self.number("counter", self.of, name)
            if not isinstance(statement, (nodes.While, nodes.Let)):
                for expr in operands(statement):
                    self.expression(expr)
                for _, inner in bodies(statement):
                    self.body(inner)

    def number(self, *key: Any) -> int:
        return self.known.setdefault(key, len(self.known))

    def expression(self, expr: nodes.Expr) -> int:
        at = len(self.numbers)
        self.numbers.append(0)
        match expr:
            case nodes.Const(type, bits):
                value = self.number("const", type, bits)
            case nodes.Id(_, kind, axis):
                value = self.number("id", kind, axis)
            case nodes.Size(_, buffer):
                value = self.number("size", self.of, buffer)
            case nodes.Scalar(_, name):
                value = self.number("scalar", self.of, name)
            case nodes.Local(_, name) if name in self.names:
                value = self.names[name]
            case nodes.Load(_, buffer, index):
                index_value = self.expression(index)
                value = self.number("load", self.of, buffer, index_value, at if buffer in self.written else None)
            case nodes.Apply(type, op, each):
                value = self.number(op, type, *[self.expression(operand) for operand in each])
            case _:  # a variable
                value = self.number("variable", at)
        self.numbers[at] = value
        return value


def is_same_partition(left: Column, right: Column) -> bool:
    """Whether both say the same of which places are equal."""
    pairs = np.unique(left.astype(np.uint64) << np.uint64(32) | right).size
    return left.size == right.size and pairs == np.unique(left).size == np.unique(right).size


# ---- programs ------------------------------------------------------------------------------------------------------


class Maker:
    """A random program; half of its branches and counted loops store nothing, so they may be dead."""

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
        if kind < 3:
            return vc.u32(r.choice([0, 1, 2, 3, 7, 40, 2**31]))
        if kind < 4:
            return r.choice([self.x, self.x, self.y])[r.choice(self.values)]
        left, right = self.expr(depth - 1), self.expr(depth - 1)
        match kind:
            case 4:
                return vc.where(left < right, left, self.expr(depth - 1))
            case 5:
                return vc.u32(vc.f32(left) * 0.5)
            case _:
                return r.choice([operator.add, operator.mul, operator.sub, operator.xor, vc.minimum])(left, right)

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
            self.branch(depth - 1, silent=silent or r.random() < 0.5)
        elif depth:
            self.loop(depth - 1, silent=silent or r.random() < 0.5)

    def store(self) -> None:
        r = self.random
        r.choice([self.out, self.y])[r.choice(self.values)] = self.expr() + r.choice(
            [*self.values, *self.variables][-4:]
        )

    def branch(self, depth: int, *, silent: bool) -> None:
        with self.b.if_(self.expr() < self.expr()):
            self.block(depth, silent=silent)
        if self.random.random() < 0.5:
            with self.b.else_():
                self.block(depth, silent=silent)

    def loop(self, depth: int, *, silent: bool) -> None:
        r, b, count = self.random, self.b, self.random.randrange(1, 4)
        if silent or r.random() < 0.7:
            with b.for_(self.values[1] % count) as counter:
                self.passes(depth, counter, silent=silent)
        else:
            passed = b.var("passed", vc.u32(0))
            with b.while_(lambda: passed < count):
                passed += 1
                self.passes(depth, passed, silent=silent)

    def passes(self, depth: int, counter: Any, *, silent: bool) -> None:
        """The body of a loop, which ends with a store or has none."""
        r, b = self.random, self.b
        values = len(self.values)
        self.values.append(counter)
        self.block(depth, silent=silent)
        if r.random() < 0.6:
            with b.if_(self.expr() < counter):
                self.block(0, silent=silent)
                (b.break_ if silent or r.random() < 0.5 else b.continue_)()
                if r.random() < 0.3:
                    self.block(0, silent=silent)
        if silent:
            self.block(depth, silent=True)
        else:
            self.store()
        del self.values[values:]


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it returns, and its milliseconds."""
    start = perf_counter()
    result = work()
    return result, (perf_counter() - start) * 1e3


def closed(table: egraph.Table, device: vc.Device) -> egraph.Closure[vc.DeviceArray]:
    closure = egraph.close(table, device)
    assert closure.converged  # which waits
    return closure


def evaluated(program: vc.Program) -> bytes:
    x = np.arange(40, dtype=np.uint32) * 7
    y, out = vc.evaluate(program, x, x + 3, 5)
    return bytes(y.tobytes() + out.tobytes())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="dead code and value numbers of many programs, checked against Python")
    parser.add_argument("--programs", type=int, default=200, help="how many to make (default: 200)")
    parser.add_argument("--evaluated", type=int, default=20, help="how many of them to evaluate (default: 20)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)
    if options.programs < 1:
        parser.error("there is at least one program")

    texts = [Maker(seed).b.build().to_bytes() for seed in range(options.programs)]
    with vc.Device(options.device) as device:
        batch = Batch(device, texts)
        print(f"{len(texts):,} programs, {batch.text.size - DIGITS:,} bytes, on {device.properties.name}")
        for _ in range(2):  # the first time compiles
            _, reading = timed(batch.read)
            (live, rounds), spreading = timed(lambda: (batch.spread(), batch.live())[::-1])
            (table, row), building = timed(batch.table)
            closure, closing = timed(partial(closed, table, device))
        classes = closure.classes.numpy()

    programs, decoding = timed(lambda: [vc.Program.from_bytes(text) for text in texts])
    smaller, sweeping = timed(lambda: [remove_dead_code(program) for program in programs])
    numbering, counting = timed(lambda: Numbering().batch(programs))
    values = numbering.found
    statements, alive = sum(each.size for each in live), int(sum(each.sum() for each in live))
    print(f"{alive:,} of {statements:,} statements are live, after {rounds} rounds")
    print(f"{len(numbering.known):,} values of {values.size:,} expressions, after {closure.rounds} rounds")
    print("milliseconds           device      Python")
    print(f"reading the bytes {reading:11.2f}{decoding:12.1f}   with the copy to the device; Program.from_bytes")
    print(f"what is live      {spreading:11.2f}{sweeping:12.1f}   with the copy to the host; passes.dce")
    print(f"table of values   {building:11.2f}{'':12}   columns to the host, rows without gaps")
    print(f"value numbers     {closing:11.2f}{counting:12.1f}   with the copy to the device; a dictionary")

    made = [without_dead(program, each) for program, each in zip(programs, live, strict=True)]
    wrong = [
        f"{kind} of program {k}"
        for k in range(len(programs))
        for kind, same in (
            ("bytes", made[k].to_bytes() == smaller[k].to_bytes()),
            ("results", k >= options.evaluated or evaluated(made[k]) == evaluated(programs[k])),
        )
        if not same
    ]
    if not is_same_partition(classes[row], values):
        wrong.append("value numbers")
    if wrong:
        print(f"differs from Python: {', '.join(wrong[:5])}, {len(wrong)} in all", file=sys.stderr)
        return 1
    print("the bytes are those of passes.dce, the value numbers those of a dictionary,")
    print(f"and the results of {min(len(programs), options.evaluated)} programs the same as before")
    return 0


if __name__ == "__main__":
    sys.exit(main())
