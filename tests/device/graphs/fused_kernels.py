"""A kernel that is merged with others of its kind, and arrays for it."""

from __future__ import annotations

import numpy as np

import vyre_cuda as vc

from .graph_checks import F32, N


def scaled(name: str = "scaled", *, block: int = 64) -> vc.Program:
    """z = x * a + b"""
    b = vc.Builder(name, block=block)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    plus = b.scalar("b", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[i] * a + plus
    return b.build()


def ramp(device: vc.Device, n: int = N) -> vc.DeviceArray:
    return device.array(np.arange(n, dtype=F32))


def is_emulator(device: vc.Device) -> int:
    """One node more: the emulator fills temporary arrays that have memory."""
    return int(device.properties.is_emulator)
