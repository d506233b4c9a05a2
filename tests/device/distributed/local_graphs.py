"""Programs and arrays of several devices for recorded collectives."""

from __future__ import annotations

from collections.abc import Callable

import vyre_cuda as vc

N = 840
BY_NCCL, IN_ONE_SHOT = 0, None  # `small` of a group


def add(n: float) -> vc.Program:
    b = vc.Builder("add")
    x = b.inout("x", vc.f32)
    with b.if_(vc.global_id.x < x.size):
        x[vc.global_id.x] = x[vc.global_id.x] + n
    return b.build()


def scale() -> vc.Program:
    b = vc.Builder("scale")
    x = b.inout("x", vc.f32)
    k = b.scalar("k", vc.f32)
    with b.if_(vc.global_id.x < x.size):
        x[vc.global_id.x] = x[vc.global_id.x] * k
    return b.build()


def zeros(comm: vc.distributed.LocalCommunicator, n: int = N) -> list[vc.DeviceArray]:
    return [device.zeros(n, vc.f32) for device in comm.devices]


def values(xs: list[vc.DeviceArray]) -> list[list[float]]:
    return [sorted(set(x.numpy().tolist())) for x in xs]


def failure(use: Callable[[], object]) -> str:
    """What the error says; empty where there is none."""
    try:
        use()
    except vc.Error as error:
        return str(error)
    return ""
