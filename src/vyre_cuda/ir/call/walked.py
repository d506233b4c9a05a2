"""Arrays that the threads of a launch walk through, each thread at its own number, though nothing says how many
threads there are.

Where a program names no work, a launch has a thread for each element of its first result. That is what is meant if
threads store to this result at their own number. It is not if the result is a histogram or a few sums, and `x[i]` of a
longer array `x` is what the threads are for: then the rest of `x` would be left out in silence. So a launch is refused
if it has fewer threads than such an `x` has elements, unless a condition like `i < n` around every access shows that
those that are missing would do nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from vyre_cuda.ir.core.nodes import (
    Apply,
    Atomic,
    Const,
    Expr,
    Id,
    If,
    Let,
    Load,
    Local,
    Parameter,
    Position,
    Return,
    Size,
    Stmt,
    Store,
)
from vyre_cuda.ir.core.program import Program, primary_buffer
from vyre_cuda.ir.core.types import Type, u64
from vyre_cuda.ir.core.walk import bodies, expressions, operands, statements
from vyre_cuda.later import later
from vyre_cuda.records import dataclass

if TYPE_CHECKING:
    from vyre_cuda.ir.call import thread_numbers
    from vyre_cuda.ir.call.thread_numbers import Bounds, Numbers
else:
    thread_numbers = later("vyre_cuda.ir.call.thread_numbers")


@dataclass(frozen=True, slots=True)
class Walk:
    """A buffer, or one of its axes, with `extent` elements: but for accesses at constants, every one is at the number
    of the thread on `axis` of the launch times `scale` plus a constant, so that threads 0 to n - 1 reach all of
    `scale * n + beyond` elements that threads reach. A thread accesses nothing where one of `bounds` does not hold."""

    extent: Size
    axis: int
    beyond: int
    scale: int = 1
    bounds: tuple[tuple[Expr, int], ...] = ()


def walks(program: Program) -> tuple[Walk, ...]:
    """What the threads of a launch without `grid=` must reach to the end; () if the program names its work."""
    primary = primary_buffer(program)
    if program.work is not None or primary is None:
        return ()
    if not program._walks:
        program._walks.append(walks_of(program.parameters, program.body, program.block, program.index, primary, 1))
    return program._walks[0]


def walks_of(
    parameters: tuple[Parameter, ...],
    body: tuple[Stmt, ...],
    block: tuple[int, int, int],
    index: Type,
    primary: Parameter,
    axes: int,
) -> tuple[Walk, ...]:
    """The walks along the axes of the launch on which `primary` is not used at the threads' own numbers, if the work
    has one axis, or `axes` of them, with its elements."""
    if _is_plain(body, primary.name, axes):
        return ()
    numbers = thread_numbers.Numbers(body, block)
    used: dict[str, list[tuple[Expr, Bounds]]] = defaultdict(list)
    for name, at, bounds in _Accesses(numbers).of(body, frozenset()):
        used[name].append((at, bounds))
    indices = [at for at, _ in used[primary.name]]
    unsure = {0, 1, 2} - {axis for axis in numbers.own(indices) if axis < axes}
    behind = numbers.behind(indices)
    further: Bounds = frozenset()
    if behind is not None:
        unsure.add(behind[0])
        further = frozenset([(behind[0], Size(index, primary.name), behind[1])])
    found: list[Walk] = []
    for parameter in parameters:
        if parameter.is_buffer and parameter is not primary and used[parameter.name]:
            along = _along(parameter, used[parameter.name], further, numbers, index)
            found += [walk for walk in along if walk.axis in unsure]
    return tuple(found)


def turned(body: tuple[Stmt, ...], block: tuple[int, int, int], out: Parameter) -> tuple[int, ...]:
    """The axis of `out` at which each id of the launch is used, from x on, where every access shows that and it is not
    the usual one, the last axis first; else ()."""
    numbers = thread_numbers.Numbers(body, block)
    usual = tuple(reversed(range(out.ndim)))
    orders: set[tuple[int, ...]] = set()
    for at in [at for name, at, _ in _Accesses(numbers).of(body, frozenset()) if name == out.name]:
        on = [numbers.own([part]) for part in at.indices] if isinstance(at, Position) else []
        if sorted(map(sorted, on)) != [[axis] for axis in range(out.ndim)]:
            return ()
        orders.add(tuple([on.index({axis}) for axis in range(out.ndim)]))
    return orders.pop() if len(orders) == 1 and orders != {usual} else ()


def work_of(program: Program, primary: Parameter) -> Expr:
    """The work of a program that names none, as an expression that has no exact value where a walk is not covered."""
    size: Expr = Size(program.index, primary.name)
    found = walks(program)
    if not found:
        return size
    size = _wide(size)
    work = size
    for walk in found:
        block = Const(u64, program.block[walk.axis])
        blocks: Expr = Const(u64, 1)
        if walk.axis == 0:
            above = Apply(u64, "add", (size, Const(u64, block.bits - 1)))
            blocks = Apply(u64, "floor_divide", (above, block))
        threads = Apply(u64, "multiply", (blocks, block))
        spare = Apply(u64, "subtract", (_reached(walk, threads), _needed(walk)))
        work = Apply(u64, "add", (work, Apply(u64, "minimum", (spare, Const(u64, 0)))))
    return work


def _reached(walk: Walk, threads: Expr) -> Expr:
    scaled = Apply(u64, "multiply", (threads, Const(u64, walk.scale))) if walk.scale != 1 else threads
    return Apply(u64, "add", (scaled, Const(u64, walk.beyond)))


def _needed(walk: Walk) -> Expr:
    """How many elements must be reached, without a difference that is below zero."""
    needed = _wide(walk.extent)
    for bound, more in walk.bounds:
        if bound.type.kind == "signed":
            bound = Apply(bound.type, "maximum", (bound, Const(bound.type, 0)))
        threads = _wide(bound)
        if more < 0:
            threads = Apply(u64, "maximum", (threads, Const(u64, -more)))
            threads = Apply(u64, "subtract", (threads, Const(u64, -more)))
        elif more > 0:
            threads = Apply(u64, "add", (threads, Const(u64, more)))
        needed = Apply(u64, "minimum", (needed, _reached(walk, threads)))
    return needed


def _wide(expr: Expr) -> Expr:
    return expr if expr.type is u64 else Apply(u64, "cast", (expr,))


def _is_plain(body: tuple[Stmt, ...], buffer: str, axes: int) -> bool:
    """Whether a store shows at a glance that it is at the number of the thread on all axes that have a name.

    It is so in most programs, and a start does not look at their expressions.
    """
    lets: dict[str, Id] = {}
    stored: set[int] = set()
    for statement in statements(body):
        if isinstance(statement, Let):
            if isinstance(statement.value, Id):
                lets[statement.name] = statement.value
        elif isinstance(statement, Store) and statement.buffer == buffer:
            index = statement.index
            parts = index.indices if isinstance(index, Position) else (index,)
            ids = [lets.get(part.name) if isinstance(part, Local) else part for part in parts]
            stored |= {each.axis for each in ids if isinstance(each, Id) and each.kind == "global_id"}
    named = {each.axis for each in lets.values() if each.kind in ("global_id", "block_id")}
    return named <= stored == set(range(axes))


class _Accesses:
    """The accesses of a program, each with what its thread's number is below where it has an effect.

    What a let reads counts where the let is used.
    """

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._common: dict[str, Bounds] = {}  # by let: what holds at all of its uses

    def of(self, body: tuple[Stmt, ...], bounds: Bounds) -> Iterator[tuple[str, Expr, Bounds]]:
        for statement in body:
            if isinstance(statement, If):
                holds = bounds | self._numbers.bounds(statement.condition, True)
                fails = bounds | self._numbers.bounds(statement.condition, False)
                returns = bool(statement.then) and isinstance(statement.then[-1], Return)
                idle = fails if len(statement.then) == 1 and returns else bounds
                within = idle if statement.orelse or returns else holds
                yield from self._read((statement.condition,), within)
                yield from self.of(statement.then, holds)
                yield from self.of(statement.orelse, fails)
                bounds = fails if returns else bounds
            elif not isinstance(statement, Let):
                if isinstance(statement, (Store, Atomic)):
                    yield statement.buffer, statement.index, bounds
                yield from self._read(operands(statement), bounds)
                for _, inner in bodies(statement):
                    yield from self.of(inner, bounds)

    def _read(self, roots: Iterable[Expr], bounds: Bounds) -> Iterator[tuple[str, Expr, Bounds]]:
        """A let is read again only where fewer bounds hold than at its uses before."""
        work = [(root, bounds) for root in roots]
        while work:
            root, within = work.pop()
            for expr in expressions([root]):
                if isinstance(expr, Load):
                    yield expr.buffer, expr.index, within
                elif isinstance(expr, Local) and expr.name in self._numbers.lets:
                    before = self._common.get(expr.name)
                    common = within if before is None else before & within
                    if common != before:
                        self._common[expr.name] = common
                        work.append((self._numbers.lets[expr.name], common))


def _along(
    parameter: Parameter, used: list[tuple[Expr, Bounds]], further: Bounds, numbers: Numbers, index: Type
) -> Iterator[Walk]:
    """The axes of a buffer on which every access is at the thread's number, or a multiple of it, plus a constant."""
    common = frozenset.intersection(*[bounds for _, bounds in used]) | further
    for axis in range(parameter.ndim):
        parts = [each.indices[axis] if isinstance(each, Position) else each for each, _ in used]
        places = [numbers.place(part) for part in parts]
        moving = [place for place in places if place is not None and place.kind != "constant"]
        kinds = {(place.kind, place.axis, place.scale) for place in moving}
        if None in places or len(kinds) != 1 or moving[0].kind not in ("global_id", "tiles"):
            continue
        place = moving[0]
        last: dict[int, int] = {}  # by what remains of the offset: threads behind the last one go on from it
        for offset in sorted({offset for each in moving for offset in each.offsets}):
            last[offset % place.scale] = offset
        beyond = min(last.values()) if place.kind == "global_id" else 0
        extent = Size(index, parameter.name, None, axis if parameter.shape else None)
        bounds = [(bound, more) for on, bound, more in common if on == place.axis and bound != extent]
        bounds.sort(key=repr)
        yield Walk(extent, place.axis, max(beyond, 0), place.scale, tuple(bounds))
