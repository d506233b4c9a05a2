"""Programs with neighbors that are accessed at once, at every begin and size."""

from __future__ import annotations

from typing import Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda.testing.compare import assert_same

from .edge_values import edge_values

TYPES = (vc.bool_, vc.u8, vc.i8, vc.u16, vc.i16, vc.f16, vc.bf16, vc.u32, vc.i32, vc.f32, vc.u64, vc.i64, vc.f64)
INDEX_TYPES = (vc.u32, vc.i32, vc.u64, vc.i64)
BLOCK = 8


def lanes(type_: vc.Type) -> int:
    return 16 // type_.itemsize


def reversed_blocks(type_: vc.Type, count: int, index: vc.Type, *, guarded: bool, offset: int = 0) -> vc.Program:
    """Each block of `count` elements in reverse order."""
    b = vc.Builder("reversed", block=BLOCK, index=index)
    x = b.input("x", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x * count + offset)
    with b.if_(i + (count - 1) < out.size if guarded else out.size >= 0):
        values = [x[i + k] for k in range(count)]
        for k in range(count):
            out[i + k] = values[count - 1 - k]
    b.work(x.size)
    return b.build()


def launch(kernel: vc.Kernel, x: np.ndarray[Any, Any], begin: int, size: int) -> np.ndarray[Any, Any]:
    """With views of x and of zeros that begin and end somewhere; all zeros are returned."""
    given, out = kernel.device.array(x), kernel.device.zeros(len(x), kernel.program.parameters[0].type)
    kernel.launch(given[begin : begin + size], out[begin : begin + size])
    return out.numpy()


def check(kernel: vc.Kernel, begin: int, size: int) -> None:
    x = edge_values(kernel.program.parameters[0].type, size + 32, size)
    wanted = vc.evaluate(kernel.program, x[begin : begin + size])
    found = launch(kernel, x, begin, size)

    assert_same(wanted, found[begin : begin + size])
    assert not found[:begin].any()
    assert not found[begin + size :].any()


def text_of(body: str, header: str = "", bounds: str = "check") -> str:
    program = vc.parse(
        f"program p\nblock 32\nin x: f32\nin at: u32\ninout y: f32\ninout z: f32\n{header}\n"
        f"let i = multiply(global_id.x, u32:2)\nlet j = add(i, u32:1)\n{body}\n"
    )
    return vc.ptx(program, bounds=bounds)
