"""The kernels of the curves: sums, so that every argument counts; and one that runs for a while."""

from __future__ import annotations

import vyre_cuda as vc

ELEMENTS = 1024  # of f32: 4 KiB
BLOCK = 256


def sum_of(buffers: int, scalars: int, name: str = "") -> vc.Program:
    """out = the sum of so many inputs and scalars."""
    b = vc.Builder(name or f"sum_{buffers}_{scalars}", block=BLOCK)
    inputs = [b.input(f"x{i}", vc.f32) for i in range(buffers)]
    out = b.output("out", vc.f32, size=inputs[0].size)
    factors = [b.scalar(f"a{i}", vc.f32) for i in range(scalars)]
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        total = b.var("total", vc.f32(0))
        for x in inputs:
            total.set(total + x[i])
        for a in factors:
            total.set(total + a)
        out[i] = total
    return b.build()


def spin() -> vc.Program:
    """A dependent chain of so many steps in one thread."""
    b = vc.Builder("spin", block=1)
    out = b.output("out", vc.u32, size=1)
    steps = b.scalar("steps", vc.u32)
    value = b.var("value", vc.u32(1))
    with b.for_(0, steps):
        value.set(value * 1664525 + 1013904223)
    out[0] = value
    return b.build()


def loaded_sum(words: list[str]) -> str:
    """PTX of a kernel of a pointer and these, f32 or const_ptr, that stores the sum of scalars and first elements."""
    kinds = {"f32": ".f32", "const_ptr": ".u64"}
    parameters = [".param .u64 out", *(f".param {kinds[word]} p{i}" for i, word in enumerate(words))]
    lines = ["ld.param.u64 %rd0, [out];", "mov.f32 %f0, 0f00000000;"]
    for i, word in enumerate(words):
        if word == "f32":
            lines.append(f"ld.param.f32 %f1, [p{i}];")
        else:
            lines += [f"ld.param.u64 %rd1, [p{i}];", "ld.global.f32 %f1, [%rd1];"]
        lines.append("add.rn.f32 %f0, %f0, %f1;")
    body = "\n".join([".reg .f32 %f<2>;", ".reg .b64 %rd<2>;", *lines, "st.global.f32 [%rd0], %f0;", "ret;"])
    head = ".version 8.1\n.target sm_75\n.address_size 64\n"
    return f"{head}.visible .entry loaded_sum({', '.join(parameters)})\n{{\n{body}\n}}\n"
