/* saxpy on 4 KiB arrays: enqueues, round trips, and host arrays in and out. */
#include <string.h>

#include "twins.h"

/* One input set in every kind of memory that a twin uses. */
typedef struct small_set {
  raw_set *host;
  CUdeviceptr device[3];
  float *pinned[3]; /* mapped; what host_dispatch_pinned gets from its caller */
  raw_block device_block, pinned_block;
} small_set;

static struct {
  raw_kernel kernel;
  small_set *sets;
  size_t bytes;
  CUstream stream;
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec exec;
  float *mapped[3]; /* the slab of the twins that copy */
  CUdeviceptr mapped_address[3], staged[3];
  raw_block block, last_block;
} s;

static void *mapped(CUdeviceptr *address_out, size_t bytes) {
  void *memory = NULL;
  CU(cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_DEVICEMAP));
  CU(cuMemHostGetDevicePointer(address_out, memory, 0));
  return memory;
}

static void open_set(small_set *set, raw_set *host, const raw_options *o) {
  CUdeviceptr pinned[3];
  set->host = host;
  for (uint32_t j = 0; j < 3; j++) {
    CU(cuMemAlloc(&set->device[j], s.bytes));
    set->pinned[j] = mapped(&pinned[j], s.bytes);
  }
  for (uint32_t j = 0; j < 2; j++) {
    CU(cuMemcpyHtoD(set->device[j], host->inputs[j], s.bytes));
    memcpy(set->pinned[j], host->inputs[j], s.bytes);
  }
  raw_fill_block(&set->device_block, &s.kernel.layout, set->device, host->a, o->elements);
  raw_fill_block(&set->pinned_block, &s.kernel.layout, pinned, host->a, o->elements);
}

static void open(const raw_options *o) {
  raw_load_kernel(&s.kernel, o->folder, "saxpy", o->elements);
  CU(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
  s.bytes = o->elements * sizeof(float);
  raw_set *host = raw_read_sets(o->folder, "saxpy", o->sets, o->elements, 2);
  s.sets = raw_alloc(o->sets * sizeof *s.sets);
  for (uint32_t i = 0; i < o->sets; i++) open_set(&s.sets[i], &host[i], o);
  for (uint32_t j = 0; j < 3; j++) {
    s.mapped[j] = mapped(&s.mapped_address[j], s.bytes);
    CU(cuMemAlloc(&s.staged[j], s.bytes));
  }
  s.kernel.params.kernelParams = s.sets[0].device_block.pointers;
  CU(cuGraphCreate(&s.graph, 0));
  CU(cuGraphAddKernelNode(&s.node, s.graph, NULL, 0, &s.kernel.params));
  s.exec = raw_instantiate(s.graph);
}

static void patch(raw_block *block) {
  s.kernel.params.kernelParams = block->pointers;
  CU(cuGraphExecKernelNodeSetParams(s.exec, s.node, &s.kernel.params));
}

/* Every series starts from a graph whose arguments are those of set 0. */
static void reset(void) {
  patch(&s.sets[0].device_block);
  memset(&s.last_block, 0, sizeof s.last_block);
}

static void wait(void) { CU(cuStreamSynchronize(s.stream)); }

static void wait_polling(void) {
  CUresult result;
  do result = cu.call_cuStreamQuery(s.stream);
  while (result == CUDA_ERROR_NOT_READY);
  raw_check(result, "cuStreamQuery");
}

/* ---- device arrays -------------------------------------------------------------------------- */

static void kernel(uint32_t set) { raw_launch(&s.kernel, &s.sets[set].device_block, s.stream); }

static void graph_same(uint32_t set) {
  (void)set;
  CU(cuGraphLaunch(s.exec, s.stream));
}

static void graph_changed(uint32_t set) {
  patch(&s.sets[set].device_block);
  CU(cuGraphLaunch(s.exec, s.stream));
}

static void kernel_sync(uint32_t set) {
  kernel(set);
  wait();
}

static void graph_same_sync(uint32_t set) {
  graph_same(set);
  wait();
}

static void graph_changed_sync(uint32_t set) {
  graph_changed(set);
  wait();
}

/* ---- host to host --------------------------------------------------------------------------- */

/* Without copies of the driver's: the kernel reads and writes mapped memory. */
static void zero_copy_enqueue(const raw_set *host) {
  for (uint32_t j = 0; j < 2; j++) memcpy(s.mapped[j], host->inputs[j], s.bytes);
  raw_fill_block(&s.block, &s.kernel.layout, s.mapped_address, host->a, s.kernel.n);
  if (memcmp(s.block.bytes, s.last_block.bytes, sizeof s.block.bytes) != 0) {
    s.last_block = s.block;
    patch(&s.block);
  }
  CU(cuGraphLaunch(s.exec, s.stream));
}

static void zero_copy(uint32_t set) {
  zero_copy_enqueue(s.sets[set].host);
  wait();
  memcpy(s.sets[set].host->result, s.mapped[2], s.bytes);
}

static void zero_copy_polling(uint32_t set) {
  zero_copy_enqueue(s.sets[set].host);
  wait_polling();
  memcpy(s.sets[set].host->result, s.mapped[2], s.bytes);
}

/* Nor of the host's: the caller's own arrays are page-locked. */
static void pinned(uint32_t set) {
  patch(&s.sets[set].pinned_block);
  CU(cuGraphLaunch(s.exec, s.stream));
  wait();
}

static void pinned_polling(uint32_t set) {
  patch(&s.sets[set].pinned_block);
  CU(cuGraphLaunch(s.exec, s.stream));
  wait_polling();
}

/* The usual way: staged in page-locked memory, copied in, launched, copied out. */
static void staged(uint32_t set) {
  const raw_set *host = s.sets[set].host;
  for (uint32_t j = 0; j < 2; j++) {
    memcpy(s.mapped[j], host->inputs[j], s.bytes);
    CU(cuMemcpyHtoDAsync(s.staged[j], s.mapped[j], s.bytes, s.stream));
  }
  raw_fill_block(&s.block, &s.kernel.layout, s.staged, host->a, s.kernel.n);
  raw_launch(&s.kernel, &s.block, s.stream);
  CU(cuMemcpyDtoHAsync(s.mapped[2], s.staged[2], s.bytes, s.stream));
  wait();
  memcpy(host->result, s.mapped[2], s.bytes);
}

/* ---- checking ------------------------------------------------------------------------------- */

static bool is_on_device(const raw_twin *t) { return strncmp(t->id, "host_", 5) != 0; }

static bool is_pinned(const raw_twin *t) { return t->call == pinned || t->call == pinned_polling; }

static void poison(const raw_twin *t, uint32_t set) {
  memset(s.sets[set].host->result, RAW_POISON, s.bytes);
  memset(s.sets[set].pinned[2], RAW_POISON, s.bytes);
  memset(s.mapped[2], RAW_POISON, s.bytes);
  if (!is_on_device(t)) return;
  CU(cuMemsetD8Async(s.sets[set].device[2], RAW_POISON, s.bytes, s.stream));
  wait();
}

static bool is_right(const raw_twin *t, uint32_t set) {
  const small_set *at = &s.sets[set];
  if (is_on_device(t)) CU(cuMemcpyDtoH(at->host->result, at->device[2], s.bytes));
  const float *found = is_pinned(t) ? at->pinned[2] : at->host->result;
  return memcmp(found, at->host->expected, s.bytes) == 0;
}

static uint32_t sets(const raw_options *o) { return o->sets; }
static uint32_t trips(const raw_options *o) { return o->trips; }

static const raw_twin TWINS[] = {
    {"launch_enqueue_kernel", kernel, true, true, false, false},
    {"launch_enqueue_graph_same", graph_same, true, false, false, false},
    {"launch_enqueue_graph_changed", graph_changed, true, true, false, false},
    {"launch_enqueue_graph_same_rested", graph_same, true, false, true, false},
    {"launch_enqueue_graph_changed_rested", graph_changed, true, true, true, false},
    {"launch_sync", kernel_sync, false, true, false, false},
    {"graph_launch_sync", graph_same_sync, false, false, false, false},
    {"graph_launch_sync_changed", graph_changed_sync, false, true, false, false},
    {"host_dispatch_zero_copy", zero_copy, false, true, false, false},
    {"host_dispatch_zero_copy_polling", zero_copy_polling, false, true, false, false},
    {"host_dispatch_pinned", pinned, false, true, false, false},
    {"host_dispatch_pinned_polling", pinned_polling, false, true, false, false},
    {"host_dispatch_staged", staged, false, true, false, false},
};

const raw_group small_group = {true,   open,     sets, trips, reset,           wait,
                               poison, is_right, NULL, TWINS, RAW_COUNT(TWINS)};
