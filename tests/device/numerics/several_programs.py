"""Programs with several elements a thread in large launches, and values for them."""

from __future__ import annotations

import vyre_cuda as vc
from vyre_cuda.passes import elements

BLOCK = 32
GROUP = BLOCK * elements.ELEMENTS


def saxpy(type_: vc.Type, index: vc.Type = vc.u32, block: int = BLOCK) -> vc.Program:
    b = vc.Builder("saxpy", block=block, index=index)
    x, y = b.input("x", type_), b.input("y", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = y[i] if type_ is vc.bool_ else x[i] + y[i]
    return b.build()


def without_guard(type_: vc.Type = vc.f32, of_far: vc.Type = vc.i32, block: int = BLOCK) -> vc.Program:
    """Threads behind the end still read and write `far`, which is longer, and in bounds for them."""
    b = vc.Builder("without_guard", block=block)
    x = b.input("x", type_)
    far = b.inout("far", of_far)
    b.output("out", type_, size=x.size)[vc.global_id.x] = x[vc.global_id.x]
    far[vc.global_id.x] = far[vc.global_id.x] * 3 + 1
    b.work(x.size)
    return b.build()


def neighbors() -> vc.Program:
    b = vc.Builder("neighbors", block=BLOCK, index=vc.i32)
    x = b.input("x", vc.i32)
    out = b.output("out", vc.i32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_((i > 0) & (i < out.size - 1)):
        out[i] = x[i - 1] - 2 * x[i] + x[i + 1]
    return b.build()


def branches_and_variables(type_: vc.Type = vc.i32, index: vc.Type = vc.u32) -> vc.Program:
    b = vc.Builder("branches", block=BLOCK, index=index)
    x = b.input("x", type_)
    state = b.inout("state", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i >= out.size):
        b.return_()
    value = b.var("value", x[i])
    with b.if_(value % 3 == 0):
        value.set(value + state[i])
        state[i] = value
    with b.else_():
        twice = b.let("twice", value * 2)
        out[i] = twice
        value.set(twice - 1)
    out[i] = value + state[i]
    state[i] = state[i] ^ value
    return b.build()


def scattered() -> vc.Program:
    b = vc.Builder("scattered", block=BLOCK)
    place = b.input("place", vc.u32)
    x = b.input("x", vc.f64)
    out = b.inout("out", vc.f64)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < place.size):
        out[place[i]] = x[place[i]] * 2.0
    b.work(place.size)
    return b.build()
