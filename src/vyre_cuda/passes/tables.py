"""Which steps of a recording become one launch of many rows, and in which order all of them run then.

Launches of one kernel, or of several (`beside`), do not depend on each other if they are as far from the beginning: a
step is one further than the furthest of those that it needs, or that need what was there before it. On an H200 a launch
with its table takes as long as a node, so two launches gain already, but not where they would become one kernel anyway.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from vyre_cuda.ir.core import limits
from vyre_cuda.ir.core.nodes import For, While
from vyre_cuda.ir.core.walk import statements
from vyre_cuda.passes.beside import joined, threads_of
from vyre_cuda.passes.blocks import merge_blocks
from vyre_cuda.passes.floors import Floors
from vyre_cuda.passes.pairs import Pairs
from vyre_cuda.passes.ranges import ranges
from vyre_cuda.passes.steps import Step
from vyre_cuda.records import FrozenRecord, Record

MOST_BLOCKS = (1 << 31) - 1  # of a launch

# Memory, first byte, the byte behind the last.
Range: TypeAlias = tuple[int, int, int]


class Item(FrozenRecord):
    """What a step touches, and which of it it writes; None: nothing passes it.

    Launches with equal keys, which are not None, may become one; and so may tables of launches where `beside` is equal
    and not None.
    """

    touched: Collection[Range] | None
    written: Collection[Range] = ()
    key: Hashable = None
    launch: Step | None = None
    beside: Hashable = None


def of_launch(step: Step, key: Hashable, beside: Hashable = None) -> Item:
    written, touched = ranges(step)
    return Item([each[:3] for each in touched], [each[:3] for each in written], key, step, beside)


def decide(items: Sequence[Item], floors: Floors, seams: Collection[int] = ()) -> list[tuple[int, ...]]:
    """The places of all items in the order in which they run; those that are together are rows of one launch, in which
    those with the same key are together.

    Nothing passes a seam, which is a place between items.
    """
    found: list[tuple[int, ...]] = []
    first = 0
    for place in range(len(items) + 1):
        is_wall = place < len(items) and items[place].touched is None
        if place == len(items) or is_wall or place in seams:
            found += _segment(items, floors, first, place)
            first = place
        if is_wall:
            found.append((place,))
            first = place + 1
    return found


def _segment(items: Sequence[Item], floors: Floors, first: int, end: int) -> list[tuple[int, ...]]:
    """The same for items that may pass each other."""
    counts = Counter(items[place].key for place in range(first, end))
    if all(count < floors.rows for key, count in counts.items() if key is not None):
        return [(place,) for place in range(first, end)]
    needed = _needed(items, first, end)
    depth: dict[int, int] = {}
    for place in range(first, end):
        depth[place] = 1 + max((depth[other] for other in needed[place]), default=0)
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for place in range(first, end):
        if items[place].key is not None:
            alike[items[place].key, depth[place]].append(place)
    some = {place for places in alike.values() if len(places) >= floors.rows for place in places}
    pairs = Pairs()
    chains = _chains(items, some, needed, pairs)
    many = _many(items, chains, depth, floors)
    in_chain = {place for chain in chains for place in chain} - many
    in_block = {place for chain in _chains(items, some, needed, Pairs(merge_blocks)) for place in chain}
    rows = some - in_chain
    alike = {key: [place for place in places if place in rows] for key, places in alike.items()}
    parts = [part for places in alike.values() for part in _parts(items, places)]
    tables = [part for part in parts if len(part) >= _least(items, floors, part, in_block, pairs)]
    return _ordered(first, end, needed, joined(items, tables, depth))


def _least(items: Sequence[Item], floors: Floors, part: Sequence[int], in_block: Collection[int], pairs: Pairs) -> int:
    """How many rows such launches must be."""
    if any(place in in_block for place in part):
        return floors.rows_of_block
    launches = [launch for place in part[:2] if (launch := items[place].launch) is not None]
    if len(launches) < 2 or len(part) >= floors.rows_of_merged:
        return floors.rows
    # What has loops and shares nothing is not merged.
    loops = any(isinstance(s, (For, While)) for s in statements(launches[0].program.body))
    return floors.rows if loops or pairs.refused(*launches) is not None else floors.rows_of_merged


def _parts(items: Sequence[Item], places: Iterable[int]) -> Iterator[tuple[int, ...]]:
    """As many as one launch has blocks for."""
    part: list[int] = []
    blocks = 0
    for place in places:
        launch = items[place].launch
        more = 0 if launch is None else launch.geometry.blocks
        if blocks + more > MOST_BLOCKS:
            yield tuple(part)
            part, blocks = [], 0
        part.append(place)
        blocks += more
    yield tuple(part)


# ---- what needs what -------------------------------------------------------------------------------------------------


class _Piece(Record):
    """Memory that every item touches all of, or nothing: the last one that wrote it, and those that read it since."""

    writer: int | None
    readers: list[int]


def _needed(items: Sequence[Item], first: int, end: int) -> dict[int, set[int]]:
    """For each place those before it that it must come after; without some that follow from these."""
    edges: dict[int, set[int]] = defaultdict(set)
    for place in range(first, end):
        for memory, begin, behind in items[place].touched or ():
            edges[memory].update((begin, behind))
    at = {memory: sorted(some) for memory, some in edges.items()}
    pieces = {memory: [_Piece(None, []) for _ in some] for memory, some in at.items()}

    def those(each: Range) -> list[_Piece]:
        memory, begin, behind = each
        return pieces[memory][bisect_left(at[memory], begin) : bisect_left(at[memory], behind)]

    needed: dict[int, set[int]] = {}
    for place in range(first, end):
        item = items[place]
        written = set(item.written)
        found = needed[place] = set()
        for each in item.touched or ():
            for piece in those(each):
                if piece.writer is not None:
                    found.add(piece.writer)
                if each in written:
                    found.update(piece.readers)
        found.discard(place)
        for each in item.touched or ():
            for piece in those(each):
                if each in written:
                    piece.writer, piece.readers = place, []
                else:
                    piece.readers.append(place)
        found.discard(place)
    return needed


def _chains(
    items: Sequence[Item], some: Collection[int], needed: dict[int, set[int]], pairs: Pairs
) -> list[tuple[int, ...]]:
    """Launches in a row, some or beside some, each of which needs the one before it and becomes one kernel with it."""
    found: list[list[int]] = []
    for place in sorted({*some, *[place + 1 for place in some]}):
        if place - 1 not in needed.get(place, ()):
            continue
        one, other = items[place - 1].launch, items[place].launch
        if one is None or other is None or pairs.refused(one, other) is not None:
            continue
        if found and found[-1][-1] == place - 1:
            found[-1].append(place)
        else:
            found.append([place - 1, place])
    return [tuple(chain) for chain in found]


def _many(
    items: Sequence[Item], chains: Sequence[tuple[int, ...]], depth: Mapping[int, int], floors: Floors
) -> set[int]:
    """Launches of small chains beside each other that are alike, so many that a table for each of their launches takes
    less time than a kernel for each chain."""
    alike: dict[tuple[tuple[Hashable, ...], int], list[tuple[int, ...]]] = defaultdict(list)
    for chain in chains:
        keys = tuple([items[place].key for place in chain])
        if None not in keys:
            alike[keys, depth[chain[0]]].append(chain)
    found: set[int] = set()
    for (keys, _), some in alike.items():
        is_small = all(threads_of(items, table) < limits.LARGE_LAUNCH for table in zip(*some, strict=True))
        if len(some) >= floors.chains * len(keys) and is_small:
            found.update(place for chain in some for place in chain)
    return found


def _ordered(
    first: int, end: int, needed: dict[int, set[int]], tables: Sequence[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """All places, each as early as it was recorded, if what it needs has run."""
    head_of = {place: place for place in range(first, end)}  # a table is named by its first place
    for table in tables:
        head_of.update(dict.fromkeys(table, table[0]))
    rows = {table[0]: table for table in tables}
    waits: dict[int, set[int]] = {head: set() for head in head_of.values()}
    behind: dict[int, set[int]] = {head: set() for head in waits}
    for place, head in head_of.items():
        for other in needed[place]:
            waits[head].add(head_of[other])
            behind[head_of[other]].add(head)
    ready = [head for head, others in waits.items() if not others]
    heapq.heapify(ready)
    found: list[tuple[int, ...]] = []
    while ready:
        unit = heapq.heappop(ready)
        found.append(rows.get(unit, (unit,)))
        for next_one in behind[unit]:
            waits[next_one].discard(unit)
            if not waits[next_one]:
                heapq.heappush(ready, next_one)
    return found
