"""Random recordings of launches that become tables give what they give as recorded."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.compare import assert_same

from .graph_checks import F32
from .table_kernels import sums


def recording(device: vc.Device, kernels: list[vc.Kernel], seed: int, *, fuse: bool) -> tuple[vc.Graph, Any]:
    """Layers of launches on places of a few arrays, with other steps in between."""
    rng = random.Random(seed)
    places, size = 90, 40
    pool = [device.array(np.random.default_rng(seed + k).integers(-9, 9, places * size).astype(F32)) for k in range(3)]
    used = [kernels[k] for k in rng.sample(range(len(kernels)), rng.choice((1, 2, 3)))]

    def view(place: int, number: int) -> vc.DeviceArray:
        begin = place * size + rng.choice((0, 0, 1))
        return pool[number][begin : begin + rng.choice((size - 1, size - 1, size - 1, 7, 0))]

    with device.record(fuse=fuse) as graph:
        for _ in range(rng.choice((1, 2, 3))):
            source, target = rng.sample(range(3), 2)
            kernel = rng.choice(used)
            then = rng.choice((None, None, rng.choice(kernels)))
            for place in rng.sample(range(places), rng.choice((14, 18, 40))):
                kind = rng.random()
                if kind < 0.04:
                    pool[rng.randrange(3)][place * size : place * size + 20].fill(2.0)
                elif kind < 0.06:
                    pool[0][place * size : place * size + 9].copy_from(pool[1][5:14])
                elif kind < 0.1:
                    kernel = rng.choice(used)
                reads = view(rng.choice((place, place, 3, rng.randrange(places))), source)
                values = {"x": reads, "z": view(place, target), "a": rng.choice((0.5, 2.0)), "b": 1.0}
                if rng.random() < 0.1:
                    values["a"] = vc.symbol("a", 3.0)
                names = [parameter.name for parameter in kernel.program.parameters]
                kernel.launch(**{name: value for name, value in values.items() if name in names})
                if then is not None:  # a chain of two
                    onward = values | {"x": values["z"], "z": pool[source][place * size : place * size + size - 1]}
                    names = [parameter.name for parameter in then.program.parameters]
                    then.launch(**{name: value for name, value in onward.items() if name in names})
    return graph, pool


@pytest.mark.thin
@pytest.mark.parametrize("number", [60, pytest.param(3000, marks=[pytest.mark.long, pytest.mark.timeout(7200)])])
def test_random_recordings_leave_the_same_bytes(device: vc.Device, number: int) -> None:
    odd = vc.Builder("odd", block=32)  # writes what a condition lets it, from the other end
    x, z = odd.input("x", vc.f32), odd.inout("z", vc.f32)
    i = odd.let("i", vc.global_id.x)
    with odd.if_((i < z.size) & (i < x.size)):
        z[z.size - 1 - i] = z[z.size - 1 - i] * 0.5 + x[i]
    programs = [scaled_of_any(), sums(), evens_of_any(), odd.build()]
    kernels = [device.compile(each) for each in programs]
    counts: Counter[str] = Counter()
    for seed in range(number):
        results = []
        for fuse in (False, True):
            graph, pool = recording(device, kernels, seed, fuse=fuse)
            graph.replay()
            graph.replay()
            results.append([array.numpy() for array in pool])
        for plain, fused in zip(*results, strict=True):
            assert_same(plain, fused), (seed, graph.explain())
        plan = graph._versions.plan
        assert plan is not None, graph.explain()
        counts["tables"] += len(plan.tables)
        counts["merged"] += len(plan.fused)
    print(dict(counts))
    assert counts["tables"] > number // 2


def evens_of_any() -> vc.Program:
    """As evens, with an output of any size."""
    b = vc.Builder("evens_of_any", block=32)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    i = b.let("i", vc.global_id.x)
    b.work(z.size)
    with b.if_((2 * i < z.size) & (2 * i < x.size)):
        z[2 * i] = x[2 * i] + 1.0
    return b.build()


def scaled_of_any() -> vc.Program:
    b = vc.Builder("scaled_of_any", block=32)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    b.work(z.size)
    with b.if_((i < z.size) & (i < x.size)):
        z[i] = x[i] * a
    return b.build()
