/* What stands around launches: a point in a stream, a wait with nothing to wait for, copies of 4
 * KiB from and to page-locked memory, the launch of a graph of kernels. */
#include <string.h>

#include "twins.h"

enum { GRAPH_NODES = 100 };

typedef struct door_set {
  raw_set *host;
  CUdeviceptr device[3];
  float *pinned[2]; /* source, destination */
} door_set;

static struct {
  raw_kernel kernel;
  door_set *sets;
  size_t bytes;
  CUstream stream;
  CUevent event;
  CUgraphExec exec; /* of set 0 */
} s;

static void open_set(door_set *set, raw_set *host) {
  set->host = host;
  for (uint32_t j = 0; j < 3; j++) CU(cuMemAlloc(&set->device[j], s.bytes));
  for (uint32_t j = 0; j < 2; j++) {
    CU(cuMemHostAlloc((void **)&set->pinned[j], s.bytes, 0));
    CU(cuMemcpyHtoD(set->device[j], host->inputs[j], s.bytes));
    memcpy(set->pinned[j], host->expected, s.bytes);
  }
}

static void record_graph(const raw_options *o) {
  CUgraph graph;
  CUgraphNode last = NULL;
  raw_block block;
  raw_fill_block(&block, &s.kernel.layout, s.sets[0].device, s.sets[0].host->a, o->elements);
  s.kernel.params.kernelParams = block.pointers;
  CU(cuGraphCreate(&graph, 0));
  for (uint32_t i = 0; i < GRAPH_NODES; i++) {
    CUgraphNode node;
    CU(cuGraphAddKernelNode(&node, graph, &last, i == 0 ? 0 : 1, &s.kernel.params));
    last = node;
  }
  s.exec = raw_instantiate(graph);
}

static void open(const raw_options *o) {
  raw_load_kernel(&s.kernel, o->folder, "saxpy", o->elements);
  CU(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
  CU(cuEventCreate(&s.event, CU_EVENT_DEFAULT));
  s.bytes = o->elements * sizeof(float);
  raw_set *host = raw_read_sets(o->folder, "saxpy", o->sets, o->elements, 2);
  s.sets = raw_alloc(o->sets * sizeof *s.sets);
  for (uint32_t i = 0; i < o->sets; i++) open_set(&s.sets[i], &host[i]);
  record_graph(o);
}

static void wait(void) { CU(cuStreamSynchronize(s.stream)); }

static void record(uint32_t set) {
  (void)set;
  CU(cuEventRecord(s.event, s.stream));
}

static void synchronize(uint32_t set) {
  (void)set;
  wait();
}

static void in(uint32_t set) {
  CU(cuMemcpyHtoDAsync(s.sets[set].device[2], s.sets[set].pinned[0], s.bytes, s.stream));
  wait();
}

static void out(uint32_t set) {
  CU(cuMemcpyDtoHAsync(s.sets[set].pinned[1], s.sets[set].device[2], s.bytes, s.stream));
  wait();
}

static void replay(uint32_t set) {
  (void)set;
  CU(cuGraphLaunch(s.exec, s.stream));
}

/* What has no result leaves the one that is there. */
static void poison(const raw_twin *t, uint32_t set) {
  const door_set *at = &s.sets[set];
  memset(at->pinned[1], RAW_POISON, s.bytes);
  if (t->call == in || t->call == replay)
    CU(cuMemsetD8Async(at->device[2], RAW_POISON, s.bytes, s.stream));
  else
    CU(cuMemcpyHtoDAsync(at->device[2], at->pinned[0], s.bytes, s.stream));
  wait();
}

static bool is_right(const raw_twin *t, uint32_t set) {
  const door_set *at = &s.sets[set];
  if (t->call == record) return cu.call_cuEventQuery(s.event) == CUDA_SUCCESS;
  if (t->call == synchronize) return cu.call_cuStreamQuery(s.stream) == CUDA_SUCCESS;
  if (t->call != out) CU(cuMemcpyDtoH(at->pinned[1], at->device[2], s.bytes));
  return memcmp(at->pinned[1], at->host->expected, s.bytes) == 0;
}

static uint32_t sets(const raw_options *o) { return o->sets; }
static uint32_t trips(const raw_options *o) { return o->trips; }

static const raw_twin TWINS[] = {
    {"event_record", record, true, false, false, false},
    {"idle_synchronize", synchronize, false, false, false, false},
    {"small_h2d", in, false, true, false, false},
    {"small_d2h", out, false, true, false, false},
    {"graph_enqueue", replay, false, false, false, true},
};

const raw_group doors_group = {true,     open, sets,  trips,           NULL, wait, poison,
                               is_right, NULL, TWINS, RAW_COUNT(TWINS)};
