"""No more than eight nodes of a graph run side by side, whatever its steps need.

Wider ones take longer; see order.h.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import vyre_cuda as vc

from .varied_programs import evens, own

MOST = 8
SIZE = 48
F32 = np.float32


def width(behind: list[tuple[int, ...]]) -> int:
    """The most nodes of which none comes after another: as many as the fewest paths on which all are."""
    before: list[set[int]] = []
    for those in behind:
        before.append(set(those).union(*(before[each] for each in those)))
    next_of: dict[int, int] = {}  # by the node before it on its path

    def join(node: int, seen: set[int]) -> bool:
        for each in before[node] - seen:
            seen.add(each)
            if each not in next_of or join(next_of[each], seen):
                next_of[each] = node
                return True
        return False

    return sum(not join(node, set()) for node in range(len(behind)))


def behind_of(graph: vc.Graph) -> list[tuple[int, ...]]:
    last = graph._versions.last()
    assert last is not None
    return [node.behind for node in last.native.nodes()]


def test_the_width_of_small_graphs() -> None:
    assert width([(), (), ()]) == 3
    assert width([(), (0,), (1,)]) == 1
    assert width([(), (), (0, 1), (2,), (2,), (2,)]) == 3
    assert width([(), (0,), (), (0, 2)]) == 2


@pytest.mark.parametrize("steps", [1, 7, 8, 9, 17, 100])
def test_independent_launches(device: vc.Device, steps: int) -> None:
    kernel = device.compile(own("own32", 0.5, 32))
    x = device.array(np.arange(SIZE, dtype=F32))
    arrays = [device.full(SIZE, k, vc.f32) for k in range(steps)]
    with device.record(fuse=False) as graph:
        for each in arrays:
            kernel.launch(x, each)
    for turn in range(3):
        graph.replay()
        for k, each in enumerate(arrays):
            np.testing.assert_array_equal(np.arange(SIZE, dtype=F32) * F32(0.5) * (turn + 1) + k, each.numpy())
    assert width(behind_of(graph)) == min(steps, MOST)


def test_what_needs_no_more_paths_gets_no_more_edges(device: vc.Device) -> None:
    """Eight chains, and then eight again that need all of them."""
    kernel = device.compile(own("own32", 0.5, 32))
    x = device.zeros(SIZE, vc.f32)
    arrays = [device.zeros(SIZE, vc.f32) for _ in range(MOST)]
    with device.record(fuse=False) as graph:
        for _ in range(3):
            for k, each in enumerate(arrays):
                kernel.launch(arrays[k - 1] if k % 2 else x, each)
    graph.replay()
    behind = behind_of(graph)
    assert width(behind) <= MOST
    assert [each for each in behind[:MOST] if each] == [(k - 1,) for k in range(1, MOST, 2)]


@pytest.mark.parametrize("seed", range(12))
def test_random_recordings(device: vc.Device, seed: int) -> None:
    """With clears, which are nodes too, and other arrays and scalars at later replays."""
    rng = random.Random(seed)
    kernels = [device.compile(own("own32", 0.5, 32)), device.compile(evens("evens", 32))]
    start = [np.full(SIZE, rng.randrange(9), F32) for _ in range(40)]
    results = []
    for most in (40, 1):  # as many arrays as there are, or one after the other on the host
        arrays = [device.array(each) for each in start]
        draw = random.Random(seed + 100)
        steps = [(draw.randrange(2), *draw.sample(range(40), 2)) for _ in range(120)]
        if most == 1:
            for which, source, to in steps * 2:
                kernels[which].launch(arrays[source], arrays[to])
        else:
            with device.record(fuse=False) as graph:
                for which, source, to in steps:
                    kernels[which].launch(arrays[source], arrays[to])
            graph.replay()
            graph.replay()
            assert width(behind_of(graph)) <= MOST
        results.append([each.numpy() for each in arrays])
    np.testing.assert_array_equal(results[0], results[1])


def test_symbols_change_what_touches_what(device: vc.Device) -> None:
    kernel = device.compile(own("own32", 1.0, 32))
    count = 30
    arrays = [device.full(SIZE, k, vc.f32) for k in range(count)]
    x = device.full(SIZE, 1, vc.f32)
    with device.record(fuse=False) as graph:
        for k, each in enumerate(arrays):
            kernel.launch(vc.symbol(f"x{k}", x), each)
    expected = [np.full(SIZE, k, F32) for k in range(count)]
    for turn in range(4):
        sources = {k: (k + 1 + 7 * turn) % count for k in range(0, count, turn + 1)}
        for k in range(count):
            expected[k] = (expected[sources[k]] if k in sources else F32(1)) + expected[k]
        graph.replay(**{f"x{k}": arrays[source] for k, source in sources.items()})
        np.testing.assert_array_equal(expected, [each.numpy() for each in arrays])
        assert width(behind_of(graph)) <= MOST
