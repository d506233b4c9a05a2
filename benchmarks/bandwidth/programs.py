"""Element-wise programs of large arrays, as one writes them and with four elements a thread by hand."""

from __future__ import annotations

import vyre_cuda as vc

BLOCK = 256
BY_HAND = 4


def saxpy(type_: vc.Type) -> vc.Program:
    """The README's: out = a * x + y."""
    b = vc.Builder("saxpy", block=BLOCK)
    x, y = b.input("x", type_), b.input("y", type_)
    out = b.output("out", type_, size=x.size)
    a = b.scalar("a", type_)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + y[i]
    return b.build()


def copy(type_: vc.Type) -> vc.Program:
    b = vc.Builder("copy", block=BLOCK)
    x = b.input("x", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = x[i]
    return b.build()


def mathematics(type_: vc.Type) -> vc.Program:
    b = vc.Builder("mathematics", block=BLOCK)
    x = b.input("x", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = vc.exp(vc.sin(x[i])) * vc.log(x[i])
    return b.build()


def by_hand(step: int, result: str) -> vc.Program:
    """saxpy with four elements a thread, `step` apart: 1 for neighbors, BLOCK for elements a block apart.

    `result` is "output" or "inout".
    """
    b = vc.Builder(f"by_hand_{step}_{result}", block=BLOCK)
    x, y = b.input("x", vc.f32), b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size) if result == "output" else b.inout("out", vc.f32)
    a = b.scalar("a", vc.f32)
    b.work((x.size + BY_HAND - 1) // BY_HAND)
    if step == 1:
        first = b.let("first", vc.global_id.x * BY_HAND)
    else:
        first = b.let("first", vc.block_id.x * (BLOCK * BY_HAND) + vc.thread_id.x)
    xs = [b.let(f"x{k}", x[first + k * step]) for k in range(BY_HAND)]
    ys = [b.let(f"y{k}", y[first + k * step]) for k in range(BY_HAND)]
    for k in range(BY_HAND):
        out[first + k * step] = a * xs[k] + ys[k]
    return b.build()
