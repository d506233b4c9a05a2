"""Writes the bundle of the service: models.py OUT.vyre [BIAS]. The bias is what a new version of it changes."""

from __future__ import annotations

import sys

import numpy as np

import vyre_cuda as vc


def saxpy(bias: float) -> vc.Program:
    """out = a x + y + bias."""
    b = vc.Builder("saxpy", block=256)
    x, y = b.input("x", vc.f32), b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + y[i] + vc.f32(bias)
    return b.build()


def tone() -> vc.Program:
    """out = min(gain x + lift, 1)."""
    b = vc.Builder("tone", block=256)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    gain, lift = b.scalar("gain", vc.f32), b.scalar("lift", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = vc.minimum(gain * x[i] + lift, vc.f32(1))
    return b.build()


def guard() -> vc.Program:
    """out = 2 x, where no x is negative."""
    b = vc.Builder("guard", block=64)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        b.assert_(x[i] >= vc.f32(0), "negative input")
        out[i] = x[i] + x[i]
    return b.build()


def twice(bias: float) -> vc.Graph:
    """out = a (a x + 1 + bias) + x + bias, recorded on the emulator."""
    device = vc.Device("emulator")
    kernel = device.compile(saxpy(bias))
    ones, between = device.array(np.ones(256, np.float32)), device.empty(256, vc.f32)
    with device.record() as graph:
        kernel.launch(vc.symbol("x"), ones, between, vc.symbol("a", 2.0))
        kernel.launch(between, vc.symbol("x"), vc.symbol("out"), vc.symbol("a", 2.0))
    return graph


if __name__ == "__main__":
    bias = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    programs = [saxpy(bias), tone(), guard()]
    vc.bundle(programs, sys.argv[1], targets=["sm_90"], cubins=False, graphs={"twice": twice(bias)})
