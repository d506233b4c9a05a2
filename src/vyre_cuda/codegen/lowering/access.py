"""Access facts: what the text shows about a kernel's use of its buffers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vyre_cuda.codegen.core.lowered import Access
from vyre_cuda.codegen.lowering.isel_memory import Memory, Place
from vyre_cuda.codegen.lowering.linear import Linear
from vyre_cuda.ir.core.program import Program


def access_facts(linear: Linear, memory: Memory, program: Program, thread: int) -> Mapping[str, Access]:
    """The access facts of every buffer parameter."""
    return MappingProxyType(
        {p.name: _access(linear, memory.places[p.name], thread) for p in program.parameters if p.is_buffer}
    )


# The most accesses that may each wait for the previous one: with more, the wait for host memory is no longer short.
_FEW = 8


def _access(linear: Linear, place: Place, thread: int) -> Access:
    kinds = {touch.kind for touch in place.touches}
    counted = bool(kinds) and "atomic" not in kinds and not any(touch.in_loop for touch in place.touches)
    wide = place.type.itemsize in (4, 8)
    first = place.touches[0].at if place.touches else thread
    streaming = counted and wide and all(_apart(linear, touch.at, first) == 0 for touch in place.touches)
    few = counted and len(kinds) == 1 and len(place.touches) <= _FEW
    sectors = sum(_sectors(linear, place, touch.at, thread) for touch in place.touches) if few else 0
    own = streaming and _apart(linear, first, thread) is not None
    return Access("load" in kinds, "store" in kinds, "atomic" in kinds, own, sectors)


def _sectors(linear: Linear, place: Place, at: int, thread: int) -> int:
    if not linear.of(at).terms:
        return 1
    return place.type.itemsize if _apart(linear, at, thread) is not None else 32


def _apart(linear: Linear, one: int, other: int) -> int | None:
    """How many elements one index is from the other, if it is the same for all threads."""
    if one == other:
        return 0
    sums = linear.of(one), linear.of(other)
    return sums[0].distance(sums[1]) if sums[0].bits == sums[1].bits else None
