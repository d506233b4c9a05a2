"""Several launches in a row become one: each thread does what it did in each of them, one after the other.

That is the same in every byte where a thread finds of an earlier step only what it left there itself: arrays that
several steps touch, and one of them writes, are touched by each thread at one element of its own. What a step stored
goes to the loads of later ones as a value (`forwarding`). Sizes are those of the recording, so the result is for these
sizes alone. All about indices and conditions is in `places`.

`merge` takes steps and gives a step, so that what was merged can be merged again; the result depends on its arguments
alone. What cannot be merged is Refused, with a kind and a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Mapping, Sequence

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
    OwnArray,
    Parameter,
    ParameterKind,
    SharedArray,
    Stmt,
    Store,
    Table,
    elements,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_, f32, f64, u64
from vyre_cuda.ir.core.walk import Body
from vyre_cuda.passes import filled
from vyre_cuda.passes.accesses import accesses
from vyre_cuda.passes.arrays import Array, Arrays, Key, Touch
from vyre_cuda.passes.facts import facts_of, ops_of
from vyre_cuda.passes.forwarding import Forwarded, Forwarding, Unknown
from vyre_cuda.passes.mergeable import MOST_OPS, check_launches
from vyre_cuda.passes.part import Part, Parts, Seen, seen_of, with_terms
from vyre_cuda.passes.pipeline import is_beyond_limits
from vyre_cuda.passes.places import AXES, Places
from vyre_cuda.passes.places import Key as Index
from vyre_cuda.passes.renaming import Copied, UniqueNames
from vyre_cuda.passes.steps import Kind, Refused, Span, Step
from vyre_cuda.records import replace

_LONGEST_NAME = 64


def merge(steps: Sequence[Step], dropped: Collection[Span] = ()) -> Step:
    """One step for several in a row, at least one. Raises Refused.

    `dropped` are arrays that nothing else reads, and whose contents are unspecified before: they exist no longer.
    """
    check_launches(steps)
    made = Merge(steps[0].geometry, room=len(dropped))
    for step in steps:
        made.add(step)
    return made.step(frozenset(dropped))


# ---- one program -----------------------------------------------------------------------------------------------------


class Merge:
    """Makes one step. `launch` has the blocks and threads, `room` so many parameters more than one kernel may have."""

    def __init__(self, launch: Geometry, *, room: int = 0, parts: Parts | None = None) -> None:
        self._launch = launch
        self._room = room
        self._parts = Parts() if parts is None else parts
        self._steps: list[Step] = []
        self._names = UniqueNames()
        self._places = Places([g * b for g, b in zip(launch.grid, launch.block, strict=True)])
        self._arrays = Arrays()
        self._scalars: dict[tuple[Type, Hashable], str] = {}
        self._terms: dict[tuple[Type, Hashable], int] = {}
        self._own: list[OwnArray] = []
        self._shared: list[SharedArray] = []
        self._body: list[Stmt] = []
        self._ops = 0  # of the body with values in place of loads, or fewer
        self._filled: set[str] = set()  # outs that need no clear, where the code does not show it
        self._are_own: dict[int, tuple[Seen, bool]] = {}  # by identity, so what was seen is kept

    def add(self, step: Step) -> None:
        """One step more. Where it is Refused, nothing has changed."""
        check_launches([self._steps[0], step] if self._steps else [step])
        part = self._parts.of(step)
        touches = self._arrays.touches(step)
        ops = self._ops + facts_of(step.program).ops - _forwarded_loads(touches, part)
        _check_ops(ops)
        clears = self._clears(step, touches, lambda _, p: part.fills(p.name))
        seen = self._seen(step, part)
        for array in clears:
            key = array.span, array.type
            cleared = self._of_clear(array)
            seen[key] = cleared.also(seen[key]) if key in seen else cleared
        self._check_elements(step, touches, seen, part)
        names = self._declare(step, touches, part.loads)
        self._ops = ops
        copied = self._copied(part, names, alike=True)
        self._note(seen, copied)
        self._join(self._body, self._cleared(clears))
        self._join(self._body, copied.made)

    def step(self, dropped: frozenset[Span] = frozenset()) -> Step:
        """What they are. `dropped` as in `merge`."""
        return self._made(self._forwarded(tuple(self._body), dropped), dropped)

    def _copied(self, part: Part, names: dict[str, str], *, alike: bool) -> Copied:
        copied = Copied(part, names, self._names, self._places, alike=alike)
        self._own += copied.own
        return copied

    @property
    def _index(self) -> Type:
        return self._steps[0].program.index

    @property
    def _is_fast(self) -> bool:
        return bool(self._steps) and self._steps[0].options.precision == "fast"

    # ---- parameters ----

    def _declare(self, step: Step, touches: Sequence[Touch], read: Container[str] = ()) -> dict[str, str]:
        """The names of its arrays and scalars, by those of its parameters. Raises Refused before anything changes."""
        scalars = {p.name: (p.type, step.scalars[p.name]) for p in step.program.parameters if not p.is_buffer}
        new = len({touch.key for touch in touches if touch.array is None}) + len(
            {*scalars.values()} - self._scalars.keys()
        )
        if len(self._arrays.found) + len(self._scalars) + new > MAX_PARAMETERS + self._room:
            raise Refused(f"one kernel would have more than {MAX_PARAMETERS} parameters", Kind.SIZE)
        names = self._arrays.add(step, touches, self._names.take, read)
        for name, scalar in scalars.items():
            if scalar not in self._scalars:
                self._scalars[scalar] = self._names.take(name)
            names[name] = self._scalars[scalar]
        self._steps.append(step)
        return names

    # ---- statements ----

    def _clears(
        self, step: Step, touches: Sequence[Touch], fills: Callable[[Array, Parameter], bool]
    ) -> Sequence[Array]:
        """The outs of a step that an earlier one touched, where the step does not surely fill them."""
        found: list[Array] = []
        for touch in touches:
            array, p = touch.array, touch.parameter
            if array is None or p.kind != "out" or not p.zeroed or fills(array, p):
                continue
            count, threads = array.span.count, self._places.launched.axes
            if array.span.shape != (count,) or any(high for _, high in threads[1:]) or count > threads[0][1] + 1:
                raise Refused(
                    f"{p.name}, an output of {step.program.name}, is cleared in between, "
                    "and its elements are not those of the launch's threads",
                    Kind.CLEAR,
                )
            found.append(array)
        return found

    def _fills(self, array: Array, body: Body) -> bool:
        """Whether each element of the array gets a value in this body before any is read."""
        return filled.fills(self._places, self._index, body, array.name, array.span.shape)

    def _cleared(self, arrays: Sequence[Array]) -> Body:
        """Zeros for them."""
        found: list[Stmt] = []
        for array in arrays:
            index = Id(self._index, "global_id", 0)
            zero = Store(array.name, index, Const(array.type, 0))
            found.append(If(Apply(bool_, "less", (index, Const(self._index, array.span.count))), (zero,)))
        return tuple(found)

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
                self._ops -= ops_of((statement.condition,))
                out[at:] = [*lets, If(last.condition, tuple(inner), (), last.source)]
            else:
                out.append(statement)

    def _may_move(self, statement: Stmt) -> bool:
        """Whether it may go before the branch in front of it."""
        return isinstance(statement, Let) and self._places.is_stable(statement.value)

    # ---- values ----

    def _seen(self, step: Step, part: Part) -> dict[Key, Seen]:
        """Where it touches its arrays, with scalars as terms of this program."""
        terms = {}
        for p in step.program.parameters:
            if p.name in part.scalars:
                scalar = p.type, step.scalars[p.name]
                terms[part.scalars[p.name]] = self._terms.setdefault(scalar, AXES + len(self._terms))
        found: dict[Key, Seen] = {}
        for p in step.program.parameters:
            seen = part.seen.get(p.name)
            if seen is None:
                continue
            if terms and seen.key is not None:
                seen = replace(seen, key=with_terms(seen.key, terms))
            key = step.spans[p.name], p.type
            found[key] = found[key].also(seen) if key in found else seen
        return found

    def _of_clear(self, array: Array) -> Seen:
        found = accesses(self._cleared([array]), self._places, self._places.launched)
        return seen_of(found, self._places)[array.name]

    def _check_elements(self, step: Step, touches: Sequence[Touch], seen: Mapping[Key, Seen], part: Part) -> None:
        """What several touch, and one of them writes, is touched by each thread at one element of its own."""
        by_array: dict[Key, list[Touch]] = {}
        for touch in touches:
            by_array.setdefault(touch.key, []).append(touch)
        for key, mine in by_array.items():
            array = mine[0].array
            if len(mine) + (0 if array is None else array.touches) < 2:
                continue
            if not (array is not None and array.is_written) and not any(touch.writes for touch in mine):
                continue
            now, before = seen.get(key), None if array is None else array.seen
            whole = now if before is None else before if now is None else before.also(now)
            if whole is None or (array is not None and whole is array.checked):
                continue
            name = mine[0].parameter.name if array is None else array.name
            users = [*(() if array is None else array.users), step.program.name]
            is_read = (array is not None and array.is_read) or any(t.parameter.name in part.loads for t in mine)
            self._check_element(name, key[1], users, whole, step.options.precision == "fast" and is_read)

    def _check_element(self, name: str, type_: Type, users: Collection[str], seen: Seen, is_fast: bool) -> Index:
        if seen.atomic:
            raise Refused(f"{name} is changed by an atomic, and touched by other steps", Kind.ELEMENT)
        if seen.key is None or not self._is_own(seen, seen.key):
            raise Refused(
                f"{name} is touched by {' and '.join(dict.fromkeys(users))}, "
                "and a thread would find what another one wrote",
                Kind.ELEMENT,
            )
        if is_fast and type_ in (f32, f64):
            raise Refused(
                f"{name} is of {type_}: in one kernel, a product before it and a sum behind it could "
                'become one fma with precision="fast"',
                Kind.PRECISION,
            )
        return seen.key

    def _is_own(self, seen: Seen, key: Index) -> bool:
        if id(seen) not in self._are_own:
            self._are_own[id(seen)] = seen, self._places.is_own(key, seen.where)
        return self._are_own[id(seen)][1]

    def _note(self, seen: Mapping[Key, Seen], copied: Copied) -> None:
        for key, now in seen.items():
            array = self._arrays.found[key]
            if array.seen is not None:
                array.seen = array.seen.also(now)
            else:
                index = None if now.key is None or now.index is None else copied.expr(now.index)
                array.seen = replace(now, index=index)
            is_shared = array.touches > 1 and array.is_written
            array.checked = array.seen if is_shared and not self._is_fast else None

    def _forwarded(self, body: Body, dropped: frozenset[Span]) -> Body:
        arrays: dict[str, Forwarded] = {}
        for array in self._arrays.found.values():
            stays = array.span not in dropped
            if stays and (array.touches < 2 or not array.is_written):
                continue
            if not array.is_written:
                raise Refused(f"{array.name} exists no longer, and no step writes it", Kind.UNKNOWN)
            if array.seen is None:
                continue
            key = self._check_element(array.name, array.type, array.users, array.seen, self._is_fast and array.is_read)
            assert array.seen.index is not None  # as there is a key
            begin = Const(array.type, 0) if array.first.kind == "out" and array.first.zeroed else None
            arrays[array.name] = Forwarded(array.type, array.span.shape, array.seen.index, key, stays, begin)
        try:
            return Forwarding(arrays, self._places, self._names.copy().take).body(body)
        except Unknown as found:
            raise Refused(f"{found.name} is read where no step surely wrote it", Kind.UNKNOWN) from None

    # ---- the result ----

    def _made(self, body: Body, dropped: Collection[Span] = ()) -> Step:
        parameters: list[Parameter] = []
        spans: dict[str, Span] = {}
        for array in self._arrays.found.values():
            if array.span in dropped:
                continue
            parameters.append(self._parameter(array))
            spans[array.name] = array.span
        for (type_, _), name in self._scalars.items():
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
        _check_ops(facts_of(made).ops)
        self._check(made)
        scalars = {name: key for (_, key), name in self._scalars.items()}
        origins = tuple(origin for step in self._steps for origin in step.made_of)
        return Step(made, spans, scalars, geometry, first.options, origins)

    def _check(self, made: Program) -> None:
        tables = sum(len(array.data) for array in self._own if isinstance(array, Table))
        local = sum(array.size * array.type.itemsize for array in self._own if not isinstance(array, Table))
        if tables > MAX_TABLE_BYTES or local > MAX_LOCAL_BYTES:
            raise Refused(
                f"one kernel would have {tables} bytes of tables and {local} of arrays of a thread", Kind.SIZE
            )
        if is_beyond_limits(made):
            raise Refused("one kernel would be beyond a limit of the language", Kind.SIZE)
        try:
            validate.check_meaning(made)
        except ProgramError as error:
            raise InternalError(f"merging {self._steps[0].lines()} broke the program: {error}") from error

    def _parameter(self, array: Array) -> Parameter:
        first = array.first
        kind: ParameterKind = "in"
        if first.kind == "out":
            kind = "out"
        elif array.is_written or array.is_writable:
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


def _check_ops(ops: int) -> None:
    if ops > MOST_OPS:
        raise Refused(f"one kernel would have {ops} operations, more than {MOST_OPS}", Kind.SIZE)


def _forwarded_loads(touches: Sequence[Touch], part: Part) -> int:
    """The operations of the loads of a step that read what an earlier one wrote, so that they become values."""
    written = {touch.parameter.name for touch in touches if touch.array is not None and touch.array.is_written}
    return sum(count for name, count in part.loads.items() if name in written)
