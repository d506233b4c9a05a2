/* The text of the kernel that reads scattered ranges, and what it takes; see gather.c. A header of
 * its own, because benchmarks/probes/gather.c measures from where on it pays. */
#ifndef VYC_GATHER_TEXT_H
#define VYC_GATHER_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define VYC_GATHER_TEXT_BYTES 32768u /* at most, with up to 64 rows */

typedef struct vyc_gather_row {
  uint64_t from, distance, end; /* distance: from the range to its place, modulo 2^64 */
} vyc_gather_row;

static const char vyc__gather_head[] =
    ".version 6.3\n.target sm_75\n.address_size 64\n"
    ".visible .entry vyc_gather(.param .align 8 .b8 rows[%zu])\n{\n"
    ".reg .pred %%p<4>;\n.reg .b32 %%r<8>;\n.reg .b64 %%rd<12>;\n"
    "mov.u32 %%r0, %%ctaid.x;\nmov.u32 %%r1, %%tid.x;\n"
    "mov.u64 %%rd0, 0;\nmov.u64 %%rd1, 0;\nmov.u64 %%rd2, 0;\n";

/* Where the range begins, the distance to its place, and its end. */
static const char vyc__gather_row_text[] = "setp.eq.u32 %%p0, %%r0, %u;\n"
                                           "@%%p0 ld.param.u64 %%rd0, [rows+%zu];\n"
                                           "@%%p0 ld.param.u64 %%rd1, [rows+%zu];\n"
                                           "@%%p0 ld.param.u64 %%rd2, [rows+%zu];\n";

/* rd4, rd5: the first and the last multiple of 16 in the range, or its end. */
static const char vyc__gather_tail[] =
    "cvt.u64.u32 %rd3, %r1;\n"
    "add.u64 %rd4, %rd0, 15;\nand.b64 %rd4, %rd4, -16;\nmin.u64 %rd4, %rd4, %rd2;\n"
    "and.b64 %rd5, %rd2, -16;\nmax.u64 %rd5, %rd5, %rd4;\n"
    "add.u64 %rd6, %rd0, %rd3;\nsetp.lt.u64 %p1, %rd6, %rd4;\nadd.u64 %rd7, %rd6, %rd1;\n"
    "add.u64 %rd8, %rd5, %rd3;\nsetp.lt.u64 %p2, %rd8, %rd2;\nadd.u64 %rd9, %rd8, %rd1;\n"
    "shl.b64 %rd10, %rd3, 4;\nadd.u64 %rd10, %rd10, %rd4;\nsetp.lt.u64 %p3, %rd10, %rd5;\n"
    "add.u64 %rd11, %rd10, %rd1;\n"
    "@%p1 ld.global.u8 %r2, [%rd6];\n@%p2 ld.global.u8 %r3, [%rd8];\n"
    "@%p3 ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd10];\n"
    "@%p1 st.global.u8 [%rd7], %r2;\n@%p2 st.global.u8 [%rd9], %r3;\n"
    "@%p3 st.global.v4.u32 [%rd11], {%r4, %r5, %r6, %r7};\nret;\n}\n";

static inline void vyc__gather_text(char *text, uint32_t rows) {
  const size_t row = sizeof(vyc_gather_row), room = VYC_GATHER_TEXT_BYTES;
  size_t at = (size_t)snprintf(text, room, vyc__gather_head, row * rows);
  for (uint32_t i = 0; i < rows; i++)
    at += (size_t)snprintf(
        text + at, room - at, vyc__gather_row_text, i, i * row + offsetof(vyc_gather_row, from),
        i * row + offsetof(vyc_gather_row, distance), i * row + offsetof(vyc_gather_row, end));
  snprintf(text + at, room - at, "%s", vyc__gather_tail);
}

#endif
