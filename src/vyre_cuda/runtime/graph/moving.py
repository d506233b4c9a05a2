"""Arrays that are symbols, on whose memory the order of all steps depends, and the rows of tables.

What was arranged with some arrays is right with others of the same sizes where each meets the same arrays as before in
the same way, as far as one of the two is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vyre_cuda.passes.ranges import Covered, Range
from vyre_cuda.runtime.base.symbol import Symbol
from vyre_cuda.runtime.graph.graph_steps import CopyStep, FillStep, LaunchStep, RepeatStep, Step, kept
from vyre_cuda.runtime.graph.temporary import Temporary
from vyre_cuda.runtime.memory.array import DeviceArray

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device


class Moving:
    """`names` are those of the symbols, `given` what they stood for."""

    def __init__(
        self, device: Device, steps: Sequence[Step | RepeatStep], names: frozenset[str], given: Mapping[str, Any]
    ) -> None:
        self.names = names
        self._device = device
        self._before = {name: kept(given[name]) for name in names}
        self._written: set[str] = set()  # symbols of arrays that a step writes
        self._others = Covered(), Covered()  # that are no such symbols: all, and those that are written
        for operand, writes in _arrays(steps) if names else ():
            value = operand
            if isinstance(operand, Symbol):
                if operand.name in names:
                    self._written.update((operand.name,) if writes else ())
                    continue
                value = given[operand.name]
            if isinstance(value, DeviceArray) and not isinstance(value, Temporary) and value.nbytes:
                for some in self._others[: 1 + writes]:
                    some.add([_range(value)])
        # Those that meet such others are right nowhere else.
        self._staying = {name for name, value in self._before.items() if self._meets(name, value)}

    def hold(self, names: Collection[str], given: Mapping[str, Any]) -> bool:
        """Whether all is right with the values that these symbols have now."""
        if self.names.isdisjoint(names):
            return True
        places: dict[str, tuple[Range, int]] = {}  # and how far it has moved
        for name, before in self._before.items():
            value = given[name]
            if not self._is_alike(value, before):
                return False
            now = _range(value)
            places[name] = now, now[1] - _range(before)[1]
            if places[name][1] if name in self._staying else self._meets(name, value):
                return False
        return all(self._share_alike(name, places) for name in self._written)

    def _meets(self, name: str, value: DeviceArray) -> bool:
        """Whether it meets an array that none of the symbols stands for, and one of the two is written."""
        return bool(value.nbytes) and self._others[name not in self._written].meets([_range(value)])

    def _is_alike(self, value: Any, before: DeviceArray) -> bool:
        if not isinstance(value, DeviceArray) or isinstance(value, Temporary) or value.is_freed:
            return False
        return value.device is self._device and value.shape == before.shape and value.dtype == before.dtype

    def _share_alike(self, name: str, places: Mapping[str, tuple[Range, int]]) -> bool:
        """Whether an array that is written meets those of the other symbols as before."""
        before, (now, moved) = _range(self._before[name]), places[name]
        for other, (there, other_moved) in places.items():
            if _meet(before, _range(self._before[other])):
                if moved != other_moved:
                    return False
            elif _meet(now, there):
                return False
        return True


def _arrays(steps: Sequence[Step | RepeatStep]) -> Iterator[tuple[Any, bool]]:
    """What the steps touch, and whether they may write it."""
    for step in steps:
        if isinstance(step, LaunchStep):
            for p in step.kernel.program.parameters:
                if p.is_buffer:
                    yield step.values[p.name], p.is_writable
        elif isinstance(step, CopyStep):
            yield step.source, False
            yield step.to, True
        elif isinstance(step, FillStep):
            yield step.to, True
        else:
            for value in step.operands:
                yield value, not isinstance(step, RepeatStep)


def _range(value: DeviceArray) -> Range:
    begin = value._alive().address + value.offset
    return 0, begin, begin + value.nbytes, ()


def _meet(one: Range, other: Range) -> bool:
    return one[1] < other[2] and other[1] < one[2]
