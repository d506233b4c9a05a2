"""Programs as text, lowered for one target, and the accesses in their code."""

from __future__ import annotations

import re

import vyre_cuda as vc
from vyre_cuda.codegen.core.lowered import Lowered
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.testing.assembler import assemble

SM_90 = Target.parse("sm_90")


def lowered(text: str, *, debug: bool = True, target: Target = SM_90) -> Lowered:
    """The program of this text, lowered, verified and assembled."""
    result = lower(vc.parse(text), target, debug=debug)
    assemble(result.ptx, target.sm)
    return result


def kernel(body: str, *, header: str = "", block: str = "256") -> Lowered:
    """A kernel over x and out of one size and an unrelated y; i is global_id.x."""
    return lowered(
        f"program k\nblock {block}\nin x: f32\nin y: f32\nout out: f32[size(x)]\ninout h: u32\n{header}\n"
        f"let i = global_id.x\n{body}\n"
    )


def accesses(result: Lowered) -> list[str]:
    """Loads, stores and atomics of the kernel, without registers: "@ld.global.f32" is guarded."""
    found = re.findall(r"^  (@%p\d+ )?((?:ld|st|atom|red)\.(?!param)[\w.]+)", result.ptx, re.MULTILINE)
    return [("@" if guard else "") + name for guard, name in found]
