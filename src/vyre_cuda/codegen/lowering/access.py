"""What the text shows about a kernel's use of its buffers: access facts, and which outs it is sure to fill.

`Coverage` follows the statements as they are lowered. An out is covered when every thread whose global_id.x is below
the out's size stores to out[global_id.x]: nothing but comparisons of global_id.x with that size stands before the
store, no thread can have left, and nothing has read the out before.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vyre_cuda.codegen.core.lowered import Access
from vyre_cuda.codegen.lowering.isel_memory import Index, Memory, Place
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.program import Program


class Coverage:
    """The conditions under which the current statement runs, for every thread's stores.

    `bounds`: a thread is here if its global_id.x is below all of these values; None if that cannot be said.
    `depth` counts the conditions and loops around.
    """

    __slots__ = ("_builder", "_memory", "bounds", "covered", "depth", "leaves", "thread")

    def __init__(self, builder: Builder, memory: Memory, thread: int) -> None:
        self._builder = builder
        self._memory = memory
        self.thread = thread  # global_id.x
        self.bounds: tuple[int, ...] | None = ()
        self.covered: frozenset[str] = frozenset()
        self.depth = 0
        self.leaves = 0  # how often `leave` was called

    @property
    def everyone(self) -> bool:
        """Every thread of the block runs this statement, once."""
        return self.depth == 0 and self.bounds == ()

    def bound_of(self, condition: int, truth: bool) -> int | None:
        """The value s when `condition` being `truth` is the same as global_id.x < s."""
        function = self._builder.function
        op, args = function.ops[condition], function.args[condition]
        if op == "less" and truth and args[0] == self.thread:
            return args[1]
        if op == "less_equal" and not truth and args[1] == self.thread:
            return args[0]
        return None

    def of_either(self, condition: int, then: frozenset[str], orelse: frozenset[str]) -> frozenset[str]:
        """What an if covers if its sides cover these: a side bounded only by global_id.x counts for itself."""
        if self.bound_of(condition, True) is not None:
            return then
        return orelse if self.bound_of(condition, False) is not None else then & orelse

    def leave(self) -> None:
        """Some thread may have ended here."""
        self.bounds = None
        self.leaves += 1

    def store(self, name: str, index: Index) -> None:
        """A store to name[index] has been lowered."""
        place = self._memory.places[name]
        if self.bounds is None or index != self.thread or place.symbol:
            return
        if place.is_read:  # it may have read the zeros that a clear leaves
            return
        size = self._memory.size(name)
        if all(self._at_least(bound, size) for bound in self.bounds):
            self.covered |= {name}

    def _at_least(self, bound: int, size: int) -> bool:
        if bound == size:
            return True
        b = self._builder
        limit, count = b.constant_of(bound), b.constant_of(size)
        return limit is not None and count is not None and limit >= count


def access_facts(builder: Builder, memory: Memory, program: Program, thread: int) -> Mapping[str, Access]:
    """The access facts of every buffer parameter."""
    return MappingProxyType(
        {p.name: _access(builder, memory.places[p.name], thread) for p in program.parameters if p.is_buffer}
    )


# The most accesses that may each wait for the previous one: with more, the wait for host memory is no longer short.
_FEW = 8


def _access(builder: Builder, place: Place, thread: int) -> Access:
    kinds = {touch.kind for touch in place.touches}
    origins = {builder.facts.origins[touch.at] for touch in place.touches}
    counted = bool(kinds) and "atomic" not in kinds and not any(touch.in_loop for touch in place.touches)
    root = builder.facts.origins[thread][0]  # a signed number of a thread is an unsigned one retyped
    streaming = counted and place.type.itemsize in (4, 8) and len(origins) == 1 and next(iter(origins))[0] == root
    few = counted and len(kinds) == 1 and len(place.touches) <= _FEW
    sectors = sum(_sectors(builder, place, touch.at, root) for touch in place.touches) if few else 0
    return Access("load" in kinds, "store" in kinds, "atomic" in kinds, streaming, sectors)


def _sectors(builder: Builder, place: Place, at: int, root: int) -> int:
    if builder.constant_of(at) is not None:
        return 1
    return place.type.itemsize if builder.facts.origins[at][0] == root else 32
