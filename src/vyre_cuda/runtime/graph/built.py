"""A driver's graph made of steps: the steps' numbers in it, and where it has the temporary arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.core.context import Stream
from vyre_cuda._native.graph import graph as native
from vyre_cuda.later import later
from vyre_cuda.runtime.graph.arena import Arena
from vyre_cuda.runtime.graph.collective_step import CollectiveStep
from vyre_cuda.runtime.graph.graph_steps import (
    CopyStep,
    LaunchStep,
    LoadedStep,
    RepeatStep,
    RowsStep,
    Step,
    TablesStep,
    has_temporaries,
    is_host,
)
from vyre_cuda.runtime.graph.settable import Settable

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel import many
else:
    many = later("vyre_cuda.runtime.kernel.many")

Changes = list[tuple[int, Any]]
FILL = "fill of temporary arrays"
CLEAR = "clear for "  # and the label of a step


class Built:
    """`given` has the values of the symbols, `bound` the parameters of some steps without symbols, by place. `fixed`
    are symbols whose values the caller looks at before each replay that has others."""

    def __init__(
        self,
        device: Device,
        steps: Sequence[Step | RepeatStep],
        given: Mapping[str, Any],
        on: Stream | None = None,
        bound: Mapping[int, Any] | None = None,
        *,
        fixed: Collection[str] = (),
    ) -> None:
        self.arena = Arena(device, steps) if any(has_temporaries(step) for step in steps) else None
        self._users: dict[str, list[tuple[int, Step]]] = {}
        self.labels: dict[int, str] = {}
        self.native = native.Graph(device.context)
        for buffer in () if self.arena is None else self.arena.buffers:
            self.native.own(buffer)
        self._make(steps, self._placed(given), on, bound or {})
        settable = Settable(fixed)
        for name, users in self._users.items():
            if not any(is_host(given[name]) for _, step in users if isinstance(step, CopyStep)):
                settable.add(self.native, name, users)

    def _make(
        self, steps: Sequence[Step | RepeatStep], given: Mapping[Any, Any], on: Stream | None, bound: Mapping[int, Any]
    ) -> None:
        made = self.native
        fill = None if self.arena is None else self.arena.fill()
        if fill is not None:
            self.labels[made.add_transfer(fill)] = FILL
        ends: list[int] = []
        for place, step in enumerate(steps):
            while ends and ends[-1] == place:
                made.repeat_end()
                ends.pop()
            if isinstance(step, RepeatStep):
                until = step.placed(given)
                number = made.repeat_begin(step.times, until, 0 if until is None else until.dtype.itemsize)
                ends.append(step.end)
            else:
                number = self._add(step, bound[place] if place in bound else step.bind(given, on))
                for clear in range(len(self.labels), number):
                    self.labels[clear] = f"{CLEAR}{step.label}"
            self.labels[number] = step.label
        for _ in ends:
            made.repeat_end()
        made.finish()

    def _add(self, step: Step, parameters: Any) -> int:
        if isinstance(step, LaunchStep):
            number = self.native.add_launch(step.kernel.prepared, parameters)
        elif isinstance(step, RowsStep):
            entry, clearing, many_clearing = many.kernels_for(step.kernel, parameters)
            assert entry is not None  # what_keeps_apart said nothing
            number = self.native.add_rows(parameters, entry, clearing, many_clearing)
        elif isinstance(step, TablesStep):
            assert step.entry is not None  # else its tables are steps of their own
            number = self.native.add_tables(parameters, step.entry, *many.clearing_for(step.kernels))
        elif isinstance(step, LoadedStep):
            assert step.prepared is not None  # it was bound for that
            number = self.native.add_launch(step.prepared, parameters)
        elif isinstance(step, CollectiveStep):
            number = self.native.add_collectives(step.rank._member, parameters)
        else:
            number = self.native.add_transfer(parameters)
        for name in {symbol.name for symbol in step.symbols}:
            self._users.setdefault(name, []).append((number, step))
        return number

    def changes(self, names: Iterable[str], given: Mapping[str, Any], on: Stream | None = None) -> Changes:
        """What the values of these symbols make of their steps."""
        steps = {number: step for name in names for number, step in self._users.get(name, ())}
        placed = self._placed(given)
        return [(number, _changed(steps[number], placed, on)) for number in sorted(steps)]

    def node_count(self) -> int:
        count: int = self.native.info()["node_count"]
        return count

    def _placed(self, given: Mapping[str, Any]) -> Mapping[Any, Any]:
        return given if self.arena is None else {**given, **self.arena.given}


def _changed(step: Step, given: Mapping[Any, Any], on: Stream | None) -> Any:
    return step.arrays(given) if isinstance(step, TablesStep) else step.bind(given, on)
