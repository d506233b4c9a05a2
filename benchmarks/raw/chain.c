/* A graph of many saxpy kernels, each of which reads what the one before wrote:
 * y -> t0 -> t1 -> t0 ..., one graph for each input set, launched and waited for. */
#include <string.h>

#include "twins.h"

enum { CHAINS = 4, BUFFERS = 4 }; /* x, y, t0, t1 */

static struct {
  raw_kernel kernel;
  raw_set *sets;
  CUdeviceptr buffers[CHAINS][BUFFERS];
  CUgraphExec execs[CHAINS];
  uint32_t count, nodes;
  size_t bytes;
  CUstream stream;
} s;

static CUdeviceptr from(uint32_t set, uint32_t node) {
  return s.buffers[set][node == 0 ? 1 : 2 + (node + 1) % 2];
}

static CUdeviceptr to(uint32_t set, uint32_t node) { return s.buffers[set][2 + node % 2]; }

/* The driver copies the parameters into each node. */
static void record(uint32_t set) {
  CUgraph graph;
  CUgraphNode last = NULL;
  CU(cuGraphCreate(&graph, 0));
  for (uint32_t i = 0; i < s.nodes; i++) {
    raw_block block;
    CUgraphNode node;
    const CUdeviceptr buffers[] = {s.buffers[set][0], from(set, i), to(set, i)};
    raw_fill_block(&block, &s.kernel.layout, buffers, s.sets[set].a, s.kernel.n);
    s.kernel.params.kernelParams = block.pointers;
    CU(cuGraphAddKernelNode(&node, graph, &last, i == 0 ? 0 : 1, &s.kernel.params));
    last = node;
  }
  s.execs[set] = raw_instantiate(graph);
}

static void open(const raw_options *o) {
  raw_load_kernel(&s.kernel, o->folder, "saxpy", o->elements);
  CU(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
  s.bytes = o->elements * sizeof(float);
  s.nodes = o->nodes;
  s.count = o->sets < CHAINS ? o->sets : CHAINS;
  s.sets = raw_read_sets(o->folder, "chain", s.count, o->elements, 2);
  for (uint32_t i = 0; i < s.count; i++) {
    for (uint32_t j = 0; j < BUFFERS; j++) CU(cuMemAlloc(&s.buffers[i][j], s.bytes));
    for (uint32_t j = 0; j < 2; j++)
      CU(cuMemcpyHtoD(s.buffers[i][j], s.sets[i].inputs[j], s.bytes));
    record(i);
  }
}

static void wait(void) { CU(cuStreamSynchronize(s.stream)); }

static void replay(uint32_t set) {
  CU(cuGraphLaunch(s.execs[set], s.stream));
  wait();
}

static void poison(const raw_twin *t, uint32_t set) {
  (void)t;
  for (uint32_t j = 2; j < BUFFERS; j++)
    CU(cuMemsetD8Async(s.buffers[set][j], RAW_POISON, s.bytes, s.stream));
  wait();
}

static bool is_right(const raw_twin *t, uint32_t set) {
  (void)t;
  CU(cuMemcpyDtoH(s.sets[set].result, to(set, s.nodes - 1), s.bytes));
  return memcmp(s.sets[set].result, s.sets[set].expected, s.bytes) == 0;
}

static uint32_t sets(const raw_options *o) { return o->sets < CHAINS ? o->sets : CHAINS; }
static uint32_t trips(const raw_options *o) { return o->long_trips; }

static const raw_twin TWINS[] = {{"graph_chain", replay, false, true, false, false}};

const raw_group chain_group = {true,     open, sets,  trips,           NULL, wait, poison,
                               is_right, NULL, TWINS, RAW_COUNT(TWINS)};
