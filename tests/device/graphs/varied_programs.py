"""Programs of which varied recordings are made."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import vyre_cuda as vc
from vyre_cuda.ir.core.limits import MAX_LOCAL_BYTES

from .fused_recordings import program

# Floats of a thread, of which two kernels have more than one may. The driver keeps them for all threads that fit on the
# device: 9 GB of an H200 for each process.
OWN = MAX_LOCAL_BYTES // 8 + 1


def waits(rng: random.Random, name: str) -> vc.Program:
    """What keeps a program from being merged: a barrier, a warp operation, an assertion, a shared array."""
    kind = rng.randrange(4)
    b = vc.Builder(name, block=128)
    x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
    b.work(128)
    part = b.shared("part", vc.f32, 128) if kind == 3 else None
    i = b.let("i", vc.thread_id.x)
    value = b.let("value", x[i])
    if part is not None:
        part[i] = value
    if kind in (0, 3):
        b.barrier()
    if kind == 1:
        value = b.shuffle_xor(value, 1)
    if kind == 2:
        b.assert_(z.size < 1_000_000, "a size")
    if part is not None:
        value = part[(i + 1) % 128]
    with b.if_(i < z.size):
        z[i] = value + 1
    return b.build()


def leaves(name: str) -> vc.Program:
    """A return inside a loop"""
    b = vc.Builder(name, block=128)
    x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
    b.work(128)
    i = b.let("i", vc.global_id.x)
    with b.for_(3) as k:
        with b.if_((i >= z.size) | (x[i] > vc.f32(k) * 3)):
            b.return_()
        z[i] = z[i] + 1
    return b.build()


def plane(name: str, factor: float) -> vc.Program:
    """The same memory as rows and columns"""
    b = vc.Builder(name, block=128)
    x, z = b.input("x", vc.f32, ndim=2), b.inout("z", vc.f32, ndim=2)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        row, column = i // z.shape[1], i % z.shape[1]
        z[row, column] = x[row, column] * factor + z[row, column]
    return b.build()


def evens(name: str, block: int) -> vc.Program:
    """z[2 i] = x[2 i] with half as many threads; the others are cleared"""
    b = vc.Builder(name, block=block)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    b.work(z.size // 2)
    i = b.let("i", vc.global_id.x)
    with b.if_(2 * i < z.size):
        z[2 * i] = x[2 * i] + 1
    return b.build()


def keeps(name: str, size: int) -> vc.Program:
    """An array of each thread"""
    b = vc.Builder(name, block=32)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    b.work(z.size)
    own = b.local("own", vc.f32, size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        own[i % 7] = x[i]
        z[i] = own[i % 7] + own[3]
    return b.build()


def own(name: str, factor: float, block: int) -> vc.Program:
    """z = x * factor + z, its own elements"""
    b = vc.Builder(name, block=block)
    x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_((i < z.size) & (i < x.size)):
        z[i] = x[i] * factor + z[i]
    return b.build()


def turns(name: str, block: int) -> vc.Program:
    """z[i] = x[n - 1 - i] + 1"""
    b = vc.Builder(name, block=block)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[x.size - 1 - i] + 1
    return b.build()


def doubled() -> vc.Program:
    b = vc.Builder("doubled", block=32)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[i] * 2
    return b.build()


def partly() -> vc.Program:
    """z = x where x is positive; the rest stays"""
    b = vc.Builder("partly", block=32)
    x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size), b.if_(x[i] > 0):
        z[i] = x[i]
    return b.build()


def chosen() -> vc.Program:
    """z = x where y is positive, else 7"""
    b = vc.Builder("chosen", block=32)
    x, y, z = b.input("x", vc.f32), b.input("y", vc.f32), b.output("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = vc.where(y[i] > 0, x[i], 7.0)
    return b.build()


def stops(name: str, block: int) -> vc.Program:
    """z = x / 2; done once the first element is small"""
    b = vc.Builder(name, block=block)
    x, z, done = b.input("x", vc.f32), b.inout("z", vc.f32), b.inout("done", vc.u32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[i] * 0.5 + vc.absolute(x[x.size - 1 - i] * 0.0)
        with b.if_(i == 0):
            done[0] = vc.where(vc.absolute(z[i]) < 1.0, vc.u32(1), vc.u32(0))
    return b.build()


class Kernels:
    """Those of all kinds, compiled for one device."""

    def __init__(self, device: vc.Device) -> None:
        rng = random.Random(11)

        def all_of(programs: Sequence[vc.Program], **options: Any) -> list[vc.Kernel]:
            return [device.compile(each, **options) for each in programs]

        plain = [program(rng, f"p{k}") for k in range(24)]
        self.plain = all_of(plain)
        self.ftz = all_of(plain[:8], precision="ftz")
        self.fast = all_of(plain, precision="fast")
        self.trap = all_of(plain[:4], bounds="trap")
        self.one_block = all_of([program(rng, f"b{k}", block=128) for k in range(16)])
        self.waits = all_of([waits(rng, f"w{k}") for k in range(8)])
        self.leaves = all_of([leaves("leaves")])
        self.planes = all_of([plane("double", 2.0), plane("half", 0.5)])
        self.evens = all_of([evens("evens", 32), evens("evens_of_block", 64)])
        self.keeps = all_of([keeps("keeps", OWN), keeps("keeps_more", OWN + 4)])
        self.own = all_of([own(f"own{block}", 0.5, block) for block in (32, 64, 256)])
        self.doubled, self.partly, self.chosen = all_of([doubled(), partly(), chosen()])
        self.stops = all_of([stops("stops", 128)])
        self.turns = all_of([turns(f"turns{block}", block) for block in (32, 128)])
        self.beside = [*self.own[:1], *self.evens[:1], *self.turns[:1], self.doubled, self.partly]
