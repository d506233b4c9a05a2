"""Tables of different kernels that do not depend on each other as one launch, whose blocks run the kernel of their row.

A node of a graph costs a launch also beside others, about 0.8 us on an H200, and a block finds its kernel by what the
launch says, without loading anything. Large launches stay apart: what they take is for memory, and their kernels have a
form of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from vyre_cuda.ir.core import limits
from vyre_cuda.passes.facts import facts_of
from vyre_cuda.passes.mergeable import MOST_OPS

if TYPE_CHECKING:
    from vyre_cuda.passes.tables import Item

MOST_KERNELS = 16  # of one launch


def joined(items: Sequence[Item], tables: Sequence[tuple[int, ...]], depth: Mapping[int, int]) -> list[tuple[int, ...]]:
    """The tables, and in place of those that are as far from the beginning, of kernels that can be beside each other,
    one with the rows of all: those of each kernel are together."""
    found: list[tuple[int, ...]] = []
    alike: dict[Hashable, list[tuple[int, ...]]] = defaultdict(list)
    for table in tables:
        beside = items[table[0]].beside
        if beside is None or threads_of(items, table) >= limits.LARGE_LAUNCH:
            found.append(table)
        else:
            alike[beside, depth[table[0]]].append(table)
    for some in alike.values():
        found += _launches(items, some)
    return found


def _launches(items: Sequence[Item], tables: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """As many together as one kernel takes."""
    some: list[tuple[int, ...]] = []
    ops = threads = 0
    for table in tables:
        launch = items[table[0]].launch
        assert launch is not None  # it can be beside others
        more = facts_of(launch.program).ops
        of_table = threads_of(items, table)
        full = len(some) == MOST_KERNELS or ops + more > MOST_OPS or threads + of_table >= limits.LARGE_LAUNCH
        if some and full:
            yield tuple(place for each in some for place in each)
            some, ops, threads = [], 0, 0
        some.append(table)
        ops += more
        threads += of_table
    if some:
        yield tuple(place for each in some for place in each)


def threads_of(items: Sequence[Item], table: Sequence[int]) -> int:
    geometries = (launch.geometry for place in table if (launch := items[place].launch) is not None)
    return sum(each.blocks * each.threads_per_block for each in geometries)
