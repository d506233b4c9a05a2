/* The twins: what the driver itself charges for each task that the Python benchmarks measure.
 *
 * Runs the PTX it is given, with the parameter layout it is given, on the input sets it is given,
 * against any library with the driver API, and prints one JSON line per twin. Inputs rotate among
 * the sets; outputs are poisoned before and compared bit by bit after each series, and on a sample
 * in between; a wrong bit ends the run without a figure. README.md says what each twin does. */
#define _POSIX_C_SOURCE 200809L
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raw_support.h"

/* A check disturbs the samples after it: rare enough to stay clear of the 99th percentile. */
enum { POISON = 0xA5, CHECK_EVERY = 256 };

typedef struct options {
  const char *driver, *ptx, *entry, *layout, *data, *only;
  uint32_t block, elements, sets;
  uint32_t blocks, block_calls, trips; /* samples and calls of a series */
} options;

typedef struct bench {
  options options;
  raw_layout layout;
  raw_set *sets;
  size_t bytes; /* of one buffer */
  CUstream stream;
  CUfunction function;
  CUDA_KERNEL_NODE_PARAMS params;
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec exec;
  float *mapped[3];
  CUdeviceptr mapped_address[3];
  float *pinned[3];
  CUdeviceptr staged[3];
  raw_block host_block, last_host_block;
  uint64_t *samples;
} bench;

/* ---- set-up --------------------------------------------------------------------------------- */

static void open_device(bench *b) {
  raw_open(b->options.driver);
  CUdevice device;
  CUcontext context;
  int version = 0;
  char name[256] = "";
  CU(cuInit(0));
  CU(cuDriverGetVersion(&version));
  CU(cuDeviceGet(&device, 0));
  CU(cuDeviceGetName(name, (int)sizeof name, device));
  CU(cuDevicePrimaryCtxRetain(&context, device));
  CU(cuCtxSetCurrent(context));
  CU(cuStreamCreate(&b->stream, CU_STREAM_NON_BLOCKING));
  uint64_t ticks[1001];
  for (uint32_t i = 0; i < 1001; i++) ticks[i] = raw_now_ns();
  printf("{\"device\": \"%s\", \"driver_version\": %d, \"timer_ns\": %.1f}\n", name, version,
         (double)(ticks[1000] - ticks[0]) / 1000);
}

static void load_kernel(bench *b) {
  CUmodule module;
  char *text = raw_read(b->options.ptx, NULL);
  CU(cuModuleLoadData(&module, text));
  CU(cuModuleGetFunction(&b->function, module, b->options.entry));
  free(text);
  b->params = (CUDA_KERNEL_NODE_PARAMS){
      .func = b->function,
      .gridDimX = (b->options.elements + b->options.block - 1) / b->options.block,
      .gridDimY = 1,
      .gridDimZ = 1,
      .blockDimX = b->options.block,
      .blockDimY = 1,
      .blockDimZ = 1,
  };
}

static void make_buffers(bench *b) {
  const options *o = &b->options;
  b->bytes = o->elements * sizeof(float);
  b->sets = raw_read_sets(o->data, o->sets, o->elements);
  for (uint32_t i = 0; i < o->sets; i++) {
    raw_set *set = &b->sets[i];
    for (uint32_t j = 0; j < 3; j++) CU(cuMemAlloc(&set->buffers[j], b->bytes));
    CU(cuMemcpyHtoDAsync(set->buffers[0], set->x, b->bytes, b->stream));
    CU(cuMemcpyHtoDAsync(set->buffers[1], set->y, b->bytes, b->stream));
    raw_fill_block(&set->block, &b->layout, set->buffers, set->a, o->elements);
  }
  for (uint32_t j = 0; j < 3; j++) {
    CU(cuMemHostAlloc((void **)&b->mapped[j], b->bytes, CU_MEMHOSTALLOC_DEVICEMAP));
    CU(cuMemHostGetDevicePointer(&b->mapped_address[j], b->mapped[j], 0));
    CU(cuMemHostAlloc((void **)&b->pinned[j], b->bytes, CU_MEMHOSTALLOC_DEVICEMAP));
    CU(cuMemAlloc(&b->staged[j], b->bytes));
  }
  CU(cuStreamSynchronize(b->stream));
}

/* A graph of the one kernel; every series starts from one whose arguments are those of set 0. */
static void make_graph(bench *b) {
  b->params.kernelParams = b->sets[0].block.pointers;
  CU(cuGraphCreate(&b->graph, 0));
  CU(cuGraphAddKernelNode(&b->node, b->graph, NULL, 0, &b->params));
  CU(cuGraphInstantiateWithFlags(&b->exec, b->graph, 0));
  CU(cuGraphUpload(b->exec, b->stream));
  CU(cuStreamSynchronize(b->stream));
}

static void reset_graph(bench *b) {
  b->params.kernelParams = b->sets[0].block.pointers;
  CU(cuGraphExecKernelNodeSetParams(b->exec, b->node, &b->params));
  memset(&b->last_host_block, 0, sizeof b->last_host_block);
}

/* ---- one call of each twin ------------------------------------------------------------------ */

static void launch(bench *b, void **pointers) {
  CU(cuLaunchKernel(b->function, b->params.gridDimX, 1, 1, b->params.blockDimX, 1, 1, 0, b->stream,
                    pointers, NULL));
}

static void kernel(bench *b, raw_set *set) { launch(b, set->block.pointers); }

static void graph_same(bench *b, raw_set *set) {
  (void)set;
  CU(cuGraphLaunch(b->exec, b->stream));
}

static void graph_changed(bench *b, raw_set *set) {
  b->params.kernelParams = set->block.pointers;
  CU(cuGraphExecKernelNodeSetParams(b->exec, b->node, &b->params));
  CU(cuGraphLaunch(b->exec, b->stream));
}

static void wait(bench *b) { CU(cuStreamSynchronize(b->stream)); }

static void wait_polling(bench *b) {
  CUresult result;
  do result = cu.call_cuStreamQuery(b->stream);
  while (result == CUDA_ERROR_NOT_READY);
  raw_check(result, "cuStreamQuery");
}

static void kernel_sync(bench *b, raw_set *set) {
  kernel(b, set);
  wait(b);
}

static void graph_same_sync(bench *b, raw_set *set) {
  graph_same(b, set);
  wait(b);
}

static void graph_changed_sync(bench *b, raw_set *set) {
  graph_changed(b, set);
  wait(b);
}

/* Host to host without copies: the kernel reads and writes mapped memory. */
static void zero_copy_enqueue(bench *b, raw_set *set) {
  memcpy(b->mapped[0], set->x, b->bytes);
  memcpy(b->mapped[1], set->y, b->bytes);
  raw_fill_block(&b->host_block, &b->layout, b->mapped_address, set->a, b->options.elements);
  if (memcmp(b->host_block.bytes, b->last_host_block.bytes, sizeof b->host_block.bytes) != 0) {
    b->last_host_block = b->host_block;
    b->params.kernelParams = b->host_block.pointers;
    CU(cuGraphExecKernelNodeSetParams(b->exec, b->node, &b->params));
  }
  CU(cuGraphLaunch(b->exec, b->stream));
}

static void zero_copy(bench *b, raw_set *set) {
  zero_copy_enqueue(b, set);
  wait(b);
  memcpy(set->result, b->mapped[2], b->bytes);
}

static void zero_copy_polling(bench *b, raw_set *set) {
  zero_copy_enqueue(b, set);
  wait_polling(b);
  memcpy(set->result, b->mapped[2], b->bytes);
}

/* Host to host the usual way: staged in page-locked memory, copied in, launched, copied out. */
static void staged(bench *b, raw_set *set) {
  memcpy(b->pinned[0], set->x, b->bytes);
  memcpy(b->pinned[1], set->y, b->bytes);
  CU(cuMemcpyHtoDAsync(b->staged[0], b->pinned[0], b->bytes, b->stream));
  CU(cuMemcpyHtoDAsync(b->staged[1], b->pinned[1], b->bytes, b->stream));
  raw_fill_block(&b->host_block, &b->layout, b->staged, set->a, b->options.elements);
  launch(b, b->host_block.pointers);
  CU(cuMemcpyDtoHAsync(b->pinned[2], b->staged[2], b->bytes, b->stream));
  wait(b);
  memcpy(set->result, b->pinned[2], b->bytes);
}

/* ---- checking ------------------------------------------------------------------------------- */

typedef struct twin {
  const char *id;
  void (*call)(bench *b, raw_set *set);
  bool blocks;    /* timed in blocks that are drained outside of the timing */
  bool rotates;   /* uses all sets, not only the first */
  bool on_device; /* inputs and outputs are the sets' device buffers */
} twin;

static void poison(bench *b, const twin *t, raw_set *set) {
  memset(set->result, POISON, b->bytes);
  if (t->on_device) {
    CU(cuMemsetD8Async(set->buffers[2], POISON, b->bytes, b->stream));
    wait(b);
  }
}

static void verify(bench *b, const twin *t, raw_set *set) {
  if (t->on_device) {
    CU(cuMemcpyDtoHAsync(set->result, set->buffers[2], b->bytes, b->stream));
    wait(b);
  }
  if (memcmp(set->result, set->expected, b->bytes) != 0)
    raw_fail("%s: wrong result in set %u", t->id, (unsigned)(set - b->sets));
}

/* On a sample: compare what the series wrote, poison it, and let the twin write it again. */
static void spot_check(bench *b, const twin *t, raw_set *set) {
  verify(b, t, set);
  poison(b, t, set);
  t->call(b, set);
  wait(b);
}

/* ---- series --------------------------------------------------------------------------------- */

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t sets_of(const bench *b, const twin *t) { return t->rotates ? b->options.sets : 1; }

static void series_of_blocks(bench *b, const twin *t, uint32_t blocks) {
  const uint32_t calls = b->options.block_calls, sets = sets_of(b, t);
  for (uint32_t i = 0; i < blocks; i++) {
    const uint64_t begin = raw_now_ns();
    for (uint32_t j = 0; j < calls; j++) t->call(b, &b->sets[j % sets]);
    b->samples[i] = raw_now_ns() - begin;
    wait(b);
    if (i % CHECK_EVERY == CHECK_EVERY - 1) spot_check(b, t, &b->sets[(calls - 1) % sets]);
  }
}

static void series_of_trips(bench *b, const twin *t, uint32_t trips) {
  const uint32_t sets = sets_of(b, t);
  for (uint32_t i = 0; i < trips; i++) {
    raw_set *set = &b->sets[i % sets];
    const uint64_t begin = raw_now_ns();
    t->call(b, set);
    b->samples[i] = raw_now_ns() - begin;
    if (i % CHECK_EVERY == CHECK_EVERY - 1) spot_check(b, t, set);
  }
}

static void measure(bench *b, const twin *t) {
  const options *o = &b->options;
  const uint32_t count = t->blocks ? o->blocks : o->trips;
  const uint32_t calls = t->blocks ? o->block_calls : 1;
  void (*series)(bench *, const twin *, uint32_t) = t->blocks ? series_of_blocks : series_of_trips;
  reset_graph(b);
  series(b, t, (count + 9) / 10); /* warm-up */
  for (uint32_t i = 0; i < o->sets; i++) poison(b, t, &b->sets[i]);
  memset(b->mapped[2], POISON, b->bytes);
  memset(b->pinned[2], POISON, b->bytes);
  series(b, t, count);
  const uint32_t used = least(sets_of(b, t), t->blocks ? calls : count);
  for (uint32_t i = 0; i < used; i++) verify(b, t, &b->sets[i]);
  raw_report(t->id, b->samples, count, calls);
}

static const twin TWINS[] = {
    {"launch_enqueue_kernel", kernel, true, true, true},
    {"launch_enqueue_graph_same", graph_same, true, false, true},
    {"launch_enqueue_graph_changed", graph_changed, true, true, true},
    {"launch_sync", kernel_sync, false, true, true},
    {"graph_launch_sync", graph_same_sync, false, false, true},
    {"graph_launch_sync_changed", graph_changed_sync, false, true, true},
    {"host_dispatch_zero_copy", zero_copy, false, true, false},
    {"host_dispatch_zero_copy_polling", zero_copy_polling, false, true, false},
    {"host_dispatch_staged", staged, false, true, false},
};

/* ---- command line --------------------------------------------------------------------------- */

static uint32_t number(const char *text) {
  char *end = NULL;
  const unsigned long value = strtoul(text, &end, 10);
  if (*text == 0 || *end != 0 || value == 0 || value > 100000000) raw_fail("not a count: %s", text);
  return (uint32_t)value;
}

static options parse(int count, char **values) {
  options o = {.driver = "libcuda.so.1",
               .block = 256,
               .elements = 1024,
               .sets = 16,
               .blocks = 1000,
               .block_calls = 100,
               .trips = 10000};
  static const struct option NAMES[] = {
      {"driver", 1, NULL, 'd'}, {"ptx", 1, NULL, 'p'},      {"entry", 1, NULL, 'e'},
      {"layout", 1, NULL, 'l'}, {"data", 1, NULL, 'f'},     {"only", 1, NULL, 'o'},
      {"block", 1, NULL, 'b'},  {"elements", 1, NULL, 'n'}, {"sets", 1, NULL, 's'},
      {"quick", 0, NULL, 'q'},  {NULL, 0, NULL, 0}};
  for (int flag; (flag = getopt_long(count, values, "", NAMES, NULL)) != -1;) {
    if (flag == 'd')
      o.driver = optarg;
    else if (flag == 'p')
      o.ptx = optarg;
    else if (flag == 'e')
      o.entry = optarg;
    else if (flag == 'l')
      o.layout = optarg;
    else if (flag == 'f')
      o.data = optarg;
    else if (flag == 'o')
      o.only = optarg;
    else if (flag == 'b')
      o.block = number(optarg);
    else if (flag == 'n')
      o.elements = number(optarg);
    else if (flag == 's')
      o.sets = number(optarg);
    else if (flag == 'q')
      o.blocks = 2, o.block_calls = 2, o.trips = 4;
    else
      exit(2);
  }
  if (o.ptx == NULL || o.entry == NULL || o.layout == NULL || o.data == NULL)
    raw_fail("--ptx, --entry, --layout and --data are needed");
  return o;
}

int main(int count, char **values) {
  static bench b;
  b.options = parse(count, values);
  b.layout = raw_parse_layout(b.options.layout);
  const options *o = &b.options;
  b.samples = calloc(o->blocks > o->trips ? o->blocks : o->trips, sizeof *b.samples);
  if (b.samples == NULL) raw_fail("out of memory");
  open_device(&b);
  load_kernel(&b);
  make_buffers(&b);
  make_graph(&b);
  for (size_t i = 0; i < sizeof TWINS / sizeof *TWINS; i++)
    if (o->only == NULL || strcmp(o->only, TWINS[i].id) == 0) measure(&b, &TWINS[i]);
  return 0;
}
