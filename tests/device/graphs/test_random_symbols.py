"""Random recordings with symbols give what the same steps give with values."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.compare import assert_same

from .cell_kernels import counted, turned
from .fused_kernels import scaled
from .graph_checks import F32
from .table_kernels import sums


def random_graph(device: vc.Device, kernels: list[vc.Kernel], seed: int, *, fuse: bool) -> tuple[vc.Graph, list[Any]]:
    """Launches on places of three arrays, most of them with symbols."""
    rng = random.Random(seed)
    pool = [device.array(np.random.default_rng(seed + k).integers(-4, 5, 40 * 64).astype(F32)) for k in range(3)]
    symbols = [f"s{k}" for k in range(rng.choice((1, 2, 5)))]

    def launch(place: int) -> None:
        source, target = rng.sample(range(3), 2)
        kernel = rng.choice(kernels)
        reads = pool[source][64 * (at := rng.choice((place, rng.randrange(40)))) : 64 * at + 64]
        values: dict[str, Any] = {"x": reads, "z": pool[target][64 * place : 64 * place + 64], "b": 1.0}
        for name in ("a", "b"):
            if rng.random() < 0.7:
                values[name] = vc.symbol(rng.choice(symbols), 0.5)
            else:
                values[name] = rng.choice((0.5, 2.0))
        values["n"] = rng.choice((64, vc.symbol("n", 64)))
        names = [parameter.name for parameter in kernel.program.parameters]
        kernel.launch(**{name: value for name, value in values.items() if name in names})

    with device.record(fuse=fuse) as graph:
        for _ in range(rng.choice((1, 2, 3))):
            form = rng.random()
            if form < 0.3:
                with graph.repeat(rng.choice((1, 2, 3))):
                    for _ in range(rng.choice((1, 3))):
                        launch(rng.randrange(40))
            elif form < 0.6:
                source, target = rng.sample(range(3), 2)
                kernel, a = rng.choice(kernels[:2]), vc.symbol(rng.choice(symbols), 0.5)
                for place in rng.sample(range(40), 20):
                    x, z = (pool[which][64 * place : 64 * place + 64] for which in (source, target))
                    kernel.launch(**{**({"b": a} if kernel is kernels[0] else {}), "x": x, "z": z, "a": a})
            else:
                for _ in range(rng.choice((2, 4, 8))):
                    launch(rng.randrange(40))
    return graph, pool


@pytest.mark.thin
@pytest.mark.parametrize("number", [40, pytest.param(4000, marks=[pytest.mark.long, pytest.mark.timeout(7200)])])
def test_random_recordings_leave_the_same_bytes(device: vc.Device, number: int) -> None:
    kernels = [device.compile(program) for program in (scaled(), turned(), counted(), sums())]
    counts: Counter[str] = Counter()
    for seed in range(number):
        results: list[list[Any]] = []
        for fuse in (False, True):
            graph, pool = random_graph(device, kernels, seed, fuse=fuse)
            rng = random.Random(seed)
            found: list[Any] = []
            for turn in range(5):
                values = {
                    name: rng.choice((64, 30, 0)) if name == "n" else rng.choice((0.0, -0.0, 1.5, -2.0, float("inf")))
                    for name in graph.symbols
                    if rng.random() < 0.6
                }
                (graph.update if turn == 2 else graph.replay)(**values)
                found.append([array.numpy() for array in pool])
            results.append(found)
        text = graph.explain()
        counts["cells"] += " of device memory" in text
        counts["by value"] += " by value" in text
        counts["tables"] += "with a table" in text
        counts["merged"] += "are one kernel" in text
        for turn, (plain, fused) in enumerate(zip(*results, strict=True)):
            try:
                for a, b in zip(plain, fused, strict=True):
                    assert_same(a, b)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, turn {turn}: {error}\n{text}") from None
    print(counts)
    assert all(counts[what] > number // 10 for what in ("cells", "by value", "tables", "merged")), counts
