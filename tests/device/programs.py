"""Small programs that the device tests share, each with what it computes in NumPy."""

from __future__ import annotations

import vyre_cuda as vc


def saxpy(block: int = 256) -> vc.Program:
    """out = a * x + y"""
    b = vc.Builder("saxpy", block=block)
    x, y = b.input("x", vc.f32), b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + y[i]
    return b.build()


def add_to(name: str = "add_to") -> vc.Program:
    """h += x, element by element"""
    b = vc.Builder(name)
    h = b.inout("h", vc.i32)
    x = b.input("x", vc.i32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < h.size):
        h[i] = h[i] + x[i]
    return b.build()


def identity(type_: vc.Type) -> vc.Program:
    """out = x"""
    b = vc.Builder("identity", block=32)
    x = b.input("x", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = x[i]
    return b.build()


def divmod_of() -> vc.Program:
    """quotient, remainder = divmod(x, d)"""
    b = vc.Builder("divmod_of", block=64)
    x = b.input("x", vc.i32)
    d = b.scalar("d", vc.i32)
    quotient = b.output("quotient", vc.i32, size=x.size)
    remainder = b.output("remainder", vc.i32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        quotient[i] = x[i] // d
        remainder[i] = x[i] % d
    return b.build()


def every_second() -> vc.Program:
    """out[2 i] = x[i]; odd elements are not written"""
    b = vc.Builder("every_second", block=32)
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=x.size * 2)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        out[i * 2] = x[i]
    b.work(x.size)
    return b.build()


def first_eight() -> vc.Program:
    """x[:8] += 1 and y[:8] = x[:8], the rest of y zero; x and y may be large at no cost"""
    b = vc.Builder("first_eight", block=32)
    x = b.inout("x", vc.u64)
    y = b.output("y", vc.u64, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < 8):
        x[i] = x[i] + 1
        y[i] = x[i]
    b.work(8)
    return b.build()


def histogram() -> vc.Program:
    """h[x % 16] += 1 by atomics"""
    b = vc.Builder("histogram", block=128)
    h = b.inout("h", vc.u32)
    x = b.input("x", vc.u32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        b.atomic_add(h, x[i] % 16, vc.u32(1))
    b.work(x.size)
    return b.build()


def guarded(limit: int = 100) -> vc.Program:
    """out = x, and an assertion that every x is below the limit"""
    b = vc.Builder("guarded", block=32)
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        b.assert_(x[i] < limit, f"x must be below {limit}")
        out[i] = x[i]
    return b.build()


def spin() -> vc.Program:
    """flag as it was, once flag[0] is not 0 or after n looks at it; a look takes 50 ns or more"""
    b = vc.Builder("spin", block=1)
    flag = b.inout("flag", vc.u32)
    n = b.scalar("n", vc.u32)
    turns = b.var("turns", vc.u32(0))
    with b.while_(lambda: (turns < n) & (b.atomic_load(flag, 0, scope="system") == 0)):
        turns.set(turns + 1)
    return b.build()


def rotate_in_place() -> vc.Program:
    """x[i] = x[i + 1] around, with a grid barrier between the reads and the writes"""
    b = vc.Builder("rotate_in_place", block=64)
    x = b.inout("x", vc.f32)
    i = b.let("i", vc.global_id.x)
    taken = b.var("taken", vc.f32(0))
    with b.if_(i < x.size):
        taken.set(x[(i + 1) % x.size])
    b.grid_barrier()
    with b.if_(i < x.size):
        x[i] = taken
    return b.build()


def reach() -> vc.Program:
    """out = x, read `far` elements further; without checks of bounds, a fault where no memory is"""
    b = vc.Builder("reach", block=64)
    x = b.input("x", vc.u64)
    out = b.output("out", vc.u64, size=x.size)
    far = b.scalar("far", vc.u64)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = x[vc.u64(i) + far]
    return b.build()
