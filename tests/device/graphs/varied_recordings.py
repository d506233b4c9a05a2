"""Random recordings by kinds: each is about something that is merged, or that a rule refuses, among other steps.

The kinds have weights, so that each merge and each refusal comes up about as often.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.passes import fuse, pairs
from vyre_cuda.passes.merge import Merge
from vyre_cuda.passes.steps import Refused
from vyre_cuda.runtime.graph.graph_steps import TablesStep
from vyre_cuda.testing.compare import assert_same

from .fused_recordings import replayed, unheard
from .varied_programs import Kernels

F32 = np.float32
ROWS, COLUMNS = 7, 10
SIZE = ROWS * COLUMNS
LARGE = 1100  # more than a block
ARRAYS = 5


WIDTH = 60  # of what a row of a table is about


# ---- recordings ------------------------------------------------------------------------------------------------------


class Varied:
    """One recording by its seed: the same steps for every graph that it is made with."""

    def __init__(self, device: vc.Device, kernels: Kernels, seed: int) -> None:
        self.device, self.kernels, self.seed = device, kernels, seed
        rng = np.random.default_rng(seed)
        self.kind = kind_of(seed)
        self.size = LARGE if self.kind in ("element", "launch", "table", "beside") else SIZE
        self.start = [rng.integers(-9, 9, 2 * self.size).astype(F32) for _ in range(ARRAYS)]
        self.arrays = [device.array(start) for start in self.start]
        self.done = device.zeros(3, vc.u32)
        self.symbols: dict[str, Any] = {}

    def record(self, *, fuse: bool) -> vc.Graph:
        for array, start in zip(self.arrays, self.start, strict=True):
            array.copy_from(start)
        self.done.fill(0)
        self.symbols = {}
        rng = random.Random(self.seed)
        rng.random()  # the kind
        with self.device.record(fuse=fuse) as graph:
            KINDS[self.kind][0](self, rng, graph)
        return graph

    def values(self, seed: int) -> dict[str, Any]:
        rng = random.Random(seed)
        return {name: rng.choice((0.0, 1.5, -3.0)) for name in self.symbols if rng.random() < 0.5}

    def contents(self) -> list[np.ndarray[Any, Any]]:
        return self.device.download([(array, 0, array.size) for array in (*self.arrays, self.done)])

    # ---- steps ----

    def part(self, number: int, half: int = 0) -> vc.DeviceArray:
        return self.arrays[number][half * self.size : (half + 1) * self.size]

    def launch(self, rng: random.Random, kernel: vc.Kernel, sources: Sequence[Any], to: Any) -> None:
        values: dict[str, Any] = {}
        for p in kernel.program.parameters:
            if p.name == "a":
                values["a"] = vc.symbol("a", 3.0) if rng.random() < 0.2 else rng.choice((0.5, 2.0))
                if isinstance(values["a"], vc.Symbol):
                    self.symbols["a"] = 3.0
            else:
                values[p.name] = to if p.name == "z" else rng.choice(sources)
        kernel.launch(**values)

    def chain(self, rng: random.Random, kernels: Sequence[vc.Kernel], count: int) -> None:
        """Each step reads what the one before it wrote."""
        at = rng.randrange(ARRAYS)
        for _ in range(count):
            to = rng.choice([k for k in range(ARRAYS) if k != at])
            self.launch(rng, rng.choice(kernels), [self.part(at)], self.part(to))
            at = to


def mixed(pool: Callable[[Kernels], list[vc.Kernel]], others: Callable[[Kernels], list[vc.Kernel]]) -> Any:
    """Chains of kernels of both pools."""

    def record(what: Varied, rng: random.Random, _: vc.Graph) -> None:
        what.chain(rng, others(what.kernels), rng.choice((1, 2)))
        what.chain(rng, pool(what.kernels) + others(what.kernels), rng.choice((2, 3)))
        what.chain(rng, pool(what.kernels), 1)
        what.chain(rng, others(what.kernels), 2)

    return record


def overlap(what: Varied, rng: random.Random, _: vc.Graph) -> None:
    """Views that begin at other elements of the same array."""
    for _ in range(rng.choice((2, 3, 4))):
        number, other = rng.sample(range(ARRAYS), 2)
        first = rng.choice((0, 1, 5, what.size - 3))
        view = what.arrays[number][first : first + what.size]
        kernel = rng.choice(what.kernels.plain)
        if rng.random() < 0.5:
            what.launch(rng, kernel, [view], what.part(other))
        else:
            what.launch(rng, kernel, [what.part(other)], view)


def view(what: Varied, rng: random.Random, _: vc.Graph) -> None:
    """The same memory with one axis and with two."""
    for _ in range(rng.choice((2, 3, 4))):
        one, other = rng.sample(range(3), 2)
        if rng.random() < 0.5:
            what.launch(rng, rng.choice(what.kernels.plain), [what.part(one)], what.part(other))
        else:
            shaped = [what.part(k).reshape(ROWS, COLUMNS) for k in (one, other)]
            what.launch(rng, rng.choice(what.kernels.planes), shaped[:1], shaped[1])


def temporary(what: Varied, rng: random.Random, graph: vc.Graph) -> None:
    """Arrays of the graph alone: some have every element written, and of some only what is used."""
    for _ in range(rng.choice((1, 2))):
        t = graph.temporary(what.size, vc.f32)
        source, to = (what.part(k) for k in rng.sample(range(ARRAYS), 2))
        if rng.random() < 0.4:
            what.kernels.partly.launch(source, t)
            what.kernels.chosen.launch(t, source, to)
        elif rng.random() < 0.7:
            what.kernels.doubled.launch(source, t)
            what.launch(rng, rng.choice((what.kernels.doubled, what.kernels.own[0])), [t], to)
        else:
            t.fill(2.0)
            what.launch(rng, rng.choice(what.kernels.plain), [source], t)
            what.launch(rng, rng.choice(what.kernels.plain), [t, source], to)
        what.chain(rng, what.kernels.plain, rng.choice((0, 1)))


def clear(what: Varied, rng: random.Random, _: vc.Graph) -> None:
    """An output that must be cleared, and that a step before has used; all its elements, or more than there are
    threads."""
    what.launch(rng, rng.choice(what.kernels.evens), [what.part(0)], what.part(1))
    what.launch(rng, rng.choice(what.kernels.evens), [what.part(2)], what.part(1))
    what.launch(rng, rng.choice((*what.kernels.own[:2], *what.kernels.evens)), [what.part(1)], what.part(3))


def loop(what: Varied, rng: random.Random, graph: vc.Graph) -> None:
    """A loop around steps of own elements, of one block, or of more kernels."""
    k = what.kernels
    pool = rng.choice((k.own[:1], k.turns, k.turns, k.one_block, k.own))
    what.chain(rng, what.kernels.plain, rng.choice((0, 1)))
    with graph.repeat(rng.choice((1, 2, 3))):
        what.chain(rng, pool, rng.choice((1, 2, 2, 3)))
        if rng.random() < 0.2:
            with graph.repeat(2):
                what.chain(rng, pool, 2)
        if rng.random() < 0.1:
            what.part(0).fill(1.0)
    what.chain(rng, what.kernels.plain, rng.choice((0, 1)))


def until(what: Varied, rng: random.Random, graph: vc.Graph) -> None:
    """A loop that an array ends, which a step inside writes, or another view of it, or nothing."""
    k = what.kernels
    what.chain(rng, k.plain, rng.choice((0, 1)))
    place = rng.choice((0, 1))
    with graph.repeat(rng.choice((1, 4, 9)), until=what.done[rng.choice((place, place, place, 0, 2)) :]):
        one, other = rng.sample(range(3), 2)
        between = what.part(other)
        if rng.random() < 0.5:
            between = graph.temporary(what.size, vc.f32)
        k.turns[1].launch(what.part(one), between)
        k.turns[1].launch(between, what.part(one))
        k.stops[0].launch(what.part(one), what.part(3), what.done[place : place + 1])
        if rng.random() < 0.3:
            k.turns[1].launch(what.part(3), what.part(other))
    what.chain(rng, k.plain, rng.choice((0, 1)))


def table(what: Varied, rng: random.Random, _: vc.Graph) -> None:
    """Independent launches of a few kernels, some of which no table takes."""
    pool = [*what.kernels.own, *what.kernels.plain[:2], rng.choice(what.kernels.trap), rng.choice(what.kernels.waits)]
    used = rng.sample(pool, rng.choice((1, 2)))
    for place in rng.sample(range(what.size // WIDTH), rng.choice((4, 8, 16))):
        begin = place * WIDTH
        kernel = rng.choice(used)
        views = [each[begin : begin + rng.choice((WIDTH, WIDTH, 40, 0))] for each in what.arrays[:2]]
        if any(p.name == "y" for p in kernel.program.parameters):
            views = [each[begin : begin + WIDTH] for each in what.arrays[:2]]
        what.launch(rng, kernel, views[:1], views[1])
    what.chain(rng, what.kernels.plain, rng.choice((0, 1)))


def beside(what: Varied, rng: random.Random, _: vc.Graph) -> None:
    """Independent launches of kernels with the same block in turn, and sometimes of one with another."""
    used = rng.sample(what.kernels.beside, rng.choice((2, 2, 3)))
    if rng.random() < 0.2:
        used[-1] = rng.choice(what.kernels.own[1:])
    places = what.size // WIDTH
    for number, place in enumerate(rng.sample(range(places), places)):
        size = rng.choice((WIDTH, WIDTH, 40, 1))
        views = [each[place * WIDTH : place * WIDTH + size] for each in what.arrays[:2]]
        what.launch(rng, used[number % len(used)], views[:1], views[1])
    what.chain(rng, what.kernels.plain, rng.choice((0, 1)))


def apart(what: Varied, rng: random.Random, _: vc.Graph) -> None:
    """Steps that are no launches, or have no threads."""
    for _ in range(rng.choice((3, 4, 5))):
        one, other = rng.sample(range(ARRAYS), 2)
        kind = rng.random()
        if kind < 0.2:
            what.part(one).fill(rng.choice((0.0, 2.5)))
        elif kind < 0.4:
            what.part(one).copy_from(what.part(other))
        elif kind < 0.5:
            what.launch(rng, rng.choice(what.kernels.own), [what.part(one)[:0]], what.part(other)[:0])
        else:
            what.launch(rng, rng.choice(what.kernels.plain), [what.part(one)], what.part(other))


# What records, and its weight.
KINDS: dict[str, tuple[Callable[[Varied, random.Random, vc.Graph], None], int]] = {
    "plain": (mixed(lambda k: k.plain, lambda k: k.plain), 1),
    "blocks": (mixed(lambda k: k.one_block, lambda k: k.turns), 1),
    "options": (mixed(lambda k: k.ftz + k.trap, lambda k: k.plain), 2),
    "launch": (mixed(lambda k: k.own[:2], lambda k: k.own[1:]), 1),
    "statement": (mixed(lambda k: k.waits, lambda k: k.one_block), 1),
    "return": (mixed(lambda k: k.leaves, lambda k: k.one_block), 2),
    "element": (mixed(lambda k: k.turns[:1], lambda k: k.own[:1]), 1),
    "precision": (mixed(lambda k: k.fast, lambda k: k.fast), 7),
    "size": (mixed(lambda k: k.keeps, lambda k: k.own[:1]), 2),
    "overlap": (overlap, 5),
    "view": (view, 3),
    "temporary": (temporary, 5),
    "clear": (clear, 4),
    "loop": (loop, 7),
    "until": (until, 7),
    "table": (table, 4),
    "beside": (beside, 3),
    "apart": (apart, 1),
}


def kind_of(seed: int) -> str:
    """The kind of a recording."""
    return random.Random(seed).choices([*KINDS], [weight for _, weight in KINDS.values()])[0]


def some_of_each(count: int) -> list[int]:
    """So many recordings of each kind."""
    kinds = {kind: [seed for seed in range(1000) if kind_of(seed) == kind][:count] for kind in KINDS}
    assert all(len(some) == count for some in kinds.values())
    return [seed for some in kinds.values() for seed in some]


# ---- comparison ------------------------------------------------------------------------------------------------------


@contextmanager
def counting(counts: Counter[str]) -> Iterator[None]:
    """Count what is merged and refused by the functions that do it."""

    def counted(merged: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            try:
                return merged(*args)
            except Refused as refused:
                counts[f"refused: {refused.kind.value}"] += 1
                raise

        return call

    class Counted(Merge):
        add = counted(Merge.add)
        step = counted(Merge.step)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("merge_blocks", "merge_repeated"):
            patch.setattr(fuse, name, counted(getattr(fuse, name)))
        patch.setattr(fuse, "Merge", Counted)
        patch.setattr(pairs, "Merge", Counted)
        yield


def compare(device: vc.Device, kernels: Kernels, seeds: range, tell: Callable[[str], None] = unheard) -> Counter[str]:
    """Compare recordings with and without fusing; how often what was merged and refused. `tell` hears what comes
    next."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        tell("arrays")
        recording = Varied(device, kernels, seed)
        tell("plain, recording")
        plain = list(replayed(recording.record(fuse=False), recording, Counter(), lambda step: tell(f"plain, {step}")))
        with counting(counts):
            tell("fused, recording")
            graph = recording.record(fuse=True)
            fused = list(replayed(graph, recording, counts, lambda step: tell(f"fused, {step}")))
        tell("comparing, and the end of the graphs")
        try:
            assert len(plain) == len(fused)
            for a, b in zip(plain, fused, strict=True):
                assert_same(a, b) if not isinstance(a, str) else None
                assert not isinstance(a, str) or a == b
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {recording.kind}: {error}\n{graph.explain()}") from None
        _count(graph, counts)
    return counts


def _count(graph: vc.Graph, counts: Counter[str]) -> None:
    plan = graph._versions.plan
    assert plan is not None, graph.explain()
    counts["recordings"] += 1
    counts["temporaries without memory"] += len(plan.gone - plan.shared)
    counts["temporaries in shared memory"] += len(plan.shared)
    counts["tables"] += len(plan.tables)
    counts["tables of several kernels"] += sum(isinstance(table, TablesStep) for table in plan.tables)
    counts["refused: not a row of a table"] += len(plan.refused)
    for row in plan.rows:
        if row.fused is None:
            counts["refused: never merged"] += bool(row.apart)
            continue
        group = row.fused.group
        counts["loops that arrays end"] += group.until is not None
        how = "loops of " if group.times else ""
        counts[f"{how}blocks" if group.barriers else f"{how}own elements"] += 1
