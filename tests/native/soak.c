/* A host that never stops: devices are opened and closed, bundles loaded and dropped, and eight
 * threads dispatch, one of them on a stream of somebody else's. Every result is compared, and when
 * the memory of the process has not stayed flat the exit status is 1.
 *
 *   soak DRIVER BUNDLE [SECONDS]
 *
 * BUNDLE has `saxpy`. Without SECONDS a few rounds are made. DRIVER may be the emulator or a GPU's.
 */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "any_driver.h"

/* Memory that a sanitizer keeps aside is not a leak; it looks for those itself. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEMORY_IS_MEASURED 0
#else
#define MEMORY_IS_MEASURED 1
#endif

enum { THREADS = 8, N = 3000, CALLS = 12, STEPS = 4, WARM_ROUNDS = 3, LEAST_ROUNDS = 6 };
/* Bytes that may be more than after the warm-up: what allocators round up to. */
enum { HEAP_SLACK = 64 << 10, RESIDENT_SLACK = 4 << 20 };
static const uint64_t BYTES = N * sizeof(float);

typedef struct device {
  vyc_context *context;
  vyc_bundled_kernel *kernel;
} device;

static const char *bundle_path;
static char *bundle_bytes;
static size_t bundle_size;

/* ---- the driver as another library of the process sees it --------------------------------------
 */

static struct {
  __typeof__(&cuStreamCreate) stream_create;
  __typeof__(&cuStreamDestroy) stream_destroy;
  __typeof__(&cuStreamSynchronize) stream_synchronize;
  __typeof__(&cuDevicePrimaryCtxRetain) retain;
  __typeof__(&cuDevicePrimaryCtxRelease) release;
  __typeof__(&cuCtxPushCurrent) push;
  __typeof__(&cuCtxPopCurrent) pop;
} cu;

static void open_other_library(void) {
  find(&cu.stream_create, "cuStreamCreate", 2000);
  find(&cu.stream_destroy, "cuStreamDestroy", 4000);
  find(&cu.stream_synchronize, "cuStreamSynchronize", 2000);
  find(&cu.retain, "cuDevicePrimaryCtxRetain", 7000);
  find(&cu.release, "cuDevicePrimaryCtxRelease", 11000);
  find(&cu.push, "cuCtxPushCurrent", 4000);
  find(&cu.pop, "cuCtxPopCurrent", 4000);
}

#define CU(call) CHECK(cu.call == CUDA_SUCCESS)

/* ---- what is dispatched ------------------------------------------------------------------------
 */

typedef struct task {
  vyc_argument arguments[3];
  uint64_t scalar;
  vyc_run run;
  float a, x[N], y[N], out[N];
} task;

static void set_factor(task *t, float a) {
  t->a = a;
  memcpy(&t->scalar, &a, sizeof a);
}

static void prepare(task *t, uint32_t seed) {
  memset(t, 0, sizeof *t);
  for (uint32_t i = 0; i < N; i++) {
    t->x[i] = (float)((seed + i) % 1000u);
    t->y[i] = (float)(i % 77u);
    t->out[i] = -1;
  }
  for (uint32_t i = 0; i < 3; i++) t->arguments[i].count = N;
  set_factor(t, (float)(seed % 7u) + 0.5f);
  t->run = (vyc_run){.struct_size = sizeof t->run,
                     .argument_count = 3,
                     .scalar_count = 1,
                     .arguments = t->arguments,
                     .scalars = &t->scalar,
                     .timeout_ns = -1};
}

static void on_host(task *t) {
  for (uint32_t i = 0; i < 3; i++) t->arguments[i].kind = VYC_ARGUMENT_HOST;
  t->arguments[0].data = t->x;
  t->arguments[1].data = t->y;
  t->arguments[2].result = t->out;
}

static void on_device(task *t, vyc_buffer *const buffers[3]) {
  for (uint32_t i = 0; i < 3; i++)
    t->arguments[i] = (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = N, .buffer = buffers[i]};
}

/* Every value is a whole multiple of a half and small, so that no rounding is in it. */
static void verify(task *t) {
  for (uint32_t i = 0; i < N; i++) CHECK(t->out[i] == t->a * t->x[i] + t->y[i]);
  memset(t->out, 0, sizeof t->out);
}

static void open_buffers(vyc_context *context, vyc_buffer *buffers[3], const task *t) {
  for (uint32_t i = 0; i < 3; i++) OK(vyc_buffer_alloc(&buffers[i], context, BYTES));
  OK(vyc_copy_in(buffers[0], 0, t->x, BYTES));
  OK(vyc_copy_in(buffers[1], 0, t->y, BYTES));
}

static void close_buffers(vyc_buffer *buffers[3]) {
  for (uint32_t i = 0; i < 3; i++) vyc_buffer_release(buffers[i]);
}

/* ---- the ways to dispatch ----------------------------------------------------------------------
 */

static void host_arrays(const device *d, task *t) {
  on_host(t);
  for (uint32_t i = 0; i < CALLS; i++) {
    set_factor(t, (float)i);
    OK(vyc_bundled_kernel_run(d->kernel, NULL, &t->run));
    verify(t);
  }
}

static void tickets(const device *d, task *t) {
  vyc_ticket *ticket;
  on_host(t);
  for (uint32_t i = 0; i < CALLS; i++) {
    OK(vyc_bundled_kernel_submit(d->kernel, &ticket, &t->run));
    OK(vyc_ticket_wait(ticket, -1));
    vyc_ticket_release(ticket);
    verify(t);
  }
}

static void launches(const device *d, task *t, vyc_stream *stream) {
  vyc_buffer *buffers[3];
  open_buffers(d->context, buffers, t);
  on_device(t, buffers);
  t->run.stream = stream;
  for (uint32_t i = 0; i < CALLS; i++) {
    set_factor(t, (float)i);
    OK(vyc_bundled_kernel_launch(d->kernel, &t->run));
  }
  OK(vyc_copy_out(buffers[2], 0, t->out, BYTES));
  verify(t);
  t->run.stream = NULL;
  close_buffers(buffers);
}

static void own_stream(const device *d, task *t) {
  vyc_stream *stream;
  OK(vyc_stream_create(&stream, d->context));
  launches(d, t, stream);
  vyc_stream_release(stream);
}

static void foreign_stream(const device *d, task *t) {
  CUcontext primary, popped;
  CUstream theirs;
  vyc_stream *stream;
  CU(retain(&primary, 0));
  CU(push(primary));
  CU(stream_create(&theirs, CU_STREAM_NON_BLOCKING));
  OK(vyc_stream_adopt(&stream, d->context, (uint64_t)(uintptr_t)theirs));
  launches(d, t, stream);
  vyc_stream_release(stream);
  CU(stream_synchronize(theirs));
  CU(stream_destroy(theirs));
  CU(pop(&popped));
  CU(release(0));
}

static void bound_calls(const device *d, task *t) {
  vyc_buffer *buffers[3];
  vyc_prepared *prepared;
  vyc_call *call;
  open_buffers(d->context, buffers, t);
  on_device(t, buffers);
  OK(vyc_bundled_kernel_prepared(d->kernel, &prepared));
  OK(vyc_bundled_kernel_resolve(d->kernel, &t->run));
  OK(vyc_call_create(&call, prepared, &t->run));
  for (uint32_t i = 0; i < CALLS; i++) {
    OK(vyc_call_run(call));
    set_factor(t, (float)i);
    OK(vyc_call_set_run(call, &t->run));
  }
  OK(vyc_copy_out(buffers[2], 0, t->out, BYTES));
  verify(t);
  vyc_call_release(call);
  vyc_prepared_release(prepared);
  close_buffers(buffers);
  memset(t->run.grid, 0, sizeof t->run.grid);
}

/* out = a x + y, STEPS times, of which the last counts; then with another factor. */
static void graphs(const device *d, task *t) {
  vyc_buffer *buffers[3];
  vyc_prepared *prepared;
  vyc_graph *graph;
  uint32_t steps[STEPS];
  open_buffers(d->context, buffers, t);
  on_device(t, buffers);
  OK(vyc_bundled_kernel_prepared(d->kernel, &prepared));
  OK(vyc_bundled_kernel_resolve(d->kernel, &t->run));
  OK(vyc_graph_create(&graph, d->context));
  for (uint32_t i = 0; i < STEPS; i++)
    OK(vyc_graph_add_launch(graph, &steps[i], prepared, &t->run));
  OK(vyc_graph_finish(graph));
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  OK(vyc_copy_out(buffers[2], 0, t->out, BYTES));
  verify(t);
  set_factor(t, t->a + 1);
  const vyc_graph_change change = {.step = steps[STEPS - 1], .run = &t->run};
  OK(vyc_graph_launch(graph, &change, 1, NULL));
  OK(vyc_copy_out(buffers[2], 0, t->out, BYTES));
  verify(t);
  vyc_graph_release(graph);
  vyc_prepared_release(prepared);
  close_buffers(buffers);
  memset(t->run.grid, 0, sizeof t->run.grid);
}

static void (*const WAYS[])(const device *, task *) = {host_arrays,    tickets,     own_stream,
                                                       foreign_stream, bound_calls, graphs};
enum { WAY_COUNT = sizeof WAYS / sizeof *WAYS };

/* ---- rounds ------------------------------------------------------------------------------------
 */

typedef struct worker {
  pthread_t thread;
  device device;
  uint32_t number;
  task task;
} worker;

static void *work(void *argument) {
  worker *w = argument;
  prepare(&w->task, w->number);
  for (uint32_t i = 0; i < WAY_COUNT; i++) WAYS[(i + w->number) % WAY_COUNT](&w->device, &w->task);
  return NULL;
}

/* A device and what is loaded on it. `number` varies the place of the bundle and who goes first. */
static void make_round(worker *workers, uint32_t number) {
  vyc_driver *driver;
  vyc_context *context;
  vyc_bundle *bundle;
  vyc_bundled_kernel *kernel;
  OK(vyc_driver_open(&driver, driver_path));
  OK(vyc_context_open(&context, driver, 0));
  if (number % 2 == 0)
    OK(vyc_bundle_open(&bundle, bundle_path, NULL, 0));
  else
    OK(vyc_bundle_open(&bundle, NULL, bundle_bytes, bundle_size));
  OK(vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0));
  vyc_bundle_release(bundle);
  for (uint32_t i = 0; i < THREADS; i++) {
    workers[i].device = (device){context, kernel};
    workers[i].number = number + i;
    CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
  }
  for (uint32_t i = 0; i < THREADS; i++) CHECK(pthread_join(workers[i].thread, NULL) == 0);
  if (number % 3 == 0) vyc_bundled_kernel_release(kernel);
  OK(number % 5 == 0 ? vyc_context_close(context) : vyc_context_synchronize(context));
  vyc_context_release(context);
  if (number % 3 != 0) vyc_bundled_kernel_release(kernel);
  vyc_driver_release(driver);
}

/* ---- memory ------------------------------------------------------------------------------------
 */

typedef struct usage {
  size_t heap, resident; /* bytes */
} usage;

static usage measure(void) {
  unsigned long total = 0, resident = 0;
  malloc_trim(0);
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%lu %lu", &total, &resident) == 2);
  fclose(file);
  return (usage){mallinfo2().uordblks, resident * (size_t)sysconf(_SC_PAGESIZE)};
}

/* Its quarantine of freed memory fills up before it is flat. */
static void empty_quarantine(void) {
  void *library = dlopen(driver_path, RTLD_NOW);
  int (*set)(const char *, int64_t);
  *(void **)&set = dlsym(library, "vyre_emulator_set");
  CHECK(set == NULL || set("quarantine_bytes", 0) == 0);
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void read_bundle(void) {
  FILE *file = fopen(bundle_path, "rb");
  CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
  bundle_size = (size_t)ftell(file);
  rewind(file);
  bundle_bytes = malloc(bundle_size);
  CHECK(bundle_bytes != NULL && fread(bundle_bytes, 1, bundle_size, file) == bundle_size);
  fclose(file);
}

int main(int count, char **words) {
  if (count != 3 && count != 4) {
    fprintf(stderr, "%s DRIVER BUNDLE [SECONDS]\n", words[0]);
    return 2;
  }
  driver_path = words[1];
  bundle_path = words[2];
  const double seconds = count == 4 ? atof(words[3]) : 0;
  worker *workers = calloc(THREADS, sizeof *workers);
  CHECK(workers != NULL);
  read_bundle();
  open_other_library();
  empty_quarantine();
  const double begin = seconds_now();
  usage warm = {0, 0};
  uint32_t rounds = 0;
  while (rounds < LEAST_ROUNDS || seconds_now() - begin < seconds) {
    make_round(workers, rounds++);
    check_nothing_lives();
    if (rounds == WARM_ROUNDS) warm = measure();
  }
  const usage end = measure();
  printf("%u rounds; heap %zu then %zu bytes, resident %zu then %zu\n", rounds, warm.heap, end.heap,
         warm.resident, end.resident);
  if (MEMORY_IS_MEASURED)
    CHECK(end.heap <= warm.heap + HEAP_SLACK && end.resident <= warm.resident + RESIDENT_SLACK);
  free(bundle_bytes);
  free(workers);
  return 0;
}
