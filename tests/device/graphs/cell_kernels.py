"""Steps that are never merged and so take their symbols from cells."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import vyre_cuda as vc

from .graph_checks import F32

# More elements than threads of a block, as smaller steps that follow each other become one kernel of one block.
WIDE = 1100


def turned(name: str = "turned") -> vc.Program:
    """z[i] = x[n - 1 - i] * a: never one kernel with what wrote x, as its blocks read what others wrote"""
    b = vc.Builder(name, block=32)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[x.size - 1 - i] * a
    return b.build()


def counted(name: str = "counted") -> vc.Program:
    """z[i] = x[i] + n, with n threads"""
    b = vc.Builder(name, block=32)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    n = b.scalar("n", vc.u32)
    b.work(n)
    i = b.let("i", vc.global_id.x)
    with b.if_((i < n) & (i < z.size)):
        z[i] = x[i] + vc.f32(n)
    return b.build()


def chain(device: vc.Device, steps: int, value: Any, *, fuse: bool = True) -> tuple[vc.Graph, vc.DeviceArray]:
    """Steps on `WIDE` elements of which none can be merged, and what the last one writes."""
    kernel = device.compile(turned())
    all_of = [device.array(np.arange(WIDE, dtype=F32))] + [device.zeros(WIDE, vc.f32) for _ in range(steps)]
    with device.record(fuse=fuse) as graph:
        for before, behind in pairwise(all_of):
            kernel.launch(before, behind, value)
    return graph, all_of[-1]


def times(steps: int, a: float) -> np.ndarray[Any, Any]:
    found = np.arange(WIDE, dtype=F32)
    for _ in range(steps):
        found = found[::-1] * F32(a)
    return found
