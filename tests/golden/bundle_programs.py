"""The programs of tests/native/example.vyre, which holds the format still and is what the native tests load."""

from __future__ import annotations

from pathlib import Path

import vyre_cuda as vc

EXAMPLE = Path(__file__).parents[1] / "native" / "example.vyre"
TARGETS = ("sm_80", "sm_90")


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


def checked() -> vc.Program:
    """Has an assertion and changes its argument."""
    b = vc.Builder("checked", block=64)
    x = b.inout("x", vc.i32)
    least = b.scalar("least", vc.i32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        b.assert_(x[i] >= least, "too small")
        x[i] = x[i] - least
    return b.build()


def write(path: Path) -> None:
    """Without source lines, so that it depends on the programs alone."""
    programs = [vc.Program.from_bytes(program().to_bytes()) for program in (saxpy, checked)]
    vc.bundle(programs, path, targets=TARGETS, cubins=False)
