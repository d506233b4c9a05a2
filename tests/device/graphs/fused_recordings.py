"""Random recordings that can be made with and without fusing, and replayed with the same values."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda.testing.compare import assert_same

N = 70
SMALL = 40
BLOCK = 32
ARRAYS = 4
TEMPORARIES = 3


def program(rng: random.Random, name: str, block: int | None = None) -> vc.Program:
    """z of x, y and a, with one of many guards, bodies and ways to leave elements out"""
    b = vc.Builder(name, block=block or (BLOCK if rng.random() < 0.9 else 64))
    x, y = b.input("x", vc.f32), b.input("y", vc.f32)
    inplace = rng.random() < 0.3
    z = b.inout("z", vc.f32) if inplace else b.output("z", vc.f32, zeroed=True)
    a = b.scalar("a", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    guard = rng.choice(
        (i < z.size,) * 5 + (i < x.size, (i < z.size) & (i > 4), i < z.size - 3, (i < z.size) & (x[i] > y[i]))
    )
    at = rng.choice((i,) * 3 + (i + 1, x.size - 1 - i))
    value = rng.choice(
        (
            x[i] + y[i],
            x[i] * a + y[at],
            vc.where(x[i] > 0, y[i], a),
            vc.absolute(x[i]) - y[at],
            vc.sqrt(vc.absolute(x[at])),
        )
    )
    form = rng.randrange(5)
    with b.if_(guard):
        if form == 0:
            with b.if_(x[i] > a):
                z[i] = value
            with b.else_():
                if rng.random() < 0.5:
                    z[i] = a
        elif form == 1:
            total = b.var("total", vc.f32(0))
            with b.for_(2) as k:
                total.set(total + x[i] * vc.f32(k))
                z[i] = total
        else:
            z[i] = value + z[i] if inplace else value
    return b.build()


class Recording:
    """One recording by its seed: the same steps for every graph that it is made with."""

    def __init__(self, device: vc.Device, kernels: list[vc.Kernel], seed: int) -> None:
        self.device = device
        self.kernels = kernels
        self.seed = seed
        rng = np.random.default_rng(seed)
        self.start = [rng.integers(-9, 9, 2 * N).astype(np.float32) for _ in range(ARRAYS)]
        self.arrays = [device.array(start) for start in self.start]
        self.symbols: dict[str, vc.DeviceArray | float] = {}

    def record(self, *, fuse: bool) -> vc.Graph:
        for array, start in zip(self.arrays, self.start, strict=True):
            array.copy_from(start)
        self.symbols = {}
        rng = random.Random(self.seed)
        with self.device.record(fuse=fuse) as graph:
            temporaries = [graph.temporary(N, vc.f32) for _ in range(TEMPORARIES)]
            specified: set[int] = set()
            self._steps(rng, graph, temporaries, specified, rng.choice((2, 3, 4, 6)))
            if rng.random() < 0.2:
                with graph.repeat(rng.choice((2, 3))):
                    self._steps(rng, graph, temporaries, specified, rng.choice((1, 2, 3)))
                self._steps(rng, graph, temporaries, specified, 2)
        return graph

    def _steps(self, rng: random.Random, graph: vc.Graph, temporaries: Any, specified: set[int], count: int) -> None:
        for _ in range(count):
            kind = rng.random()
            if kind < 0.04:
                rng.choice(self.arrays)[:N].fill(rng.choice((0.0, 2.5)))
            elif kind < 0.07:
                self.arrays[0][:N].copy_from(self.arrays[rng.randrange(1, ARRAYS)][:N])
            elif kind < 0.1:
                number = rng.randrange(TEMPORARIES)
                temporaries[number].fill(1.0)
                specified.add(number)
            else:
                self._launch(rng, temporaries, specified)

    def _launch(self, rng: random.Random, temporaries: Any, specified: set[int]) -> None:
        kernel = rng.choice(self.kernels)
        in_place = next(p.kind for p in kernel.program.parameters if p.name == "z") == "inout"
        number = rng.randrange(TEMPORARIES) if rng.random() < 0.45 else None
        if number is not None and in_place and number not in specified:
            number = None
        out = self._place(rng) if number is None else None
        inputs: list[Any] = []
        for _ in range(2):
            given = sorted(k for k in specified if k != number)
            if given and rng.random() < 0.6:
                inputs.append(temporaries[rng.choice(given)])
            else:
                places = [place for place in (self._place(rng) for _ in range(20)) if not meets(place, out)]
                inputs.append(places[0] if places else None)
        if any(each is None for each in inputs):
            return
        if number is not None:
            specified.add(number)
            target = temporaries[number]
        else:
            assert out is not None
            target = self._symbol(rng, "z", self._view(out))
        values = [self._symbol(rng, "x", self._view(e)) if isinstance(e, tuple) else e for e in inputs]
        scalar = rng.choice((0.5, 2.0, 2.0, vc.symbol("a", 3.0), vc.symbol("b", 0.25)))
        if isinstance(scalar, vc.Symbol):
            self.symbols[scalar.name] = scalar.default
        kernel.launch(*values, target, scalar)

    def _place(self, rng: random.Random) -> tuple[int, int, int]:
        """Array, first element, count"""
        first = rng.choice((0, 0, 0, 0, N, N, 5))
        return rng.randrange(ARRAYS), first, SMALL if rng.random() < 0.03 else N

    def _view(self, place: tuple[int, int, int]) -> vc.DeviceArray:
        number, first, count = place
        return self.arrays[number][first : first + count]

    def _symbol(self, rng: random.Random, kind: str, view: vc.DeviceArray) -> Any:
        if rng.random() < 0.85:
            return view
        name = f"{kind}{len(self.symbols)}"
        self.symbols[name] = view
        return vc.symbol(name, view)

    def values(self, seed: int) -> dict[str, Any]:
        """Values for a replay: some of the symbols, often places like those before."""
        rng = random.Random(seed)
        found: dict[str, Any] = {}
        for name, value in self.symbols.items():
            if rng.random() < 0.5:
                continue
            if isinstance(value, float):
                found[name] = rng.choice((0.0, -0.0, 1.5, 3.0, float("inf")))
            else:
                number, first, _ = self._place(rng)
                found[name] = self._view((number, first, value.size if rng.random() < 0.9 else SMALL))
        return found

    def contents(self) -> list[np.ndarray[Any, Any]]:
        return self.device.download([(array, 0, array.size) for array in self.arrays])


def meets(a: tuple[int, int, int], b: tuple[int, int, int] | None) -> bool:
    return b is not None and a[0] == b[0] and a[1] < b[1] + b[2] and b[1] < a[1] + a[2]


@contextmanager
def told() -> Iterator[list[str]]:
    """What replays of both graphs say where their values do not fit."""
    found: list[str] = []
    try:
        yield found
    except ValueError as error:
        found.append(str(error))


def compare(device: vc.Device, kernels: list[vc.Kernel], seeds: range) -> Counter[str]:
    """Compare recordings with and without fusing; how often what was merged and refused."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        recording = Recording(device, kernels, seed)
        results: list[list[Any]] = []
        for fuse in (False, True):
            graph = recording.record(fuse=fuse)
            results.append(list(replayed(graph, recording, counts if fuse else Counter())))
            if fuse:
                count(graph, counts)
        for number, (plain, fused) in enumerate(zip(*results, strict=True)):
            try:
                assert type(plain) is type(fused), (plain, fused)
                if isinstance(plain, str):
                    assert plain == fused
                else:
                    for a, b in zip(plain, fused, strict=True):
                        assert_same(a, b)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, replay {number}: {error}\n{graph.explain()}") from None
    return counts


def unheard(step: str) -> None:
    """For those whom nobody watches."""


def replayed(
    graph: vc.Graph, recording: Recording, counts: Counter[str], tell: Callable[[str], None] = unheard
) -> Iterator[Any]:
    """What the arrays contain after each of some replays, with an update in between; or what was told. `tell` hears
    what comes next."""
    steps: list[tuple[str, Callable[[], None]]] = [
        ("replay 1", graph.replay),
        ("replay 2, with values", lambda: graph.replay(**recording.values(recording.seed))),
        ("replay 3", graph.replay),
        ("update", lambda: graph.update(**recording.values(recording.seed + 1))),
        ("replay 4", graph.replay),
        ("replay 5, with values", lambda: graph.replay(**recording.values(recording.seed + 2))),
    ]
    for name, step in steps:
        tell(name)
        with told() as messages:
            step()
        if messages:
            yield messages[0]
            continue
        counts["as recorded" if "as recorded" in graph.explain() else "as fused"] += 1
        tell(f"reading after {name}")
        yield recording.contents()


def count(graph: vc.Graph, counts: Counter[str]) -> None:
    plan = graph._versions.plan
    assert plan is not None, graph.explain()
    counts["recordings"] += 1
    counts["without memory"] += len(plan.gone)
    for row in plan.rows:
        counts["kernels"] += row.fused is not None
        counts["of one block"] += row.fused is not None and row.fused.group.barriers > 0
        counts["merged"] += row.end - row.first if row.fused is not None else 0
        counts[row.kind.name if row.kind is not None else "APART" if row.apart else "end"] += 1
