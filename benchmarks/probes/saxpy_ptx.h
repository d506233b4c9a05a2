/* The kernel that probes of launches give the driver: po[i] = pa * px[i] + py[i] for i < pn. */
#ifndef SAXPY_PTX_H
#define SAXPY_PTX_H

static const char PTX[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(\n"
    ".param .u64 px, .param .u64 py, .param .u64 po, .param .f32 pa, .param .u32 pn)\n{\n"
    ".reg .b64 %d<5>;\n.reg .b32 %r<4>;\n.reg .f32 %f<4>;\n.reg .pred %p;\n"
    "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\n"
    "mad.lo.u32 %r0, %r1, %r2, %r0;\nld.param.u32 %r3, [pn];\nsetp.ge.u32 %p, %r0, %r3;\n"
    "@%p bra E;\nld.param.u64 %d0, [px];\nld.param.u64 %d1, [py];\nld.param.u64 %d2, [po];\n"
    "ld.param.f32 %f0, [pa];\nmad.wide.u32 %d0, %r0, 4, %d0;\nmad.wide.u32 %d1, %r0, 4, %d1;\n"
    "mad.wide.u32 %d2, %r0, 4, %d2;\nld.global.f32 %f1, [%d0];\nld.global.f32 %f2, [%d1];\n"
    "fma.rn.f32 %f3, %f0, %f1, %f2;\nst.global.f32 [%d2], %f3;\nE:\nret;\n}\n";

#endif
