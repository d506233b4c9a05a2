"""Merged steps that came with a graph from a bundle, and for which values of its symbols they run.

They do where every array has as many elements as when steps were merged, and shares memory with the others in the same
way. `csrc/bundle_device/replay_forms.c` decides the same in C.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import Type
from vyre_cuda.records import dataclass
from vyre_cuda.runtime.graph.graph_steps import RepeatStep, Step
from vyre_cuda.runtime.memory.array import DeviceArray


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of a memory when steps were merged, and where they are now."""

    memory: int
    begin: int
    nbytes: int
    address: int

    def shares_alike(self, other: Place) -> bool:
        met = self.memory == other.memory and _meet(self.begin, self.nbytes, other.begin, other.nbytes)
        if not met:
            return not _meet(self.address, self.nbytes, other.address, other.nbytes)
        return self.address - other.address == self.begin - other.begin


@dataclass(frozen=True, slots=True)
class Held:
    """What a symbol stood for when steps were merged, as `bundles.graphs.Condition` has it; `type`: of its elements, or
    of the scalar."""

    is_array: bool
    type: Type
    memory: int
    value: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class BundledPlan:
    """`places` are those of arrays that are not symbols, but could meet one."""

    steps: Sequence[Step | RepeatStep]
    held: Mapping[str, Held]
    places: Sequence[Place]

    differs = True

    @property
    def fixed(self) -> frozenset[str]:
        """The symbols that only `holds` can tell about."""
        return frozenset(self.held)

    def holds(self, names: Collection[str], given: Mapping[str, Any]) -> bool:
        """Whether the merged steps do what the recorded ones would, where these symbols have other values."""
        if self.fixed.isdisjoint(names):
            return True
        places = list(self.places)
        for name, held in self.held.items():
            value = given[name]
            if not held.is_array:
                if not _is_same(held, value):
                    return False
                continue
            if not isinstance(value, DeviceArray) or value.is_freed or value.count != held.count:
                return False
            address = value._alive().address + value.offset
            place = Place(held.memory, held.value, held.count * held.type.itemsize, address)
            if not all(place.shares_alike(other) for other in places):
                return False
            places.append(place)
        return True


def _is_same(held: Held, value: Any) -> bool:
    try:
        return bits_of(held.type, value) == held.value
    except (TypeError, ValueError, OverflowError):
        return False  # the recorded steps say what is wrong


def _meet(a: int, a_bytes: int, b: int, b_bytes: int) -> bool:
    return a_bytes > 0 and b_bytes > 0 and a < b + b_bytes and b < a + a_bytes
