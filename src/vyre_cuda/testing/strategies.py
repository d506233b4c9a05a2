"""Hypothesis strategies for valid programs with inputs, over all types, ops and statements of the language.

A generated program has exactly one result: no data race, no NaN whose bits show, no unspecified order of float sums. So
every way to run it must agree with the interpreter bit for bit. Needs hypothesis, an optional extra.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from vyre_cuda.ir.builder import ids
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import minimum
from vyre_cuda.ir.builder.handles import Buffer, Index
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.call.call import bind
from vyre_cuda.ir.core.nodes import WARP_SIZE
from vyre_cuda.ir.core.ops import ATOMICS, OPS, SCOPES, WARP_OPS, AtomicOp, Op, WarpOp, warp_result_type
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import BY_NAME, INDEX_TYPES, TYPES, Type, bf16, bool_, i32, i64, u32, u64
from vyre_cuda.testing.edges import EDGES, arrays, from_bits, scalars, small_whole_arrays
from vyre_cuda.testing.expressions import Expressions, Level, apply_safely, unravelled, without_nan
from vyre_cuda.testing.statements import ATOMIC_TYPES, Flow, Targets, atomic, commuting
from vyre_cuda.testing.together import TogetherStatements, warp

Arguments: TypeAlias = "list[Any]"
MAX_ELEMENTS = 300
_BLOCKS: tuple[int | tuple[int, ...], ...] = (32, 1, 2, 7, 33, 64, 96, (4, 2), (8, 3, 2), (1, 5), (2, 1, 3))


_WARP_BLOCKS: tuple[int | tuple[int, ...], ...] = (32, 64, 1, 33, 7, (4, 10), (2, 3, 7))


def programs(*, statements: int = 6) -> st.SearchStrategy[Program]:
    """Valid programs with up to `statements` statements at the top of each of two parts."""
    return programs_with_inputs(statements=statements).map(lambda pair: pair[0])


@st.composite
def programs_with_inputs(draw: st.DrawFn, *, statements: int = 6) -> tuple[Program, Arguments]:
    """A program and arguments for it: every parameter but the outs, in declared order. A launch without `grid=` takes
    them."""
    program, arguments = _Draft(draw).finish(statements)
    assume(not _leaves_out(program, arguments))
    return program, arguments


def _leaves_out(program: Program, arguments: Arguments) -> bool:
    """Whether a launch is refused because it has fewer threads than the elements that these walk through."""
    try:
        bind(program, arguments, {})
    except ValueError as error:
        if "would be left out" in str(error):
            return True
        raise
    return False


@st.composite
def programs_using(draw: st.DrawFn, op: Op | str, *, type_: Type | None = None) -> tuple[Program, Arguments]:
    """A program that applies one op to elements of its inputs, and inputs full of edge values.

    `type_` is the operands' type; if it is not given, any type that the op takes. Arguments as for
    `programs_with_inputs`.
    """
    row = OPS[op] if isinstance(op, str) else op
    operand = type_ if type_ is not None else draw(st.sampled_from(row.types))
    result = {"same": operand, "bool": bool_, "explicit": operand}[row.result]
    if row.result == "explicit":
        result = draw(st.sampled_from([t for t in row.types if row.name == "cast" or t.bits == operand.bits]))
    operands = (bool_, operand, operand) if row.leading_bool else (operand,) * row.arity
    b = Builder(f"use_{row.name}", block=draw(st.sampled_from((64, 1, 33))))
    buffers = [b.input(f"x{number}", t) for number, t in enumerate(operands)]
    # Every element is written, so it makes no difference.
    out = b.output("out", result, size=buffers[0].size, zeroed=result is bool_ or draw(st.booleans()))
    i = b.let("i", ids.global_id.x)
    with b.if_(i < out.size):
        out[i] = apply_safely(row.name, result, [x[i] for x in buffers])
    return b.build(), _combinations(draw, operands)


@st.composite
def programs_using_atomic(
    draw: st.DrawFn, op: AtomicOp | str, *, type_: Type | None = None
) -> tuple[Program, Arguments]:
    """A program in which every thread does one atomic on elements of its own, in global and in shared memory.

    Old and new values are results. Where order does not matter, threads also share a few elements.
    """
    row = ATOMICS[op] if isinstance(op, str) else op
    element = type_ if type_ is not None else draw(st.sampled_from(row.types))
    ordering = {"order": draw(st.sampled_from(row.orders)), "scope": draw(st.sampled_from(SCOPES))}
    block = draw(st.sampled_from((64, 1, 33)))
    b = Builder(f"atomic_{row.name}", block=block, index=draw(st.sampled_from(INDEX_TYPES)))
    operands = [b.input(f"x{number}", element) for number in range(row.operands)]
    own = b.inout("own", element)
    few = b.inout("few", element)
    outs = [b.output(name, element, size=own.size) for name in ("old_own", "old_tile", "new_tile")]
    tile = b.shared("tile", element, block)
    i = b.let("i", ids.global_id.x)
    lane = b.let("lane", ids.thread_id.x)
    values = [x[i] for x in operands]
    tile[lane] = own[i]
    for buffer, index, out in ((own, i, outs[0]), (tile, lane, outs[1])):
        old = atomic(b, row.name, buffer, index, *values, **ordering)
        if old is not None:
            out[i] = old
    outs[2][i] = tile[lane]
    exact = row.name not in ("add", "subtract") or element.is_integer
    if exact and any(row.name in group for group in commuting(element)):
        scope = "device" if ordering["scope"] == "block" else ordering["scope"]  # threads of all blocks meet here
        atomic(b, row.name, few, i % 3, *values, order=ordering["order"], scope=scope)
    columns = _combinations(draw, (element,) * (row.operands + 1))
    return b.build(), [*columns, draw(arrays(element, 3))]


@st.composite
def programs_using_warp(
    draw: st.DrawFn, op: WarpOp | str, *, type_: Type | None = None, combine: str | None = None
) -> tuple[Program, Arguments]:
    """A program in which every warp does one operation on the elements of its threads, also in partial last warps."""
    row = WARP_OPS[op] if isinstance(op, str) else op
    value = type_ if type_ is not None else draw(st.sampled_from(row.types))
    combines = [name for name in row.combines if value in OPS[name].types]
    named = combine if combine is not None else draw(st.sampled_from(combines)) if combines else ""
    b = Builder(f"warp_{row.name}", block=draw(st.sampled_from(_WARP_BLOCKS)))
    x = b.input("x", value)
    lanes = b.input("lanes", u32)
    out = b.output("out", warp_result_type(row, value), size=x.size)
    b.work(x.size, 1, 1)
    linear = ids.thread_id.x + ids.block_dim.x * (ids.thread_id.y + ids.block_dim.y * ids.thread_id.z)
    i = b.let("i", linear + ids.block_id.x * (ids.block_dim.x * ids.block_dim.y * ids.block_dim.z))
    lane = b.broadcast(lanes[i], 0) if row.name == "broadcast" else lanes[i]
    given = without_nan(x[i]) if row.name == "match" else x[i]
    out[i] = warp(b, row, given, lane, named)
    columns = _combinations(draw, (value,))
    return b.build(), [*columns, _lanes(draw, columns[0].size)]


def _lanes(draw: st.DrawFn, size: int) -> Any:
    few = draw(st.lists(st.integers(0, WARP_SIZE + 1) | st.just(2**32 - 1), min_size=1, max_size=8))
    return np.array([few[i % len(few)] for i in range(size)], np.uint32)


def _combinations(draw: st.DrawFn, types: tuple[Type, ...]) -> Arguments:
    """Arrays in which edge values of the operands meet: all with all as far as MAX_ELEMENTS reaches."""
    size = draw(st.integers(1, MAX_ELEMENTS))
    columns: Arguments = []
    period = 1
    for type_ in types:
        extra = draw(st.lists(st.integers(0, (1 << type_.bits) - 1), max_size=4)) if type_ is not bool_ else []
        palette = draw(st.permutations(EDGES[type_])) + extra
        columns.append(from_bits(type_, [palette[i // period % len(palette)] for i in range(size)]))
        period *= len(palette)
    return columns


class _Draft:
    """One random program while it is drawn: first its parameters, then three parts of statements, then final stores.

    The threads of a block, or of the grid, stay together in the first part, which may have barriers; those of a warp in
    the second; in the third each may return.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        block = draw(st.sampled_from(_BLOCKS))
        index = draw(st.sampled_from((u32, u32, i32, u64, i64)))
        self.b = Builder("random", block=block, index=index, min_blocks=draw(st.sampled_from((0, 0, 0, 2))))
        self.axes = 1 if isinstance(block, int) else len(block)
        self.threads = int(np.prod(block))
        basic = {bool_, u32, i32, index}
        further = draw(st.lists(st.sampled_from([t for t in TYPES if t not in basic]), max_size=4, unique=True))
        self.e = Expressions(draw, [t for t in TYPES if t in basic or t in further], index)
        self.elements = draw(st.integers(0, MAX_ELEMENTS))
        # A grid whose threads meet must fit on the device at once.
        self.level: Level = "grid" if self.threads >= WARP_SIZE and self.axes == 1 and self.e.chance(2) else "block"
        self.arguments: Arguments = []
        self.sized: list[Buffer] = []

    def finish(self, statements: int) -> tuple[Program, Arguments]:
        self._inputs()
        stored = [self._output(n) for n in range(self.draw(st.integers(1, 3)))]
        stored += [self._inout(f"io{n}", arrays) for n in range(self.draw(st.integers(0, 2)))]
        combined = [self._combined(n) for n in range(self.draw(st.integers(0, 1)))]
        words = ATOMICS["compare_exchange"].types
        agreed = [self._inout(f"set{n}", arrays, words) for n in range(self.draw(st.integers(0, 1)))]
        mail = [self._inout("mail", arrays)] if self.level == "grid" else []
        self._work()
        targets = self._targets()
        self._leaves(targets)
        targets.own = [(buffer, self._own_index(targets.thread, buffer)) for buffer in stored]
        targets.own += [(buffer, targets.lane) for buffer in self._scratch()]
        targets.own += self._held(targets.thread)
        targets.combined = combined
        targets.agreed = [(buffer, *self._agreement(buffer.type)) for buffer in agreed]
        targets.mail = [(buffer, self._own_index(targets.thread, buffer)) for buffer in mail]
        for buffer, index in targets.own:
            self.e.own[buffer.type].append((buffer, index))
        writer = TogetherStatements(self.b, self.e, targets)
        leave = "block" if self.level == "block" and self.e.chance(3) else ""
        writer.block(statements, Flow(level=self.level, may_return=leave))
        writer.block(statements // 2, Flow(level="warp", may_return="warp"))
        writer.block(statements, Flow(may_return="any"))
        for buffer, index in targets.own:
            if self.e.chance(2):
                with self.b.if_(targets.thread < buffer.size):
                    buffer[index] = self.e.any(buffer.type)
            else:
                buffer[index] = self.e.any(buffer.type)
        return self.b.build(), self.arguments

    # ---- parameters

    def _inputs(self) -> None:
        for number in range(self.draw(st.integers(0, 4))):
            type_ = self.e.type_()
            if self.e.chance(2):
                value = self.draw(scalars(type_))
                self.arguments.append(value)
                self.e.add(self.b.scalar(f"a{number}", type_), "grid")
            elif self.e.chance(4) and type_ is not bf16:
                size = max(self._size(), 1)
                rows = self.e.pick([n for n in (1, 2, 3) if size % n == 0])
                array = self.draw(arrays(type_, size))
                buffer = self.b.table(f"t{number}", array if rows == 1 else array.reshape(rows, -1))
                self.e.inputs[type_].append(buffer)
                self.sized.append(buffer)
            else:
                buffer = self._argument(self.b.input, f"x{number}", type_, arrays)
                self.e.inputs[type_].append(buffer)
                self.sized.append(buffer)

    def _output(self, number: int) -> Buffer:
        counts: list[Any] = [self.elements]
        for buffer in self.sized:
            counts += [buffer.size, buffer.size + 3, minimum(buffer.size, 64)]
        counts += [minimum(scalar, 40) for scalar in self.e.same["grid"][u32]]
        name, type_ = f"out{number}", self.e.type_()
        shaped = [buffer.shape for buffer in self.sized if buffer.ndim > 1]
        if shaped and self.e.chance(2):
            return self.b.output(name, type_, shape=self.e.pick(shaped))
        if self.e.chance(5):
            return self.b.output(name, type_, shape=self._shape())
        return self.b.output(name, type_, size=self.e.pick(counts))

    def _inout(self, name: str, fill: Any, types: tuple[Type, ...] = TYPES) -> Buffer:
        type_ = self.e.pick([t for t in self.e.types if t in types])
        return self._argument(self.b.inout, name, type_, fill)

    def _argument(self, declare: Any, name: str, type_: Type, fill: Any) -> Buffer:
        """A buffer and the array for it, in one of three cases with several axes, of which some are declared."""
        if not self.e.chance(3):
            array = self.draw(fill(type_, self._size()))
            self.arguments.append(array)
            buffer: Buffer = declare(name, type_, array.size) if self.e.chance(5) else declare(name, type_)
            return buffer
        shape = self._shape()
        self.arguments.append(self.draw(fill(type_, int(np.prod(shape)))).reshape(shape))
        declared = [extent if self.e.chance(3) else None for extent in shape]
        shaped: Buffer = declare(name, type_, shape=declared)
        return shaped

    def _shape(self) -> tuple[int, ...]:
        """Extents of 2 to 4 axes with MAX_ELEMENTS at most; an axis may be empty."""
        rest, shape = MAX_ELEMENTS, []
        for _ in range(self.draw(st.integers(2, 4))):
            shape.append(self.draw(st.integers(0 if self.e.chance(9) else 1, min(rest, 18))))
            rest //= max(shape[-1], 1)
        return tuple(shape)

    def _combined(self, number: int) -> tuple[Buffer, tuple[str, ...]]:
        """A buffer that atomics of one kind combine into, in any order."""
        buffer = self._inout(f"all{number}", small_whole_arrays, ATOMIC_TYPES)
        return buffer, self.e.pick(commuting(buffer.type))

    def _size(self) -> int:
        return self.e.pick((self.elements, max(0, self.elements - 1), self.elements + 1, 1, 0, 16))

    def _work(self) -> None:
        """Several axes need the work to be given; one axis has the elements of the first result as a default."""
        if self.axes > 1:
            most = (20, 6, 3)
            self.b.work(*(self.draw(st.integers(0, most[axis])) for axis in range(self.axes)))
        elif self.e.chance(3):
            self.b.work(self.draw(st.integers(0, MAX_ELEMENTS)))

    # ---- what every program begins with

    def _targets(self) -> Targets:
        """The linear number of the thread, in the launch and in its block."""
        if self.axes == 1:
            thread = self.b.let("i", ids.global_id.x)
            lane = self.b.let("lane", ids.thread_id.x)
        else:
            width = ids.grid_dim.x * ids.block_dim.x
            height = ids.grid_dim.y * ids.block_dim.y
            thread = self.b.let("i", ids.global_id.x + width * (ids.global_id.y + height * ids.global_id.z))
            within = ids.thread_id.x + ids.block_dim.x * (ids.thread_id.y + ids.block_dim.y * ids.thread_id.z)
            lane = self.b.let("lane", within)
        self.e.thread = thread
        self.e.add(thread)
        self.e.add(lane)
        return Targets(thread, lane, self.threads)

    def _leaves(self, targets: Targets) -> None:
        for buffer in self.sized:
            self.e.add(buffer.size, "grid")
        for id_ in (ids.block_dim, ids.grid_dim):
            self.e.add(self.b.let("u", self.e.pick((id_.x, id_.y, id_.z))), "grid")
        block_id = ids.block_id
        self.e.add(self.b.let("u", self.e.pick((block_id.x, block_id.y, block_id.z))), "block")
        if self.axes == 1:
            self.e.add(self.b.let("w", targets.lane // WARP_SIZE), "warp")
        if self.e.chance(2):
            self.e.add(self.b.let("l", ids.lane_id))

    def _own_index(self, thread: Value, buffer: Buffer) -> Index:
        """A different index for every thread, in bounds for some."""
        signed = BY_NAME[f"i{thread.type.bits}"]
        if buffer.ndim == 1:
            return self.b.let("own", self.e.pick((thread, buffer.size - 1 - thread, thread * 3, signed(thread))))
        indices = unravelled(buffer, thread)
        assert isinstance(indices, tuple)
        return tuple([self.b.let("own", self.e.pick((index, signed(index)))) for index in indices])

    def _scratch(self) -> list[Buffer]:
        if not self.e.chance(3):
            return []
        size = max(1, self.threads + self.draw(st.integers(-1, 1)))
        return [self.b.shared("scratch", self.e.type_(), size)]

    def _held(self, thread: Value) -> list[tuple[Buffer, Index]]:
        """An array of each thread, at a place that may be anywhere in it or outside."""
        if not self.e.chance(3):
            return []
        sizes: tuple[int | tuple[int, ...], ...] = (1, 2, 7, 40, (2, 3), (2, 1, 5))
        buffer = self.b.local("held", self.e.type_(), self.e.pick(sizes))
        slots = [self.b.let("slot", self.e.index(thread % 8)) for _ in range(2)]
        if buffer.ndim > 1:
            return [(buffer, unravelled(buffer, thread.type(slot))) for slot in slots]
        return [(buffer, slot) for slot in slots]

    def _agreement(self, type_: Type) -> tuple[Value, Value]:
        return self.e.literal(type_), self.e.literal(type_)


__all__ = [
    "Arguments",
    "programs",
    "programs_using",
    "programs_using_atomic",
    "programs_using_warp",
    "programs_with_inputs",
]
