"""Kernels whose launches become tables, arrays for them, and the nodes of a graph."""

from __future__ import annotations

from collections import Counter

import numpy as np

import vyre_cuda as vc
from vyre_cuda.passes.floors import floors_of

from .graph_checks import F32

LEAST = floors_of((9, 0)).rows_of_merged


def sums(name: str = "sums") -> vc.Program:
    """z[block] = a * sum of the block's elements of x, by a shared array: never merged with others"""
    b = vc.Builder(name, block=32)
    x = b.input("x", vc.f32)
    z = b.inout("z", vc.f32)
    a = b.scalar("a", vc.f32)
    b.work(x.size)
    part = b.shared("part", vc.f32, 32)
    t = b.let("t", vc.thread_id.x)
    i = b.let("i", vc.global_id.x)
    part[t] = vc.f32(0)
    with b.if_(i < x.size):
        part[t] = x[i]
    b.barrier()
    with b.if_((t == 0) & (vc.block_id.x < z.size)):
        total = b.var("total", vc.f32(0))
        with b.for_(32) as k:
            total.set(total + part[k])
        z[vc.block_id.x] = total * a
    return b.build()


def evens(name: str = "evens") -> vc.Program:
    """z[2 i] = x[2 i], the others are cleared"""
    b = vc.Builder(name, block=32)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(2 * i < z.size):
        z[2 * i] = x[2 * i] + 1.0
    return b.build()


def kinds(graph: vc.Graph) -> Counter[str]:
    last = graph._versions.last()
    assert last is not None
    return Counter(node.kind for node in last.native.nodes())


def arrays(device: vc.Device, sizes: list[int], start: float = 0) -> list[vc.DeviceArray]:
    return [device.array(np.arange(size, dtype=F32) + F32(start + k)) for k, size in enumerate(sizes)]
