/* Where a table should be that a kernel reads or writes here and there: mapped host memory, device
 * memory with a copy, or (to be read) the parameter block itself.
 *
 *   transports LIBCUDA
 *
 * Each thread reads `touches` elements, or writes them, at places that a hash of its number says;
 * a written table is cleared before. One line of JSON for each size, number of threads and touches:
 * medians in us of the whole call. The thresholds of csrc/submission/submission.h are chosen from
 * it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../raw/support.h"

enum { BLOCK = 256, CALLS = 600, WARM = 60, MOST_INLINE = 16384, MOST_THREADS = 65536 };
enum { MAPPED, COPIED, INLINE, WAYS };

/* Parameters: table, out, words - 1 (a mask), touches. The inline kernel has the table itself. */
static const char HEAD[] = ".version 8.1\n.target sm_75\n.address_size 64\n.visible .entry k(\n";
static const char BODY[] = ", .param .u64 po, .param .u32 pm, .param .u32 pt)\n{\n"
                           ".reg .b64 %d<5>;\n.reg .b32 %r<8>;\n.reg .pred %p;\n"
                           "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\n"
                           "mad.lo.u32 %r0, %r1, %r2, %r0;\n"
                           "ld.param.u64 %d1, [po];\nmad.wide.u32 %d1, %r0, 4, %d1;\n"
                           "ld.param.u32 %r3, [pm];\nld.param.u32 %r4, [pt];\nmov.u32 %r5, 0;\n"
                           "L:\nmad.lo.u32 %r0, %r0, 1664525, 1013904223;\nshr.u32 %r6, %r0, 8;\n"
                           "and.b32 %r6, %r6, %r3;\n";
static const char TAIL[] = "add.u32 %r5, %r5, %r6;\nsub.u32 %r4, %r4, 1;\n"
                           "setp.ne.u32 %p, %r4, 0;\n@%p bra L;\n"
                           "st.global.u32 [%d1], %r5;\nret;\n}\n";

/* The same hashes; the value of a place is its number and the call's. */
static const char WRITES[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(\n"
    ".param .u64 px, .param .u32 pc, .param .u32 pm, .param .u32 pt)\n{\n"
    ".reg .b64 %d<5>;\n.reg .b32 %r<8>;\n.reg .pred %p;\n"
    "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\n"
    "mad.lo.u32 %r0, %r1, %r2, %r0;\nld.param.u64 %d0, [px];\nld.param.u32 %r5, [pc];\n"
    "ld.param.u32 %r3, [pm];\nld.param.u32 %r4, [pt];\n"
    "L:\nmad.lo.u32 %r0, %r0, 1664525, 1013904223;\nshr.u32 %r6, %r0, 8;\n"
    "and.b32 %r6, %r6, %r3;\nmad.wide.u32 %d2, %r6, 4, %d0;\nadd.u32 %r6, %r6, %r5;\n"
    "st.global.u32 [%d2], %r6;\nsub.u32 %r4, %r4, 1;\n"
    "setp.ne.u32 %p, %r4, 0;\n@%p bra L;\nret;\n}\n";

static struct {
  CUstream stream;
  uint32_t *mapped, *out; /* page-locked */
  CUdeviceptr device;
} s;

static CUfunction load(uint32_t inline_bytes) {
  char text[2048];
  if (inline_bytes == 0)
    snprintf(text, sizeof text, "%s.param .u64 px%s%s%s", HEAD, BODY,
             "ld.param.u64 %d0, [px];\nmad.wide.u32 %d2, %r6, 4, %d0;\n"
             "ld.global.u32 %r6, [%d2];\n",
             TAIL);
  else
    snprintf(text, sizeof text, "%s.param .align 16 .b8 px[%" PRIu32 "]%s%s%s", HEAD, inline_bytes,
             BODY, "mov.b64 %d0, px;\nmad.wide.u32 %d2, %r6, 4, %d0;\nld.param.u32 %r6, [%d2];\n",
             TAIL);
  CUmodule module;
  CUfunction function;
  CU(cuModuleLoadData(&module, text));
  CU(cuModuleGetFunction(&function, module, "k"));
  return function;
}

typedef struct one {
  CUfunction function;
  CUgraphExec exec;
  CUgraphNode node;
  CUDA_KERNEL_NODE_PARAMS params;
  void *pointers[4];
} one;

static void make(one *way, uint32_t threads, void *table, CUdeviceptr *out, uint32_t *mask,
                 uint32_t *touches) {
  CUgraph graph;
  way->pointers[0] = table;
  way->pointers[1] = out;
  way->pointers[2] = mask;
  way->pointers[3] = touches;
  way->params = (CUDA_KERNEL_NODE_PARAMS){.func = way->function,
                                          .gridDimX = threads / BLOCK,
                                          .gridDimY = 1,
                                          .gridDimZ = 1,
                                          .blockDimX = BLOCK,
                                          .blockDimY = 1,
                                          .blockDimZ = 1,
                                          .kernelParams = way->pointers};
  CU(cuGraphCreate(&graph, 0));
  CU(cuGraphAddKernelNode(&way->node, graph, NULL, 0, &way->params));
  way->exec = raw_instantiate(graph);
}

static int by_size(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void expect(const uint32_t *table, uint32_t mask, uint32_t threads, uint32_t touches) {
  for (uint32_t i = 0; i < threads; i++) {
    uint32_t hash = i, sum = 0;
    for (uint32_t t = 0; t < touches; t++) {
      hash = hash * 1664525u + 1013904223u;
      sum += table[hash >> 8 & mask];
    }
    if (s.out[i] != sum)
      raw_fail("thread %" PRIu32 " has %" PRIu32 ", not %" PRIu32, i, s.out[i], sum);
  }
}

static void measure(uint32_t bytes, uint32_t threads, uint32_t touches) {
  static uint64_t samples[WAYS][CALLS];
  static uint32_t table[1 << 18], block[MOST_INLINE / 4];
  const uint32_t words = bytes / 4, ways = bytes <= MOST_INLINE ? WAYS : INLINE;
  uint32_t mask = words - 1;
  CUdeviceptr mapped = (CUdeviceptr)(uintptr_t)s.mapped, out = (CUdeviceptr)(uintptr_t)s.out;
  one all[WAYS];
  void *tables[WAYS] = {&mapped, &s.device, block};
  for (uint32_t way = 0; way < ways; way++) {
    all[way].function = load(way == INLINE ? bytes : 0);
    make(&all[way], threads, tables[way], &out, &mask, &touches);
  }
  for (uint32_t call = 0; call < WARM + CALLS; call++)
    for (uint32_t way = 0; way < ways; way++) {
      for (uint32_t i = 0; i < words; i++) table[i] = call * 2654435761u + i * 40503u;
      const uint64_t begin = raw_now_ns();
      memcpy(way == INLINE ? block : s.mapped, table, bytes);
      if (way == COPIED) CU(cuMemcpyHtoDAsync(s.device, s.mapped, bytes, s.stream));
      CU(cuGraphExecKernelNodeSetParams(all[way].exec, all[way].node, &all[way].params));
      CU(cuGraphLaunch(all[way].exec, s.stream));
      CU(cuStreamSynchronize(s.stream));
      const uint64_t end = raw_now_ns();
      if (call >= WARM) samples[way][call - WARM] = end - begin;
      if (call % 50 == 0) expect(table, mask, threads, touches);
      s.out[0] = s.out[threads - 1] = RAW_POISON;
    }
  double us[WAYS] = {0};
  for (uint32_t way = 0; way < ways; way++) {
    qsort(samples[way], CALLS, sizeof samples[way][0], by_size);
    us[way] = (double)samples[way][CALLS / 2] / 1000;
  }
  printf("{\"bytes\": %7" PRIu32 ", \"threads\": %5" PRIu32 ", \"touches\": %3" PRIu32
         ", \"mapped\": %6.2f, \"copied\": %6.2f, \"inline\": %6.2f}\n",
         bytes, threads, touches, us[MAPPED], us[COPIED], us[INLINE]);
}

static void expect_written(const uint32_t *table, uint32_t call, uint32_t mask, uint32_t threads,
                           uint32_t touches) {
  static uint32_t expected[1 << 18];
  memset(expected, 0, (mask + 1) * sizeof *expected);
  for (uint32_t i = 0; i < threads; i++) {
    uint32_t hash = i;
    for (uint32_t t = 0; t < touches; t++) {
      hash = hash * 1664525u + 1013904223u;
      expected[hash >> 8 & mask] = (hash >> 8 & mask) + call;
    }
  }
  if (memcmp(table, expected, (mask + 1) * sizeof *expected) != 0) raw_fail("a wrong table");
}

static void measure_writes(uint32_t bytes, uint32_t threads, uint32_t touches) {
  static uint64_t samples[2][CALLS];
  static uint32_t table[1 << 18];
  uint32_t mask = bytes / 4 - 1, call = 0;
  CUdeviceptr mapped = (CUdeviceptr)(uintptr_t)s.mapped;
  CUmodule module;
  one all[2];
  CU(cuModuleLoadData(&module, WRITES));
  for (uint32_t way = 0; way < 2; way++) {
    CU(cuModuleGetFunction(&all[way].function, module, "k"));
    make(&all[way], threads, way == MAPPED ? (void *)&mapped : &s.device, (CUdeviceptr *)&call,
         &mask, &touches);
  }
  for (; call < WARM + CALLS; call++)
    for (uint32_t way = 0; way < 2; way++) {
      const uint64_t begin = raw_now_ns();
      if (way == MAPPED)
        memset(s.mapped, 0, bytes);
      else
        CU(cuMemsetD8Async(s.device, 0, bytes, s.stream));
      CU(cuGraphExecKernelNodeSetParams(all[way].exec, all[way].node, &all[way].params));
      CU(cuGraphLaunch(all[way].exec, s.stream));
      if (way == COPIED) CU(cuMemcpyDtoHAsync(s.mapped, s.device, bytes, s.stream));
      CU(cuStreamSynchronize(s.stream));
      memcpy(table, s.mapped, bytes);
      const uint64_t end = raw_now_ns();
      if (call >= WARM) samples[way][call - WARM] = end - begin;
      if (call % 50 == 0) expect_written(table, call, mask, threads, touches);
    }
  double us[2];
  for (uint32_t way = 0; way < 2; way++) {
    qsort(samples[way], CALLS, sizeof samples[way][0], by_size);
    us[way] = (double)samples[way][CALLS / 2] / 1000;
  }
  printf("{\"writes\": true, \"bytes\": %7" PRIu32 ", \"threads\": %5" PRIu32
         ", \"touches\": %3" PRIu32 ", \"mapped\": %6.2f, \"copied\": %6.2f}\n",
         bytes, threads, touches, us[MAPPED], us[COPIED]);
}

int main(int argc, char **argv) {
  CUcontext context;
  if (argc != 2) raw_fail("usage: transports LIBCUDA");
  raw_open(argv[1]);
  CU(cuInit(0));
  raw_open_device(&context);
  CU(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
  const unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  CU(cuMemHostAlloc((void **)&s.mapped, 1 << 20, flags));
  CU(cuMemHostAlloc((void **)&s.out, MOST_THREADS * sizeof(uint32_t), flags));
  CU(cuMemAlloc(&s.device, 1 << 20));
  static const uint32_t sizes[] = {64, 1024, 4096, 16384, 65536, 1 << 20};
  static const uint32_t counts[] = {256, 1024, 4096, 16384, MOST_THREADS};
  static const uint32_t touches[] = {1, 4, 32};
  for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (uint32_t j = 0; j < sizeof counts / sizeof counts[0]; j++)
      for (uint32_t k = 0; k < sizeof touches / sizeof touches[0]; k++)
        measure(sizes[i], counts[j], touches[k]);
  for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (uint32_t j = 0; j < sizeof counts / sizeof counts[0]; j++)
      for (uint32_t k = 0; k < 2; k++) measure_writes(sizes[i], counts[j], touches[k]);
  return 0;
}
