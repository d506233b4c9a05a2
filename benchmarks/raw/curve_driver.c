/* The floors of curves: the least that the driver takes for what harness/curves measures.
 *
 * `curve_driver --driver LIB --folder DIR --seconds S CURVE:WAY:ITEMS ...` prints a line for each.
 * Kernels add all of their arguments, so that a result shows that each of them came. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { ELEMENTS = 1024, BYTES = 4 * ELEMENTS, KNOWN = 64 << 10 };
enum { CALLS = 100, LEAST = 3, MOST = 4000 }; /* in a block; samples */

static double seconds;
static CUcontext context;
static const char *folder;

/* ---- kernels -------------------------------------------------------------------------------- */

typedef struct kernel {
  CUfunction function;
  CUDA_KERNEL_NODE_PARAMS params;
  uint32_t count, buffers;
  raw_parameter *parameters;
} kernel;

/* A parameter block, and where in it each parameter is. */
typedef struct block {
  uint8_t *bytes;
  void **pointers;
} block;

static void parse_parameters(kernel *k, const char *text) {
  k->parameters = raw_alloc((strlen(text) / 2 + 1) * sizeof *k->parameters);
  for (int used = 0; *text != 0; text += used) {
    char kind[16];
    raw_parameter *p = &k->parameters[k->count++];
    if (sscanf(text, "%15[a-z]:%u:%u:%u%n", kind, &p->index, &p->offset, &p->size, &used) != 4)
      raw_fail("layout not understood at %s", text);
    p->kind = strcmp(kind, "buffer") == 0   ? RAW_BUFFER
              : strcmp(kind, "scalar") == 0 ? RAW_SCALAR
                                            : RAW_SIZE;
    k->buffers += p->kind == RAW_BUFFER;
    if (text[used] == ',') used++;
  }
}

static kernel load(const char *name) {
  kernel k = {0};
  CUmodule module;
  char entry[128];
  unsigned threads = 0;
  int used = 0;
  char *words = raw_read(raw_path(folder, name, ".layout"), NULL);
  if (sscanf(words, "%127s %u %n", entry, &threads, &used) != 2 || threads == 0)
    raw_fail("the layout of %s is not understood", name);
  words[strcspn(words, "\n")] = 0;
  parse_parameters(&k, words + used);
  char *ptx = raw_read(raw_path(folder, name, ".ptx"), NULL);
  CU(cuModuleLoadData(&module, ptx));
  CU(cuModuleGetFunction(&k.function, module, entry));
  free(ptx);
  free(words);
  k.params.func = k.function;
  k.params.gridDimX = threads == 1 ? 1 : (ELEMENTS + threads - 1) / threads;
  k.params.blockDimX = threads;
  k.params.gridDimY = k.params.gridDimZ = k.params.blockDimY = k.params.blockDimZ = 1;
  return k;
}

/* Scalar i is i % 5 + more. */
static block fill(const kernel *k, const CUdeviceptr *buffers, float more) {
  block b = {raw_alloc(32768), raw_alloc((k->count + 1) * sizeof(void *))};
  for (uint32_t i = 0; i < k->count; i++) {
    const raw_parameter *p = &k->parameters[i];
    const float scalar = (float)(p->index % 5) + more;
    uint64_t value = ELEMENTS;
    if (p->kind == RAW_BUFFER) value = buffers[p->index];
    if (p->kind == RAW_SCALAR) memcpy(&value, &scalar, sizeof scalar);
    memcpy(b.bytes + p->offset, &value, p->size);
    b.pointers[i] = b.bytes + p->offset;
  }
  return b;
}

typedef struct graph {
  CUgraphNode node;
  CUgraphExec exec;
  CUDA_KERNEL_NODE_PARAMS params;
} graph;

static graph instantiate(const kernel *k, const block *b) {
  graph g = {.params = k->params};
  CUgraph whole;
  g.params.kernelParams = b->pointers;
  CU(cuGraphCreate(&whole, 0));
  CU(cuGraphAddKernelNode(&g.node, whole, NULL, 0, &g.params));
  g.exec = raw_instantiate(whole);
  return g;
}

static CUstream stream_make(void) {
  CUstream stream;
  CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

static CUdeviceptr array_of(float value) {
  float values[ELEMENTS];
  CUdeviceptr address;
  for (uint32_t i = 0; i < ELEMENTS; i++) values[i] = value;
  CU(cuMemAlloc(&address, BYTES));
  CU(cuMemcpyHtoD(address, values, BYTES));
  return address;
}

static void expect(const char *way, const float *values, float expected) {
  for (uint32_t i = 0; i < ELEMENTS; i++)
    if (values[i] != expected)
      raw_fail("%s: element %u is %g, not %g", way, i, (double)values[i], (double)expected);
}

static void expect_at(const char *way, CUdeviceptr address, float expected) {
  float values[ELEMENTS];
  CU(cuMemcpyDtoH(values, address, BYTES));
  expect(way, values, expected);
}

/* ---- measuring ------------------------------------------------------------------------------ */

typedef struct way {
  const char *curve, *name;
  uint32_t items, calls;
} way;

static uint64_t samples[MOST];
static uint32_t count;

/* Once the result is known to be right: each sample is of so many calls. */
static void report(const way *w, double calls) {
  for (uint32_t i = 1; i < count; i++) { /* by insertion: the median needs them in order */
    const uint64_t sample = samples[i];
    uint32_t at = i;
    for (; at > 0 && samples[at - 1] > sample; at--) samples[at] = samples[at - 1];
    samples[at] = sample;
  }
  printf("{\"curve\": \"%s\", \"way\": \"%s\", \"items\": %u, \"best_us\": %.4f, "
         "\"median_us\": %.4f, \"samples\": %u}\n",
         w->curve, w->name, w->items, (double)samples[0] / calls / 1e3,
         (double)samples[count / 2] / calls / 1e3, count);
  fflush(stdout);
}

/* `call(i)` so often in a block, which is drained outside of the timing. */
static void measure(const way *w, void (*call)(uint32_t), void (*drain)(void)) {
  for (uint32_t pass = 0; pass < 2; pass++) { /* the first is the warm-up */
    const uint64_t end = raw_now_ns() + (uint64_t)(seconds * (pass == 0 ? 0.2 : 1.0) * 1e9);
    for (count = 0; count < LEAST || (count < MOST && raw_now_ns() < end); count++) {
      const uint64_t begin = raw_now_ns();
      for (uint32_t i = 0; i < w->calls; i++) call(i);
      samples[count] = raw_now_ns() - begin;
      drain();
    }
  }
}

static CUstream main_stream;
static void drain_main(void) { CU(cuStreamSynchronize(main_stream)); }
static void drain_all(void) { CU(cuCtxSynchronize()); }
static void drain_nothing(void) {}

/* ---- arguments ------------------------------------------------------------------------------ */

static struct arguments {
  kernel kernel;
  block blocks[2], host;
  graph graph, host_graph;
  uint32_t inputs;
  float *from, *slab, *result;
} a;

static void launch_same(uint32_t i) {
  (void)i;
  CU(cuGraphLaunch(a.graph.exec, main_stream));
}

static void launch_changed(uint32_t i) {
  a.graph.params.kernelParams = a.blocks[i & 1].pointers;
  CU(cuGraphExecKernelNodeSetParams(a.graph.exec, a.graph.node, &a.graph.params));
  CU(cuGraphLaunch(a.graph.exec, main_stream));
}

static void launch_host(uint32_t i) {
  (void)i;
  for (uint32_t j = 0; j < a.inputs; j++)
    memcpy(a.slab + (size_t)j * ELEMENTS, a.from + (size_t)j * ELEMENTS, BYTES);
  CU(cuGraphLaunch(a.host_graph.exec, main_stream));
  CU(cuStreamSynchronize(main_stream));
  memcpy(a.result, a.slab + (size_t)a.inputs * ELEMENTS, BYTES);
}

static void open_host(uint32_t inputs) {
  void *slab;
  CUdeviceptr device, places[512];
  CU(cuMemHostAlloc(&slab, (size_t)(inputs + 1) * BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
  CU(cuMemHostGetDevicePointer(&device, slab, 0));
  for (uint32_t i = 0; i <= inputs; i++) places[i] = device + (uint64_t)i * BYTES;
  a.slab = slab;
  a.from = raw_alloc((size_t)inputs * BYTES);
  a.result = raw_alloc(BYTES);
  for (uint32_t i = 0; i < inputs * ELEMENTS; i++) a.from[i] = (float)(i / ELEMENTS % 7);
  a.host = fill(&a.kernel, places, 0);
  a.host_graph = instantiate(&a.kernel, &a.host);
}

static void measure_arguments(way w, bool of_buffers) {
  char name[64];
  CUdeviceptr places[2][512];
  float expected = 0;
  memset(&a, 0, sizeof a);
  snprintf(name, sizeof name, "%s_%u", w.curve, w.items);
  a.kernel = load(name);
  a.inputs = of_buffers ? w.items : 1;
  if (a.inputs > 511) raw_fail("%u buffers are too many", a.inputs);
  for (uint32_t i = 0; i < a.inputs; i++) {
    for (uint32_t set = 0; set < 2; set++) places[set][i] = array_of((float)(i % 7) + (float)set);
    expected += (float)(i % 7);
  }
  for (uint32_t i = 0; i < (of_buffers ? 0 : w.items); i++) expected += (float)(i % 5);
  places[0][a.inputs] = places[1][a.inputs] = array_of(-1);
  for (uint32_t set = 0; set < 2; set++) a.blocks[set] = fill(&a.kernel, places[set], (float)set);
  a.graph = instantiate(&a.kernel, &a.blocks[0]);
  if (strcmp(w.name, "host") == 0) {
    open_host(a.inputs);
    w.calls = 1;
    measure(&w, launch_host, drain_nothing);
    expect(w.name, a.result, expected);
    report(&w, 1);
    return;
  }
  const bool changed = strcmp(w.name, "changed") == 0;
  measure(&w, changed ? launch_changed : launch_same, drain_main);
  if (changed) launch_changed(0);
  drain_main();
  expect_at(w.name, places[0][a.inputs], expected);
  report(&w, w.calls);
}

/* ---- streams, threads, calls ---------------------------------------------------------------- */

typedef struct lane {
  CUstream stream;
  CUdeviceptr places[2];
  block block;
  graph graph;
  CUevent event;
  const way *way;
  uint32_t blocks;
  pthread_t thread;
} lane;

static lane *lanes;
static uint32_t lane_count, turn;
static pthread_barrier_t gate;

static void open_lanes(uint32_t count, bool streams) {
  const kernel k = load("buffers_1");
  lanes = raw_alloc(count * sizeof *lanes);
  lane_count = count;
  turn = 0;
  for (uint32_t i = 0; i < count; i++) {
    lane *l = &lanes[i];
    l->stream = streams ? stream_make() : main_stream;
    l->places[0] = i > 0 && !streams ? lanes[0].places[0] : array_of(1);
    l->places[1] = i > 0 && !streams ? lanes[0].places[1] : array_of(-1);
    l->block = fill(&k, l->places, 0);
    l->graph = instantiate(&k, &l->block);
    CU(cuEventCreate(&l->event, CU_EVENT_DISABLE_TIMING));
  }
}

static void next_own(uint32_t i) {
  (void)i;
  const lane *l = &lanes[turn];
  CU(cuGraphLaunch(l->graph.exec, l->stream));
  turn = turn + 1 == lane_count ? 0 : turn + 1;
}

/* Behind the launch before it, which was on another stream. */
static void next_shared(uint32_t i) {
  const lane *before = &lanes[turn == 0 ? lane_count - 1 : turn - 1], *l = &lanes[turn];
  if (lane_count > 1) {
    CU(cuEventRecord(before->event, before->stream));
    CU(cuStreamWaitEvent(l->stream, before->event, 0));
  }
  next_own(i);
}

static void allocate(uint32_t i) {
  CUdeviceptr address;
  (void)i;
  CU(cuMemAllocAsync(&address, KNOWN, main_stream));
  CU(cuMemFreeAsync(address, main_stream));
}

static bool has_pool(const way *w) {
  if (cu.call_cuMemAllocAsync != NULL) return true;
  printf("{\"curve\": \"%s\", \"way\": \"%s\", \"items\": %u, \"absent\": \"cuMemAllocAsync\"}\n",
         w->curve, w->name, w->items);
  return false;
}

static void measure_streams(way w) {
  if (strcmp(w.name, "allocation") == 0 && !has_pool(&w)) return;
  open_lanes(w.items, true);
  if (w.calls < w.items) w.calls = w.items;
  if (strcmp(w.name, "allocation") == 0) {
    measure(&w, allocate, drain_main);
    report(&w, w.calls);
    return;
  }
  measure(&w, strcmp(w.name, "own") == 0 ? next_own : next_shared, drain_all);
  for (uint32_t i = 0; i < w.items; i++) expect_at(w.name, lanes[i].places[1], 1);
  report(&w, w.calls);
}

static void measure_calls(way w) {
  open_lanes(w.items, false);
  if (w.items > w.calls) w.calls = w.items < 512 ? w.items : 512;
  measure(&w, next_own, drain_main);
  expect_at(w.name, lanes[0].places[1], 1);
  report(&w, w.calls);
}

static void *work(void *argument) {
  lane *l = argument;
  CU(cuCtxSetCurrent(context));
  for (uint32_t pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < (pass == 0 ? 1 : l->blocks); i++) {
      for (uint32_t j = 0; j < CALLS; j++) CU(cuGraphLaunch(l->graph.exec, l->stream));
      CU(cuStreamSynchronize(l->stream));
    }
    pthread_barrier_wait(&gate);
  }
  return NULL;
}

static uint64_t together(uint32_t blocks) {
  pthread_barrier_init(&gate, NULL, lane_count + 1);
  for (uint32_t i = 0; i < lane_count; i++) {
    lanes[i].blocks = blocks;
    if (pthread_create(&lanes[i].thread, NULL, work, &lanes[i]) != 0) raw_fail("no thread");
  }
  pthread_barrier_wait(&gate);
  const uint64_t begin = raw_now_ns();
  pthread_barrier_wait(&gate);
  const uint64_t elapsed = raw_now_ns() - begin;
  for (uint32_t i = 0; i < lane_count; i++) pthread_join(lanes[i].thread, NULL);
  pthread_barrier_destroy(&gate);
  return elapsed;
}

static void measure_threads(way w) {
  open_lanes(w.items, true);
  const double once = (double)together(1) / 1e9;
  const double fit = seconds / LEAST / once;
  const uint32_t blocks = fit > 1 ? (uint32_t)fit : 1;
  for (count = 0; count < LEAST; count++) samples[count] = together(blocks);
  for (uint32_t i = 0; i < w.items; i++) expect_at(w.name, lanes[i].places[1], 1);
  report(&w, (double)blocks * CALLS * w.items);
}

/* ---- waiting blocks ------------------------------------------------------------------------- */

/* The kernel's steps, which last until the allocations are measured. */
static uint32_t spin_steps = 1u << 14;

static bool try_waiting(const way *w, const kernel *spin, CUstream busy, CUdeviceptr out) {
  block b = fill(spin, &out, 0);
  CUdeviceptr *waiting = raw_alloc((w->items + 1) * sizeof *waiting);
  for (uint32_t i = 0; i < spin->count; i++)
    if (spin->parameters[i].kind == RAW_SCALAR)
      memcpy(b.bytes + spin->parameters[i].offset, &spin_steps, sizeof spin_steps);
  for (uint32_t i = 0; i < w->items; i++) CU(cuMemAllocAsync(&waiting[i], 256, busy));
  CU(cuStreamSynchronize(busy));
  CU(cuLaunchKernel(spin->function, 1, 1, 1, 1, 1, 1, 0, busy, b.pointers, NULL));
  for (uint32_t i = 0; i < w->items; i++) CU(cuMemFreeAsync(waiting[i], busy));
  measure(w, allocate, drain_nothing);
  const bool ran = cu.call_cuStreamQuery(busy) == CUDA_ERROR_NOT_READY;
  CU(cuStreamSynchronize(busy));
  free(waiting);
  return ran;
}

static void measure_blocks(way w) {
  if (!has_pool(&w)) return;
  const kernel spin = load("spin");
  const CUdeviceptr out = array_of(0);
  const CUstream busy = stream_make();
  while (!try_waiting(&w, &spin, busy, out)) {
    if (spin_steps > 1u << 28) raw_fail("a kernel of %u steps ended too early", spin_steps);
    spin_steps *= 4;
  }
  report(&w, w.calls);
}

/* ---- command line --------------------------------------------------------------------------- */

static void measure_one(char *text) {
  char *name = strchr(text, ':'), *items = name == NULL ? NULL : strchr(name + 1, ':');
  if (items == NULL) raw_fail("no curve:way:items: %s", text);
  *name++ = *items++ = 0;
  const way w = {text, name, (uint32_t)strtoul(items, NULL, 10), CALLS};
  if (strcmp(w.curve, "buffers") == 0 || strcmp(w.curve, "scalars") == 0)
    measure_arguments(w, *w.curve == 'b');
  else if (strcmp(w.curve, "streams") == 0)
    measure_streams(w);
  else if (strcmp(w.curve, "threads") == 0)
    measure_threads(w);
  else if (strcmp(w.curve, "calls") == 0)
    measure_calls(w);
  else if (strcmp(w.curve, "blocks") == 0)
    measure_blocks(w);
  else
    raw_fail("no curve: %s", w.curve);
}

int main(int words, char **values) {
  int at = 1;
  for (; at + 1 < words && strncmp(values[at], "--", 2) == 0; at += 2) {
    if (strcmp(values[at], "--driver") == 0)
      raw_open(values[at + 1]);
    else if (strcmp(values[at], "--folder") == 0)
      folder = values[at + 1];
    else if (strcmp(values[at], "--seconds") == 0)
      seconds = atof(values[at + 1]);
    else
      raw_fail("no option: %s", values[at]);
  }
  raw_open_device(&context);
  main_stream = stream_make();
  for (; at < words; at++) measure_one(values[at]);
  return 0;
}
