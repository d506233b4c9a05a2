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
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from vyre_cuda.ir.core.nodes import (
    Atomic,
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
from vyre_cuda.ir.core.types import Type
from vyre_cuda.ir.core.walk import bodies, expressions, operands, statements
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord

if TYPE_CHECKING:
    from vyre_cuda.ir.call import reach, thread_numbers
    from vyre_cuda.ir.call.places import Bounds, Enough, Place
    from vyre_cuda.ir.call.thread_numbers import Numbers
else:
    reach = later("vyre_cuda.ir.call.reach")
    thread_numbers = later("vyre_cuda.ir.call.thread_numbers")


class Walk(FrozenRecord):
    """A buffer, or one of its axes, with `extent` elements, every access to which is at a constant or moves with the
    number of the thread on `axis` of the launch. No element is left out where of each of `enough` one holds: so many
    threads are there that they reach all elements, or that others would do nothing."""

    extent: Size
    axis: int
    enough: tuple[tuple[Enough, ...], ...]

    def computed(self) -> Iterator[Expr]:
        """All that the host computes to know whether threads are enough."""
        for enough in [each for group in self.enough for each in group]:
            yield from [expr for expr, _ in enough.need.terms]
            if enough.factor is not None:
                yield enough.factor


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
        further = frozenset([(behind[0], reach.of(Size(index, primary.name), behind[1]))])
    found: list[Walk] = []
    for parameter in parameters:
        if parameter.is_buffer and used[parameter.name] and (parameter is not primary or axes == 1):
            along = _along(parameter, used[parameter.name], further, numbers, index)
            found += [walk for walk in along if walk.axis in unsure and (walk.axis or parameter is not primary)]
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
    found = walks(program)
    size = Size(program.index, primary.name)
    return reach.work(size, found, program.block) if found else size


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
    """How the threads go along the axes of a buffer, or through all of it by a number that gives row and column."""
    flat = [numbers.flat(at, parameter, index) for at, _ in used]
    numbered = [each for each in flat if each is not None]
    if parameter.shape and len(numbered) == len(used) and len({whole for _, whole in numbered}) == 1:
        places, (whole, *_) = [place for place, _ in numbered], [whole for _, whole in numbered]
        yield from _walked(Size(index, parameter.name), whole, places, used, further, numbers.block)
        return
    by_block = parameter.kind == "in"  # a place for each block may be for more blocks than there are
    extents = [Size(index, parameter.name, None, axis) for axis in range(parameter.ndim)]
    if not parameter.shape:
        extents = [Size(index, parameter.name)]
    used = [(at, bounds | numbers.inside(at, extents)) for at, bounds in used]
    for axis, extent in enumerate(extents):
        parts = [each.indices[axis] if isinstance(each, Position) else each for each, _ in used]
        at = [numbers.place(part) for part in parts]
        if by_block or all(place is None or place.kind != "block_id" for place in at):
            yield from _walked(extent, extent, at, used, further, numbers.block)


def _walked(
    extent: Size,
    whole: Expr,
    at: Sequence[Place | None],
    used: list[tuple[Expr, Bounds]],
    further: Bounds,
    block: tuple[int, int, int],
) -> Iterator[Walk]:
    """The walks through `whole` places, if all are known, by each axis of the launch that a place has."""
    moving: dict[int, list[tuple[Place, Bounds]]] = defaultdict(list)
    for place, (_, bounds) in zip(at, used, strict=True):
        if place is None or place.kind == "grid_dim":
            return
        if place.kind in ("global_id", "block_id", "first", "tiles"):
            moving[place.axis].append((place, bounds | place.bounds | further))
    for axis, each in moving.items():
        yield from reach.walked(extent, whole, axis, each, block)
