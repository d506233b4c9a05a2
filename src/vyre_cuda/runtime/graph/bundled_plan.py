"""Merged steps that came with a graph from a bundle, and for which values of its symbols they run.

They do where every array has as many elements as when steps were merged, and shares memory with the others in the same
way. `csrc/bundle_device/replay_sharing.c` decides the same in C.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import Type
from vyre_cuda.records import FrozenRecord
from vyre_cuda.runtime.graph.graph_steps import RepeatStep, Step
from vyre_cuda.runtime.memory.array import DeviceArray


class Place(FrozenRecord):
    """Bytes of a memory when steps were merged, and where they are now."""

    memory: int
    begin: int
    nbytes: int
    address: int


def share_alike(places: Iterable[Place]) -> bool:
    """Whether they share memory now as they did when steps were merged: those that met then, and what met these, have
    moved as a whole, and do not meet others."""
    clusters: list[list[int]] = []  # memory, first byte, the byte behind the last, how far it has moved
    for place in sorted((place for place in places if place.nbytes), key=lambda place: (place.memory, place.begin)):
        end, moved = place.begin + place.nbytes, place.address - place.begin
        last = clusters[-1] if clusters else None
        if last is None or last[0] != place.memory or place.begin >= last[2]:
            clusters.append([place.memory, place.begin, end, moved])
        elif moved != last[3]:
            return False
        else:
            last[2] = max(last[2], end)
    now = sorted((begin + moved, end + moved) for _, begin, end, moved in clusters)
    return all(one[1] <= other[0] for one, other in pairwise(now))


class Held(FrozenRecord):
    """What a symbol stood for when steps were merged, as `bundles.graphs.Condition` has it; `type`: of its elements, or
    of the scalar."""

    is_array: bool
    type: Type
    memory: int
    value: int
    count: int


class BundledPlan(FrozenRecord, eq=False):
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
            places.append(Place(held.memory, held.value, held.count * held.type.itemsize, address))
        return share_alike(places)


def _is_same(held: Held, value: Any) -> bool:
    try:
        return bits_of(held.type, value) == held.value
    except (TypeError, ValueError, OverflowError):
        return False  # the recorded steps say what is wrong
