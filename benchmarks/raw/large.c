/* out = a * x on 16 MiB of host memory in and 16 MiB out: in the caller's page-locked memory, from
 * pageable memory by way of mapped memory, and with the driver's copies. */
#include <string.h>

#include "twins.h"

typedef struct large_set {
  raw_set *host; /* pageable */
  float *pinned[2];
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
  CUdeviceptr device[2];
  raw_block slab_block, device_block;
} s;

static void mapped_pair(float **pair, raw_block *block, float a) {
  CUdeviceptr addresses[2];
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
    mapped_pair(s.sets[i].pinned, &s.sets[i].block, host[i].a);
    memcpy(s.sets[i].pinned[0], host[i].inputs[0], s.bytes);
  }
  mapped_pair(s.slab, &s.slab_block, host[0].a);
  for (uint32_t j = 0; j < 2; j++) CU(cuMemAlloc(&s.device[j], s.bytes));
  CUgraph graph;
  s.kernel.params.kernelParams = s.slab_block.pointers;
  CU(cuGraphCreate(&graph, 0));
  CU(cuGraphAddKernelNode(&s.node, graph, NULL, 0, &s.kernel.params));
  s.exec = raw_instantiate(graph, s.stream);
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

static void copies(const void *in, void *out, float a) {
  CU(cuMemcpyHtoDAsync(s.device[0], in, s.bytes, s.stream));
  raw_fill_block(&s.device_block, &s.kernel.layout, s.device, a, s.kernel.n);
  run(&s.device_block);
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

static float *result_of(const raw_twin *t, uint32_t set) {
  const bool in_place = t->call == pinned || t->call == copies_pinned;
  return in_place ? s.sets[set].pinned[1] : s.sets[set].host->result;
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
    {"large_zero_copy_pinned", pinned, false, true, false},
    {"large_zero_copy_pageable", pageable, false, true, false},
    {"large_copies_pinned", copies_pinned, false, true, false},
    {"large_copies_pageable", copies_pageable, false, true, false},
};

const raw_group large_group = {false,    open, sets,  trips,           NULL, wait, poison,
                               is_right, NULL, TWINS, RAW_COUNT(TWINS)};
