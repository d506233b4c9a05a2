"""The kernels and graphs of the launcher that tests start: `launched_programs.py FOLDER` writes its sources."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import vyre_cuda as vc
from vyre_cuda.bundles.launcher import write_launcher

TYPES = [vc.bool_, vc.u8, vc.i8, vc.u16, vc.i16, vc.u32, vc.i32, vc.u64, vc.i64, vc.f16, vc.bf16, vc.f32, vc.f64]


def saxpy() -> vc.Program:
    b = vc.Builder("saxpy", block=256)
    x = b.input("x", vc.f32)
    y = b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + y[i]
    return b.build()


def blend(kind: vc.Type) -> vc.Program:
    """The scalar where the mask is set, in every type."""
    b = vc.Builder(f"blend_{kind}", block=32)
    mask = b.input("mask", vc.bool_)
    x = b.inout("x", kind)
    value = b.scalar("value", kind)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size), b.if_(mask[i]):
        x[i] = value
    return b.build()


def positive() -> vc.Program:
    """Has an assertion, and an out whose size each call brings."""
    b = vc.Builder("positive", block=32)
    x = b.input("x", vc.i32)
    out = b.output("out", vc.i32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        b.assert_(x[i] > 0, "not positive")
        out[i] = x[i]
    return b.build()


def twice(device: vc.Device) -> vc.Graph:
    """out = a (a x + y) + y; x has no default."""
    kernel = device.compile(saxpy())
    y, out = device.array(np.array([1, 2, 3, 4], np.float32)), device.zeros(4, vc.f32)
    between = device.empty(4, vc.f32)
    with device.record() as graph:
        kernel.launch(vc.symbol("x"), vc.symbol("y", y), between, vc.symbol("a", 2.0))
        kernel.launch(between, vc.symbol("y", y), vc.symbol("out", out), vc.symbol("a", 2.0))
    return graph


def held(device: vc.Device) -> vc.Graph:
    """`positive` with symbols that have no default."""
    kernel = device.compile(positive())
    with device.record() as graph:
        kernel.launch(vc.symbol("x"), vc.symbol("out"), grid=1)
    return graph


def main(folder: Path) -> None:
    """Write the sources, with a bundle of all of the programs above."""
    bundle = folder / "kernels.vyre"
    programs = [saxpy(), positive(), *map(blend, TYPES)]
    with vc.Device("emulator") as device:
        graphs = {"twice": twice(device), "held": held(device)}
        vc.bundle(
            programs,
            bundle,
            targets=["sm_80"],
            cubins=False,
            graphs=graphs,
            workers={"steady": ["saxpy"]},
            many=["saxpy"],
        )
    write_launcher(folder / "sources", bundle.read_bytes(), name="kernels", version=vc.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
