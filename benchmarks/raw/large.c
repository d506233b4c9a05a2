/* out = a * x on 16 MiB of host memory in and 16 MiB out: in the caller's page-locked memory, from
 * pageable memory by way of mapped memory or chunk by chunk, and with the driver's copies; `new`:
 * to page-locked memory, which the kernel writes itself. */
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "twins.h"

enum { CHUNK = 512 << 10 }; /* bytes */

typedef struct large_set {
  raw_set *host; /* pageable */
  float *pinned[2];
  CUdeviceptr mapped[2]; /* the same for the device */
  raw_block block;
} large_set;

static struct {
  raw_kernel kernel;
  large_set *sets;
  size_t bytes;
  CUstream stream;
  CUgraphNode node;
  CUgraphExec exec;
  float *slab[2];
  CUdeviceptr slab_mapped[2], device[2];
  raw_block slab_block, free_block; /* free: filled for each call */
} s;

static void mapped_pair(float **pair, CUdeviceptr *addresses, raw_block *block, float a) {
  for (uint32_t j = 0; j < 2; j++) {
    CU(cuMemHostAlloc((void **)&pair[j], s.bytes, CU_MEMHOSTALLOC_DEVICEMAP));
    CU(cuMemHostGetDevicePointer(&addresses[j], pair[j], 0));
  }
  raw_fill_block(block, &s.kernel.layout, addresses, a, s.kernel.n);
}

static void open(const raw_options *o) {
  raw_load_kernel(&s.kernel, o->folder, "scale", o->large_elements);
  CU(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
  s.bytes = o->large_elements * sizeof(float);
  raw_set *host = raw_read_sets(o->folder, "scale", o->large_sets, o->large_elements, 1);
  s.sets = raw_alloc(o->large_sets * sizeof *s.sets);
  for (uint32_t i = 0; i < o->large_sets; i++) {
    s.sets[i].host = &host[i];
    mapped_pair(s.sets[i].pinned, s.sets[i].mapped, &s.sets[i].block, host[i].a);
    memcpy(s.sets[i].pinned[0], host[i].inputs[0], s.bytes);
  }
  mapped_pair(s.slab, s.slab_mapped, &s.slab_block, host[0].a);
  for (uint32_t j = 0; j < 2; j++) CU(cuMemAlloc(&s.device[j], s.bytes));
  CUgraph graph;
  s.kernel.params.kernelParams = s.slab_block.pointers;
  CU(cuGraphCreate(&graph, 0));
  CU(cuGraphAddKernelNode(&s.node, graph, NULL, 0, &s.kernel.params));
  s.exec = raw_instantiate(graph);
}

static void wait(void) { CU(cuStreamSynchronize(s.stream)); }

static void run(raw_block *block) {
  s.kernel.params.kernelParams = block->pointers;
  CU(cuGraphExecKernelNodeSetParams(s.exec, s.node, &s.kernel.params));
  CU(cuGraphLaunch(s.exec, s.stream));
}

static void pinned(uint32_t set) {
  run(&s.sets[set].block);
  wait();
}

static void set_scalar(raw_block *block, float a) {
  const raw_layout *layout = &s.kernel.layout;
  for (uint32_t i = 0; i < layout->count; i++)
    if (layout->parameters[i].kind == RAW_SCALAR)
      memcpy(block->bytes + layout->parameters[i].offset, &a, sizeof a);
}

static void pageable(uint32_t set) {
  const raw_set *host = s.sets[set].host;
  memcpy(s.slab[0], host->inputs[0], s.bytes);
  set_scalar(&s.slab_block, host->a);
  run(&s.slab_block);
  wait();
  memcpy(host->result, s.slab[1], s.bytes);
}

static void run_on(CUdeviceptr in, CUdeviceptr out, float a) {
  const CUdeviceptr addresses[2] = {in, out};
  raw_fill_block(&s.free_block, &s.kernel.layout, addresses, a, s.kernel.n);
  run(&s.free_block);
}

static void copies(const void *in, void *out, float a) {
  CU(cuMemcpyHtoDAsync(s.device[0], in, s.bytes, s.stream));
  run_on(s.device[0], s.device[1], a);
  CU(cuMemcpyDtoHAsync(out, s.device[1], s.bytes, s.stream));
  wait();
}

static void copies_pinned(uint32_t set) {
  const large_set *at = &s.sets[set];
  copies(at->pinned[0], at->pinned[1], at->host->a);
}

static void copies_pageable(uint32_t set) {
  const raw_set *host = s.sets[set].host;
  copies(host->inputs[0], host->result, host->a);
}

#if defined(__SSE2__)
/* Past the caches; `to` begins a line. */
static void store(uint8_t *to, const uint8_t *from, size_t bytes) {
  size_t i = 0;
  for (; i + 16 <= bytes; i += 16)
    _mm_stream_si128((__m128i *)(void *)(to + i),
                     _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
  memcpy(to + i, from + i, bytes - i);
  _mm_sfence();
}
#else
static void store(uint8_t *to, const uint8_t *from, size_t bytes) { memcpy(to, from, bytes); }
#endif

/* The host copies a chunk while the device copies the one before. */
static void bring(const void *in) {
  const uint8_t *from = in;
  uint8_t *room = (uint8_t *)s.slab[0];
  for (size_t at = 0; at < s.bytes; at += CHUNK) {
    const size_t length = s.bytes - at < CHUNK ? s.bytes - at : CHUNK;
    store(room + at, from + at, length);
    CU(cuMemcpyHtoDAsync(s.device[0] + at, room + at, length, s.stream));
  }
}

static void chunks_pageable(uint32_t set) {
  const raw_set *host = s.sets[set].host;
  bring(host->inputs[0]);
  run_on(s.device[0], s.device[1], host->a);
  CU(cuMemcpyDtoHAsync(host->result, s.device[1], s.bytes, s.stream));
  wait();
}

static void zero_copy_new(uint32_t set) {
  const large_set *at = &s.sets[set];
  memcpy(s.slab[0], at->host->inputs[0], s.bytes);
  run_on(s.slab_mapped[0], at->mapped[1], at->host->a);
  wait();
}

static void copies_new(uint32_t set) {
  const large_set *at = &s.sets[set];
  CU(cuMemcpyHtoDAsync(s.device[0], at->host->inputs[0], s.bytes, s.stream));
  run_on(s.device[0], at->mapped[1], at->host->a);
  wait();
}

static void chunks_new(uint32_t set) {
  const large_set *at = &s.sets[set];
  bring(at->host->inputs[0]);
  run_on(s.device[0], at->mapped[1], at->host->a);
  wait();
}

static float *result_of(const raw_twin *t, uint32_t set) {
  const bool pageable_result =
      t->call == pageable || t->call == copies_pageable || t->call == chunks_pageable;
  return pageable_result ? s.sets[set].host->result : s.sets[set].pinned[1];
}

static void poison(const raw_twin *t, uint32_t set) {
  memset(result_of(t, set), RAW_POISON, s.bytes);
  memset(s.slab[1], RAW_POISON, s.bytes);
}

static bool is_right(const raw_twin *t, uint32_t set) {
  return memcmp(result_of(t, set), s.sets[set].host->expected, s.bytes) == 0;
}

static uint32_t sets(const raw_options *o) { return o->large_sets; }
static uint32_t trips(const raw_options *o) { return o->long_trips; }

static const raw_twin TWINS[] = {
    {"large_zero_copy_pinned", pinned, false, true, false, false},
    {"large_zero_copy_pageable", pageable, false, true, false, false},
    {"large_copies_pinned", copies_pinned, false, true, false, false},
    {"large_copies_pageable", copies_pageable, false, true, false, false},
    {"large_chunks_pageable", chunks_pageable, false, true, false, false},
    {"large_zero_copy_new", zero_copy_new, false, true, false, false},
    {"large_copies_new", copies_new, false, true, false, false},
    {"large_chunks_new", chunks_new, false, true, false, false},
};

const raw_group large_group = {false,    open, sets,  trips,           NULL, wait, poison,
                               is_right, NULL, TWINS, RAW_COUNT(TWINS)};
