/* What libvyre_cuda itself costs, without Python: its public functions called from C on the saxpy
 * kernel, from one thread and from several. Prints the same lines as raw_driver. */
#define _POSIX_C_SOURCE 200809L
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"

enum { MOST = 8, MAX_PARAMETERS = 16 };

typedef struct options {
  const char *driver, *folder, *only;
  uint32_t elements, sets, blocks, block_calls, thread_blocks;
  int core;
} options;

/* One thread's stream, arrays and bound call. */
typedef struct worker {
  pthread_t thread;
  pthread_barrier_t *gate;
  vyc_stream *stream;
  vyc_buffer *buffers[3];
  vyc_argument arguments[3];
  uint64_t scalar;
  vyc_run run;
  vyc_call *call;
  raw_set *set;
} worker;

static options o = {.driver = "libcuda.so.1", .core = -1};
static vyc_context *context;
static vyc_prepared *prepared;
static uint32_t block; /* threads */
static worker workers[MOST];

/* ---- the kernel and its arguments ----------------------------------------------------------- */

static void open_context(void) {
  vyc_driver *driver;
  vyc_caps caps = {.struct_size = sizeof caps};
  VYC(driver_open(&driver, o.driver));
  VYC(context_open(&context, driver, 0));
  VYC(context_caps(context, &caps));
  printf("{\"device\": \"%s\", \"driver_version\": %d}\n", caps.name, caps.driver_version);
  fflush(stdout);
}

/* saxpy.prepared: "entry block parameter_bytes kind:index:offset:size,...
 * role/flags/bytes/sectors,...". */
static void load_plan(void) {
  vyc_parameter parameters[MAX_PARAMETERS];
  vyc_binding bindings[3];
  vyc_prepared_desc desc = {.struct_size = sizeof desc, .block = {1, 1, 1}, .scalar_count = 1};
  char entry[128];
  vyc_module *module;
  size_t bytes = 0;
  char *words = raw_read(raw_path(o.folder, "saxpy", ".prepared"), NULL), *at = words;
  int used = 0;
  if (sscanf(at, "%127s %u %u %n", entry, &desc.block[0], &desc.parameter_bytes, &used) != 3)
    raw_fail("saxpy.prepared is not understood");
  at += used;
  for (used = 0; desc.parameter_count < MAX_PARAMETERS; desc.parameter_count++, at += used) {
    vyc_parameter p = {0};
    if (sscanf(at, "%u:%u:%u:%u%*[, ]%n", &p.kind, &p.index, &p.offset, &p.size, &used) != 4) break;
    parameters[desc.parameter_count] = p;
  }
  for (; desc.binding_count < 3; desc.binding_count++, at += used) {
    vyc_binding b = {0};
    if (sscanf(at, "%u/%u/%u/%u%*[,\n]%n", &b.role, &b.flags, &b.element_bytes, &b.sectors,
               &used) != 4)
      break;
    bindings[desc.binding_count] = b;
  }
  if (desc.binding_count != 3) raw_fail("saxpy.prepared is not understood: %s", at);
  desc.entry = entry;
  block = desc.block[0];
  desc.parameters = parameters;
  desc.bindings = bindings;
  char *ptx = raw_read(raw_path(o.folder, "saxpy", ".ptx"), &bytes);
  VYC(module_load(&module, NULL, 0, context, ptx, bytes + 1));
  VYC(prepared_create(&prepared, module, &desc));
  vyc_module_release(module);
  free(ptx);
  free(words);
}

static void open_worker(worker *w, raw_set *set) {
  const uint64_t bytes = o.elements * sizeof(float);
  w->set = set;
  VYC(stream_create(&w->stream, context));
  for (uint32_t j = 0; j < 3; j++) {
    VYC(buffer_alloc(&w->buffers[j], context, bytes));
    w->arguments[j] =
        (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = o.elements, .buffer = w->buffers[j]};
  }
  for (uint32_t j = 0; j < 2; j++) VYC(copy_in(w->buffers[j], 0, set->inputs[j], bytes));
  memcpy(&w->scalar, &set->a, sizeof set->a);
  w->run = (vyc_run){.struct_size = sizeof w->run,
                     .grid = {(o.elements + block - 1) / block, 1, 1},
                     .argument_count = 3,
                     .scalar_count = 1,
                     .arguments = w->arguments,
                     .scalars = &w->scalar,
                     .stream = w->stream,
                     .timeout_ns = -1};
  VYC(call_create(&w->call, prepared, &w->run));
}

static void poison(worker *w) {
  const uint64_t bytes = o.elements * sizeof(float);
  memset(w->set->result, RAW_POISON, bytes);
  VYC(copy_in(w->buffers[2], 0, w->set->result, bytes));
}

static void verify(const char *id, worker *w) {
  const uint64_t bytes = o.elements * sizeof(float);
  VYC(copy_out(w->buffers[2], 0, w->set->result, bytes));
  if (memcmp(w->set->result, w->set->expected, bytes) != 0) raw_fail("%s: wrong result", id);
}

/* ---- one thread ----------------------------------------------------------------------------- */

static void call_same(uint32_t number) {
  (void)number;
  VYC(call_run(workers[0].call));
}

/* The arguments of each worker in turn, on the first one's stream. */
static void launch_changed(uint32_t number) {
  vyc_run run = workers[number % MOST].run;
  run.stream = workers[0].stream;
  VYC(prepared_launch(prepared, &run));
}

static void alloc_free(uint32_t number) {
  vyc_buffer *buffer;
  VYC(buffer_alloc(&buffer, context, o.elements * sizeof(float) << (number % 4)));
  vyc_buffer_release(buffer);
}

typedef struct way {
  const char *id;
  void (*call)(uint32_t number);
  uint32_t outputs; /* workers whose output it writes */
} way;

static void measure(const way *w) {
  uint64_t *samples = raw_alloc(o.blocks * sizeof *samples);
  raw_begin(w->id);
  for (uint32_t i = 0; i < w->outputs; i++) poison(&workers[i]);
  for (uint32_t pass = 0; pass < 2; pass++) { /* the first is the warm-up */
    const uint32_t blocks = pass == 0 ? (o.blocks + 9) / 10 : o.blocks;
    for (uint32_t i = 0; i < blocks; i++) {
      const uint64_t begin = raw_now_ns();
      for (uint32_t j = 0; j < o.block_calls; j++) w->call(j);
      samples[i] = raw_now_ns() - begin;
      VYC(stream_synchronize(workers[0].stream));
    }
  }
  for (uint32_t i = 0; i < w->outputs && i < o.block_calls; i++) verify(w->id, &workers[i]);
  raw_report(w->id, samples, o.blocks, o.block_calls);
  free(samples);
}

/* ---- several threads ------------------------------------------------------------------------ */

static void run_blocks(const worker *w, uint32_t blocks) {
  for (uint32_t i = 0; i < blocks; i++) {
    for (uint32_t j = 0; j < o.block_calls; j++) VYC(call_run(w->call));
    VYC(stream_synchronize(w->stream));
  }
}

static void *work(void *argument) {
  const worker *w = argument;
  run_blocks(w, (o.thread_blocks + 9) / 10); /* warm-up */
  pthread_barrier_wait(w->gate);
  run_blocks(w, o.thread_blocks);
  pthread_barrier_wait(w->gate);
  return NULL;
}

static void measure_threads(const char *id, uint32_t threads) {
  pthread_barrier_t gate;
  if (pthread_barrier_init(&gate, NULL, threads + 1) != 0) raw_fail("no barrier");
  for (uint32_t i = 0; i < threads; i++) {
    poison(&workers[i]);
    workers[i].gate = &gate;
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) raw_fail("no thread");
  }
  pthread_barrier_wait(&gate);
  const uint64_t begin = raw_now_ns();
  pthread_barrier_wait(&gate);
  const uint64_t elapsed = raw_now_ns() - begin;
  for (uint32_t i = 0; i < threads; i++) pthread_join(workers[i].thread, NULL);
  pthread_barrier_destroy(&gate);
  for (uint32_t i = 0; i < threads; i++) verify(id, &workers[i]);
  const double launches = (double)threads * o.thread_blocks * o.block_calls;
  raw_report_rate(id, threads, launches / ((double)elapsed / 1e9));
}

/* ---- command line --------------------------------------------------------------------------- */

static void set_count(const char *text) {
  struct {
    const char *name;
    uint32_t *value;
  } counts[] = {{"elements=%u", &o.elements},
                {"sets=%u", &o.sets},
                {"blocks=%u", &o.blocks},
                {"block_calls=%u", &o.block_calls},
                {"thread_blocks=%u", &o.thread_blocks}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    if (sscanf(text, counts[i].name, counts[i].value) == 1) return;
}

static void parse(int count, char **values) {
  static const struct option NAMES[] = {{"driver", 1, NULL, 'd'}, {"folder", 1, NULL, 'f'},
                                        {"rows", 1, NULL, 'r'},   {"count", 1, NULL, 'c'},
                                        {"core", 1, NULL, 'k'},   {NULL, 0, NULL, 0}};
  for (int flag; (flag = getopt_long(count, values, "", NAMES, NULL)) != -1;) {
    if (flag == 'd')
      o.driver = optarg;
    else if (flag == 'f')
      o.folder = optarg;
    else if (flag == 'r')
      o.only = optarg;
    else if (flag == 'c')
      set_count(optarg);
    else if (flag == 'k')
      o.core = atoi(optarg);
    else
      exit(2);
  }
  if (o.folder == NULL || o.elements == 0 || o.sets < MOST || o.blocks == 0 || o.block_calls == 0 ||
      o.thread_blocks == 0)
    raw_fail("--folder, all counts, and at least %d sets are needed", MOST);
}

int main(int count, char **values) {
  static const way WAYS[] = {{"layer_call_same", call_same, 1},
                             {"layer_launch_changed", launch_changed, MOST},
                             {"layer_alloc_free", alloc_free, 0}};
  parse(count, values);
  open_context();
  load_plan();
  raw_set *sets = raw_read_sets(o.folder, "saxpy", o.sets, o.elements, 2);
  for (uint32_t i = 0; i < MOST; i++) open_worker(&workers[i], &sets[i]);
  raw_use_core(o.core);
  for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++)
    if (raw_wanted(o.only, WAYS[i].id)) measure(&WAYS[i]);
  raw_use_core(-1);
  if (raw_wanted(o.only, "scaling_layer")) {
    raw_begin("scaling_layer");
    for (uint32_t threads = 1; threads <= MOST; threads *= 2)
      measure_threads("scaling_layer", threads);
  }
  vyc_context_close(context);
  return 0;
}
