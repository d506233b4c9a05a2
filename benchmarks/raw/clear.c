/* A kernel that leaves some elements unwritten, so that its output is cleared before every launch:
 * a graph of a memset node and a kernel node, or a memset on the stream and a graph of the kernel.
 */
#include <string.h>

#include "twins.h"

static struct {
  raw_kernel kernel;
  raw_set *sets;
  CUdeviceptr (*buffers)[3];
  raw_block *blocks;
  size_t bytes;
  CUcontext context;
  CUstream stream;
  CUgraphNode clear, node, single_node;
  CUgraphExec exec, single;
} s;

static CUDA_MEMSET_NODE_PARAMS clearing(uint32_t set) {
  return (CUDA_MEMSET_NODE_PARAMS){
      .dst = s.buffers[set][2], .elementSize = 4, .width = s.bytes / 4, .height = 1};
}

static void open(const raw_options *o) {
  CUdevice device;
  CU(cuDeviceGet(&device, 0));
  CU(cuDevicePrimaryCtxRetain(&s.context, device));
  raw_load_kernel(&s.kernel, o->folder, "select", o->elements);
  CU(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
  s.bytes = o->elements * sizeof(float);
  s.sets = raw_read_sets(o->folder, "select", o->sets, o->elements, 2);
  s.buffers = raw_alloc(o->sets * sizeof *s.buffers);
  s.blocks = raw_alloc(o->sets * sizeof *s.blocks);
  for (uint32_t i = 0; i < o->sets; i++) {
    for (uint32_t j = 0; j < 3; j++) CU(cuMemAlloc(&s.buffers[i][j], s.bytes));
    for (uint32_t j = 0; j < 2; j++)
      CU(cuMemcpyHtoD(s.buffers[i][j], s.sets[i].inputs[j], s.bytes));
    raw_fill_block(&s.blocks[i], &s.kernel.layout, s.buffers[i], s.sets[i].a, o->elements);
  }
  CUgraph graph, single;
  const CUDA_MEMSET_NODE_PARAMS clear = clearing(0);
  s.kernel.params.kernelParams = s.blocks[0].pointers;
  CU(cuGraphCreate(&graph, 0));
  CU(cuGraphAddMemsetNode(&s.clear, graph, NULL, 0, &clear, s.context));
  CU(cuGraphAddKernelNode(&s.node, graph, &s.clear, 1, &s.kernel.params));
  s.exec = raw_instantiate(graph);
  CU(cuGraphCreate(&single, 0));
  CU(cuGraphAddKernelNode(&s.single_node, single, NULL, 0, &s.kernel.params));
  s.single = raw_instantiate(single);
}

static void patch(uint32_t set) {
  const CUDA_MEMSET_NODE_PARAMS clear = clearing(set);
  s.kernel.params.kernelParams = s.blocks[set].pointers;
  CU(cuGraphExecMemsetNodeSetParams(s.exec, s.clear, &clear, s.context));
  CU(cuGraphExecKernelNodeSetParams(s.exec, s.node, &s.kernel.params));
}

static void patch_single(uint32_t set) {
  s.kernel.params.kernelParams = s.blocks[set].pointers;
  CU(cuGraphExecKernelNodeSetParams(s.single, s.single_node, &s.kernel.params));
}

static void reset(void) {
  patch(0);
  patch_single(0);
}

static void wait(void) { CU(cuStreamSynchronize(s.stream)); }

static void graph_same(uint32_t set) {
  (void)set;
  CU(cuGraphLaunch(s.exec, s.stream));
}

static void graph_changed(uint32_t set) {
  patch(set);
  CU(cuGraphLaunch(s.exec, s.stream));
}

static void memset_same(uint32_t set) {
  CU(cuMemsetD8Async(s.buffers[set][2], 0, s.bytes, s.stream));
  CU(cuGraphLaunch(s.single, s.stream));
}

static void memset_changed(uint32_t set) {
  patch_single(set);
  memset_same(set);
}

static void poison(const raw_twin *t, uint32_t set) {
  (void)t;
  CU(cuMemsetD8Async(s.buffers[set][2], RAW_POISON, s.bytes, s.stream));
  wait();
}

static bool is_right(const raw_twin *t, uint32_t set) {
  (void)t;
  CU(cuMemcpyDtoH(s.sets[set].result, s.buffers[set][2], s.bytes));
  return memcmp(s.sets[set].result, s.sets[set].expected, s.bytes) == 0;
}

static uint32_t sets(const raw_options *o) { return o->sets; }
static uint32_t trips(const raw_options *o) { return o->trips; }

static const raw_twin TWINS[] = {
    {"clear_graph_same", graph_same, true, false, false, false},
    {"clear_graph_changed", graph_changed, true, true, false, false},
    {"clear_memset_same", memset_same, true, false, false, false},
    {"clear_memset_changed", memset_changed, true, true, false, false},
};

const raw_group clear_group = {true,   open,     sets, trips, reset,           wait,
                               poison, is_right, NULL, TWINS, RAW_COUNT(TWINS)};
