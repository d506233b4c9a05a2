"""PTX as other compilers write it, and a maker of kernels for any signature."""

from __future__ import annotations

# out[i] = a * x[i] + out[i] for i < n
SAXPY = """
.version 7.8
.target sm_75
.address_size 64
.visible .entry saxpy(.param .u64 px, .param .u64 po, .param .f32 pa, .param .u32 pn)
{
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .f32 %f<4>;
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r0, %r1, %r2;
  ld.param.u32 %r4, [pn]; setp.ge.u32 %p0, %r3, %r4; @%p0 ret;
  ld.param.u64 %rd0, [px]; ld.param.u64 %rd1, [po];
  cvta.to.global.u64 %rd0, %rd0; cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r3, 4; add.s64 %rd0, %rd0, %rd2; add.s64 %rd1, %rd1, %rd2;
  ld.param.f32 %f0, [pa]; ld.global.f32 %f1, [%rd0]; ld.global.f32 %f2, [%rd1];
  fma.rn.f32 %f3, %f0, %f1, %f2; st.global.f32 [%rd1], %f3; ret;
}
"""

# out[block] = the sum of thread numbers of the block, by way of dynamic shared memory of a word per thread
SHARED = """
.version 7.8
.target sm_75
.address_size 64
.extern .shared .align 4 .b8 room[];
.visible .entry gather(.param .u64 po)
{
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  mov.u32 %r0, %tid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, room;
  shl.b32 %r3, %r0, 2; add.u32 %r3, %r3, %r2; st.shared.u32 [%r3], %r0;
  bar.sync 0;
  setp.ne.u32 %p0, %r0, 0; @%p0 ret;
  mov.u32 %r4, 0;
again:
  ld.shared.u32 %r5, [%r2]; add.u32 %r4, %r4, %r5; add.u32 %r2, %r2, 4;
  sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra again;
  ld.param.u64 %rd0, [po]; mov.u32 %r6, %ctaid.x; mul.wide.u32 %rd1, %r6, 4; add.s64 %rd0, %rd0, %rd1;
  st.global.u32 [%rd0], %r4; ret;
}
"""

# Writes a word to the address that it is given.
POKE = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry poke(.param .u64 p)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1;
  ret;
}
"""


def echo(words: list[str]) -> str:
    """A kernel of these scalar parameters, and a pointer first, that stores the bits of each in a 64-bit word."""
    parameters = [".param .u64 po", *(f".param .{_spelled(word)} p{i}" for i, word in enumerate(words))]
    body = ["ld.param.u64 %rd0, [po];"]
    for i, word in enumerate(words):
        bits = _width(word)
        if bits == 64:
            body.append(f"ld.param.u64 %rd1, [p{i}];")
        elif bits == 32:
            body.append(f"ld.param.u32 %r0, [p{i}]; cvt.u64.u32 %rd1, %r0;")
        else:
            body.append(f"ld.param.u{bits} %h0, [p{i}]; cvt.u64.u{bits if bits == 16 else 8} %rd1, %h0;")
        body.append(f"st.global.u64 [%rd0+{8 * i}], %rd1;")
    return (
        ".version 7.8\n.target sm_75\n.address_size 64\n"
        f".visible .entry echo({', '.join(parameters)})\n{{\n"
        ".reg .b16 %h<2>; .reg .b32 %r<2>; .reg .b64 %rd<3>;\n" + "\n".join(body) + "\nret;\n}\n"
    )


def total(words: list[str]) -> str:
    """A kernel of a pointer and so many parameters, u16, f32 or const_ptr to one f32, which stores their sum there."""
    spelled = [".param .u64 po", *(f".param .{'u64' if w == 'const_ptr' else w} p{i}" for i, w in enumerate(words))]
    body = ["ld.param.u64 %rd0, [po]; mov.f32 %f0, 0f00000000;"]
    for i, word in enumerate(words):
        if word == "const_ptr":
            body.append(f"ld.param.u64 %rd1, [p{i}]; ld.global.f32 %f1, [%rd1];")
        elif word == "f32":
            body.append(f"ld.param.f32 %f1, [p{i}];")
        else:
            body.append(f"ld.param.u16 %h0, [p{i}]; cvt.rn.f32.u16 %f1, %h0;")
        body.append("add.rn.f32 %f0, %f0, %f1;")
    return (
        ".version 8.1\n.target sm_75\n.address_size 64\n"
        f".visible .entry total({', '.join(spelled)})\n{{\n"
        ".reg .b16 %h<1>; .reg .f32 %f<2>; .reg .b64 %rd<2>;\n"
        + "\n".join(body)
        + "\nst.global.f32 [%rd0], %f0; ret;\n}\n"
    )


def _width(word: str) -> int:
    return 16 if word == "bf16" else int(word[1:])


def _spelled(word: str) -> str:
    return f"b{_width(word)}" if word in ("f16", "bf16") else word.replace("i", "s")
