"""Arrays of one value and the edges of a graph, for the tests of recorded graphs."""

from __future__ import annotations

import numpy as np

import vyre_cuda as vc

F32 = np.float32
N = 300


def floats(device: vc.Device, value: float, n: int = N) -> vc.DeviceArray:
    return device.array(np.full(n, value, F32))


def first(array: vc.DeviceArray) -> float:
    """The value that every element has."""
    host = array.numpy()
    np.testing.assert_array_equal(host, np.full_like(host, host[0]))
    value: float = host[0].item()
    return value


def edges(graph: vc.Graph) -> set[tuple[int, int]]:
    """(before, behind) from the picture."""
    lines = (line.split("[")[0] for line in graph.dot().splitlines() if "->" in line)
    pairs = (line.strip(" ;").split(" -> ") for line in lines)
    return {(int(one[1:]), int(two.strip(" ;")[1:])) for one, two in pairs}
