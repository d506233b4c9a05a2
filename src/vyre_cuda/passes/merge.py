"""Several launches in a row become one: each thread does what it did in each of them, one after the other.

That is the same in every byte where a thread finds of an earlier step only what it left there itself: arrays that
several steps touch, and one of them writes, are touched by each thread at one element of its own. What a step stored
goes to the loads of later ones as a value (`forwarding`). Sizes are those of the recording, so the result is for these
sizes alone. All about indices and conditions is in `places`.

`merge` takes steps and gives a step, so that what was merged can be merged again; the result depends on its arguments
alone. What cannot be merged is Refused, with a kind and a reason.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from vyre_cuda.errors import InternalError, ProgramError
from vyre_cuda.ir.call.geometry import Geometry
from vyre_cuda.ir.check import validate
from vyre_cuda.ir.core.limits import MAX_LOCAL_BYTES, MAX_PARAMETERS, MAX_TABLE_BYTES
from vyre_cuda.ir.core.nodes import (
    Apply,
    Const,
    Expr,
    Id,
    If,
    Let,
    Load,
    OwnArray,
    Parameter,
    ParameterKind,
    Position,
    Return,
    SharedArray,
    Stmt,
    Store,
    Table,
    elements,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_, f32, f64, u64
from vyre_cuda.ir.core.walk import Body, bodies, buffers_written, expressions, operands, statements
from vyre_cuda.passes.accesses import Access, reads
from vyre_cuda.passes.accesses import accesses as accesses_of
from vyre_cuda.passes.forwarding import Forwarded, Forwarding, Unknown
from vyre_cuda.passes.mergeable import MOST_OPS, check_launches, count_ops
from vyre_cuda.passes.pipeline import is_beyond_limits
from vyre_cuda.passes.places import Conditions, Key, Places, hull
from vyre_cuda.passes.renaming import Renamed, UniqueNames
from vyre_cuda.passes.returns import without_returns
from vyre_cuda.passes.steps import Kind, Refused, Span, Step
from vyre_cuda.records import dataclass, replace

_LONGEST_NAME = 64


def merge(steps: Sequence[Step], dropped: Collection[Span] = ()) -> Step:
    """One step for several in a row, at least one. Raises Refused.

    `dropped` are arrays that nothing else reads, and whose contents are unspecified before: they exist no longer.
    """
    check_launches(steps)
    return Merge(steps, frozenset(dropped)).step()


# ---- one program -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Touch:
    """A buffer parameter of a step."""

    step: int
    parameter: Parameter
    span: Span
    writes: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Array:
    """A buffer of the merged program, with all that touch it, in order."""

    name: str
    type: Type
    span: Span
    touches: list[_Touch]

    @property
    def is_written(self) -> bool:
        return any(touch.writes for touch in self.touches)


class Merge:
    """Makes one step; in the order of its methods."""

    def __init__(self, steps: Sequence[Step], dropped: frozenset[Span]) -> None:
        self._steps = steps
        self._dropped = dropped
        self._names = UniqueNames()
        self._launch = max([step.geometry for step in steps], key=lambda geometry: geometry.threads_per_block)
        self._places = Places([g * b for g, b in zip(self._launch.grid, self._launch.block, strict=True)])
        self._index = steps[0].program.index
        self._arrays: dict[str, _Array] = {}
        self._touched: list[list[tuple[_Array, _Touch]]] = []  # by step
        self._scalars: dict[str, tuple[Type, Hashable]] = {}
        self._own: list[OwnArray] = []
        self._shared: list[SharedArray] = []
        self._threads_of: dict[tuple[int, ...], tuple[Conditions, Key | None] | None] = {}  # by shape
        self._filled: set[str] = set()  # outs that need no clear, where the code does not show it

    def step(self) -> Step:
        maps = self._declare()
        self._check_ranges()
        body: list[Stmt] = []
        for number in range(len(self._steps)):
            renamed = self._renamed(number, maps[number])
            self._join(body, self._clears(number, renamed))
            self._join(body, renamed)
        return self._made(self._forwarded(tuple(body)))

    def _renamed(self, number: int, names: dict[str, str]) -> Body:
        step = self._steps[number]
        rest = without_returns(step.program.body)
        if any(isinstance(s, Return) for s in statements(rest)):
            raise Refused(f"{step.program.name} has a return inside a loop or a branch", Kind.RETURN)
        return Renamed(step, names, self._names, self._places, self._own).body(rest)

    # ---- parameters ----

    def _declare(self) -> list[dict[str, str]]:
        """The arrays and scalars; for each step, their names by those of its parameters."""
        maps: list[dict[str, str]] = []
        arrays: dict[tuple[Span, Type], _Array] = {}
        scalars: dict[tuple[Type, Hashable], str] = {}
        for number, step in enumerate(self._steps):
            names: dict[str, str] = {}
            self._touched.append([])
            written = buffers_written(step.program.body)
            for p in step.program.parameters:
                if p.is_buffer:
                    touch = _Touch(number, p, step.spans[p.name], p.kind == "out" or p.name in written)
                    array = arrays.get((touch.span, p.type))
                    if array is None:
                        array = _Array(self._names.take(p.name), p.type, touch.span, [])
                        arrays[touch.span, p.type] = self._arrays[array.name] = array
                    elif p.kind == "out" and array.touches[-1].step == number:
                        raise Refused(f"{step.program.name} has {p.name} as another of its arrays too", Kind.OVERLAP)
                    array.touches.append(touch)
                    self._touched[number].append((array, touch))
                    names[p.name] = array.name
                else:
                    key = (p.type, step.scalars[p.name])
                    if key not in scalars:
                        scalars[key] = self._names.take(p.name)
                        self._scalars[scalars[key]] = key
                    names[p.name] = scalars[key]
            maps.append(names)
            self._check_parameters(number)
        return maps

    def _check_parameters(self, number: int) -> None:
        count = len(self._arrays) + len(self._scalars) - len(self._dropped)
        if count > MAX_PARAMETERS:
            raise Refused(f"one kernel would have more than {MAX_PARAMETERS} parameters", Kind.SIZE, number)

    def _check_ranges(self) -> None:
        """Arrays that are not the same may meet only where nobody writes."""
        arrays = sorted((a for a in self._arrays.values() if a.span.count), key=lambda a: (a.span.memory, a.span.first))
        for at, array in enumerate(arrays):
            end = array.span.first + array.span.count * array.type.itemsize
            for other in arrays[at + 1 :]:
                if other.span.memory != array.span.memory or other.span.first >= end:
                    break
                if array.is_written or other.is_written:
                    same = (array.span.first, array.span.count * array.type.itemsize) == (
                        other.span.first,
                        other.span.count * other.type.itemsize,
                    )
                    raise Refused(
                        f"{array.name} of {self._called(array)} and {other.name} of {self._called(other)} "
                        + ("are the same memory in other types or shapes" if same else "share a part of their memory"),
                        Kind.VIEW if same else Kind.OVERLAP,
                    )

    def _called(self, array: _Array) -> str:
        return self._steps[array.touches[0].step].program.name

    # ---- statements ----

    def _clears(self, number: int, body: Body, *, again: bool = False) -> Body:
        """Zeros for the outs of a step that an earlier one touched, where the step does not surely fill them.

        With `again` the step itself has touched all of them.
        """
        found: list[Stmt] = []
        for array, touch in self._touched[number]:
            earlier = again or array.touches[0].step < number
            if not earlier or touch.parameter.kind != "out" or not touch.parameter.zeroed:
                continue
            if self._fills(array, body):
                continue
            count, threads = array.span.count, self._places.launched.axes
            if array.span.shape != (count,) or any(high for _, high in threads[1:]) or count > threads[0][1] + 1:
                raise Refused(
                    f"{touch.parameter.name}, an output of {self._steps[number].program.name}, is cleared in between, "
                    "and its elements are not those of the launch's threads",
                    Kind.CLEAR,
                )
            index = Id(self._index, "global_id", 0)
            zero = Store(array.name, index, Const(array.type, 0))
            found.append(If(Apply(bool_, "less", (index, Const(self._index, count))), (zero,)))
        return tuple(found)

    def _fills(self, array: _Array, body: Body) -> bool:
        """Whether each element gets a value at the top of the step, before any is read."""
        if array.span.shape not in self._threads_of:
            self._threads_of[array.span.shape] = self._threads(array.span.shape)
        found_for = self._threads_of[array.span.shape]
        if found_for is None:
            return False
        whole, own = found_for

        def stores(part: Body, here: Conditions) -> bool | None:
            """None: it neither reads nor fills the array."""
            for s in part:
                if reads((s,), array.name, nested=False):
                    return False
                is_store = isinstance(s, Store) and s.buffer == array.name and whole.within(here)
                if is_store and isinstance(s, Store) and self._places.key(s.index, whole) == own:
                    return True
                if isinstance(s, If) and (found := stores(s.then, self._places.assumed(here, s.condition))) is not None:
                    return found
                if any(reads(inner, array.name) for _, inner in bodies(s)):
                    return False
            return None

        return bool(stores(body, self._places.launched))

    def _threads(self, shape: tuple[int, ...]) -> tuple[Conditions, Key | None] | None:
        """Which threads have an element each of an array of this shape, and which one; None: there are too few."""
        extents = shape[::-1]  # by axis of the threads: the last index is along x
        threads = self._places.launched.axes
        if len(extents) > len(threads) or any(n - 1 > high for n, (_, high) in zip(extents, threads, strict=False)):
            return None
        whole = Conditions(tuple((0, extents[axis] - 1 if axis < len(extents) else 0) for axis in range(len(threads))))
        ids = tuple(Id(self._index, "global_id", axis) for axis in range(len(extents)))[::-1]
        return whole, self._places.key(ids[0] if len(ids) == 1 else Position(self._index, ids), whole)

    def _join(self, out: list[Stmt], body: Body) -> None:
        """Append the statements; those under the same condition as the last branch go into it."""
        for statement in body:
            at = len(out) - 1
            while at >= 0 and self._may_move(out[at]):
                at -= 1
            last = out[at] if at >= 0 else None
            if (
                isinstance(statement, If)
                and isinstance(last, If)
                and not statement.orelse
                and not last.orelse
                and self._places.same(last.condition, statement.condition)
            ):
                lets = out[at + 1 :]
                inner = list(last.then)
                self._join(inner, statement.then)
                out[at:] = [*lets, If(last.condition, tuple(inner), (), last.source)]
            else:
                out.append(statement)

    def _may_move(self, statement: Stmt) -> bool:
        """Whether it may go before the branch in front of it."""
        return isinstance(statement, Let) and self._places.is_stable(statement.value)

    # ---- values ----

    def _forwarded(self, body: Body) -> Body:
        arrays: dict[str, Forwarded] = {}
        accesses: dict[str, list[Access]] = {}
        for name, index, here in accesses_of(body, self._places, self._places.launched):
            accesses.setdefault(name, []).append((index, here))
        for array in self._arrays.values():
            stays = array.span not in self._dropped
            if stays and (len(array.touches) < 2 or not array.is_written):
                continue
            if not stays and not array.is_written:
                raise Refused(f"{array.name} exists no longer, and no step writes it", Kind.UNKNOWN)
            forwarded = self._own_element(array, accesses.get(array.name, []), stays)
            if forwarded is not None:
                arrays[array.name] = forwarded
        if self._steps[0].options.precision == "fast":
            every = (e for s in statements(body) for e in expressions(operands(s)))
            read = {e.buffer for e in every if isinstance(e, Load)}
            for name, found in arrays.items():
                if found.type in (f32, f64) and name in read:
                    raise Refused(
                        f"{name} is of {found.type}: in one kernel, a product before it and a sum behind it could "
                        'become one fma with precision="fast"',
                        Kind.PRECISION,
                    )
        try:
            return Forwarding(arrays, self._places, self._names.take).body(body)
        except Unknown as found:
            raise Refused(f"{found.name} is read where no step surely wrote it", Kind.UNKNOWN) from None

    def _own_element(self, array: _Array, found: Sequence[Access], stays: bool) -> Forwarded | None:
        """`found` are its accesses. None for an array that nothing touches."""
        if not found:
            return None
        keys: set[Key | None] = set()
        for index, here in found:
            if index is None:
                raise Refused(f"{array.name} is changed by an atomic, and touched by other steps", Kind.ELEMENT)
            keys.add(self._places.key(index, here))
        key = next(iter(keys))
        if len(keys) > 1 or key is None or not self._places.is_own(key, hull(here for _, here in found)):
            raise Refused(
                f"{array.name} is touched by {' and '.join(self._users(array))}, "
                "and a thread finds there what another one wrote",
                Kind.ELEMENT,
            )
        index = found[0][0]
        assert index is not None
        first = array.touches[0].parameter
        begin = Const(array.type, 0) if first.kind == "out" and first.zeroed else None
        return Forwarded(array.type, array.span.shape, self._places.written_out(index), key, stays, begin)

    def _users(self, array: _Array) -> list[str]:
        return list(dict.fromkeys(self._steps[t.step].program.name for t in array.touches))

    # ---- the result ----

    def _made(self, body: Body) -> Step:
        parameters: list[Parameter] = []
        spans: dict[str, Span] = {}
        for array in self._arrays.values():
            if array.span in self._dropped:
                continue
            parameters.append(self._parameter(array))
            spans[array.name] = array.span
        for name, (type_, _) in self._scalars.items():
            parameters.append(Parameter(name, "scalar", type_))
        geometry = self._geometry()
        first = self._steps[0]
        made = Program(
            _name([name for step in self._steps for name, _ in step.made_of]),
            tuple(parameters),
            body,
            self._launch.block,
            self._index,
            self._work(geometry),
            tuple(self._shared),
            next((at for step in self._steps for _, at in step.made_of if at), None),
            arrays=tuple(self._own),
        )
        ops = count_ops(body)
        if ops > MOST_OPS:
            raise Refused(f"one kernel would have {ops} operations, more than {MOST_OPS}", Kind.SIZE)
        self._check(made)
        scalars = {name: key for name, (_, key) in self._scalars.items()}
        origins = tuple(origin for step in self._steps for origin in step.made_of)
        return Step(made, spans, scalars, geometry, first.options, origins)

    def _check(self, made: Program) -> None:
        tables = sum(len(array.data) for array in self._own if isinstance(array, Table))
        local = sum(array.size * array.type.itemsize for array in self._own if not isinstance(array, Table))
        if tables > MAX_TABLE_BYTES or local > MAX_LOCAL_BYTES:
            raise Refused(
                f"one kernel would have {tables} bytes of tables and {local} of arrays of a thread", Kind.SIZE
            )
        try:
            validate.check(made)
        except ProgramError as error:
            if is_beyond_limits(made):
                raise Refused("one kernel would be beyond a limit of the language", Kind.SIZE) from error
            raise InternalError(f"merging {self._steps[0].lines()} broke the program: {error}") from error

    def _parameter(self, array: _Array) -> Parameter:
        first = array.touches[0].parameter
        kind: ParameterKind = "in"
        if first.kind == "out":
            kind = "out"
        elif array.is_written or any(t.parameter.is_writable for t in array.touches):
            kind = "inout"
        extents: list[Expr | None] = [Const(self._index, extent) for extent in array.span.shape]
        zeroed = kind != "out" or (first.zeroed and array.name not in self._filled)
        shape = () if len(extents) == 1 else tuple(extents)
        size = extents[0] if not shape else elements(shape)
        return Parameter(array.name, kind, array.type, size, first.source, shape, zeroed)

    def _geometry(self) -> Geometry:
        """Blocks and threads are the same; a step with less work has the same threads."""
        work = [max(extents) for extents in zip(*[step.geometry.work for step in self._steps], strict=True)]
        return replace(self._launch, work=(work[0], work[1], work[2]))

    def _work(self, geometry: Geometry) -> tuple[Expr, ...]:
        axes = max([axis + 1 for axis in range(3) if geometry.block[axis] > 1 or geometry.work[axis] != 1], default=1)
        return tuple([Const(self._index if n <= self._index.maximum else u64, n) for n in geometry.work[:axes]])


def _name(names: Sequence[str]) -> str:
    whole = "_".join(names)
    return whole if len(whole) <= _LONGEST_NAME else f"{names[0]}_and_{len(names) - 1}_more"
