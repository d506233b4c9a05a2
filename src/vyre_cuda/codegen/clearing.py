"""The kernel that clears results before many launches as one (`vyc_rows.clearing`)."""

from __future__ import annotations

from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.ids import global_id
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import u32


def clearing_program(name: str = "clear_results") -> Program:
    """out[i] = 0, as the C layer expects it."""
    b = Builder(name, block=256)
    out = b.output("out", u32, zeroed=False)
    i = b.let("i", global_id.x)
    with b.if_(i < out.size):
        out[i] = u32(0)
    return b.build()
