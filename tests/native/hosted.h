/* A host with a CUcontext, a stream and memory of its own, and what it has dispatched. */
#ifndef HOSTED_H
#define HOSTED_H

#include <stdatomic.h>
#include <string.h>

#include "any_driver.h"

enum { N = 1000, GRAPH_N = 64, CALLS = 8 };
static const uint64_t BYTES = N * sizeof(float);

static const char *bundle_path;
static int is_created;

/* The driver as the host uses it. */
static struct {
  __typeof__(&cuInit) init;
  __typeof__(&cuDeviceGet) device_get;
  __typeof__(&cuDevicePrimaryCtxRetain) primary_retain;
  __typeof__(&cuDevicePrimaryCtxRelease) primary_release;
  CUresult (*create)(CUcontext *context_out, unsigned flags, CUdevice device); /* of CUDA 3.2 */
  __typeof__(&cuCtxDestroy) destroy;
  __typeof__(&cuCtxSetCurrent) set_current;
  __typeof__(&cuCtxGetCurrent) get_current;
  __typeof__(&cuCtxSynchronize) synchronize;
  __typeof__(&cuStreamCreate) stream_create;
  __typeof__(&cuStreamDestroy) stream_destroy;
  __typeof__(&cuStreamSynchronize) stream_synchronize;
  __typeof__(&cuMemAlloc) alloc;
  __typeof__(&cuMemFree) free;
  __typeof__(&cuMemHostAlloc) alloc_pinned;
  __typeof__(&cuMemFreeHost) free_pinned;
  __typeof__(&cuMemcpyHtoDAsync) upload;
  __typeof__(&cuMemcpyDtoHAsync) download;
} cu;
#define CU(call) CHECK(cu.call == CUDA_SUCCESS)

static void open_driver(void) {
  find(&cu.init, "cuInit", 2000);
  find(&cu.device_get, "cuDeviceGet", 2000);
  find(&cu.primary_retain, "cuDevicePrimaryCtxRetain", 7000);
  find(&cu.primary_release, "cuDevicePrimaryCtxRelease", 11000);
  if (is_created) find(&cu.create, "cuCtxCreate", 3020);
  if (is_created) find(&cu.destroy, "cuCtxDestroy", 4000);
  find(&cu.set_current, "cuCtxSetCurrent", 4000);
  find(&cu.get_current, "cuCtxGetCurrent", 4000);
  find(&cu.synchronize, "cuCtxSynchronize", 2000);
  find(&cu.stream_create, "cuStreamCreate", 2000);
  find(&cu.stream_destroy, "cuStreamDestroy", 4000);
  find(&cu.stream_synchronize, "cuStreamSynchronize", 2000);
  find(&cu.alloc, "cuMemAlloc", 3020);
  find(&cu.free, "cuMemFree", 3020);
  find(&cu.alloc_pinned, "cuMemHostAlloc", 2020);
  find(&cu.free_pinned, "cuMemFreeHost", 2000);
  find(&cu.upload, "cuMemcpyHtoDAsync", 3020);
  find(&cu.download, "cuMemcpyDtoHAsync", 3020);
  CU(init(0));
}

/* ---- the host ---------------------------------------------------------------------------------
 */

typedef struct host {
  CUdevice device;
  CUcontext context;
  vyc_context *vyc;
  _Atomic int device_taken, device_given, pinned_taken, pinned_given, messages;
} host;

/* Current, as a host has it that works with it itself. */
static void make_context(host *self) {
  CU(device_get(&self->device, 0));
  if (is_created)
    CU(create(&self->context, 0, self->device));
  else
    CU(primary_retain(&self->context, self->device));
  CU(set_current(self->context));
}

static void end_context(host *self) {
  if (is_created)
    CU(destroy(self->context));
  else
    CU(primary_release(self->device));
}

static void check_current(CUcontext expected) {
  CUcontext current = NULL;
  CU(get_current(&current));
  CHECK(current == expected);
}

static int32_t take_device(void *user, uint64_t *address_out, uint64_t bytes) {
  host *self = user;
  CUdeviceptr address = 0;
  check_current(self->context);
  if (cu.alloc(&address, bytes) != CUDA_SUCCESS) return 1;
  *address_out = address;
  self->device_taken++;
  return 0;
}

static void give_device(void *user, uint64_t address) {
  host *self = user;
  check_current(self->context);
  cu.free(address); /* which a context with a fault in it refuses */
  self->device_given++;
}

static int32_t take_pinned(void *user, uint64_t *address_out, uint64_t bytes) {
  host *self = user;
  void *address = NULL;
  check_current(self->context);
  const unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  if (cu.alloc_pinned(&address, bytes, flags) != CUDA_SUCCESS) return 1;
  *address_out = (uint64_t)(uintptr_t)address;
  self->pinned_taken++;
  return 0;
}

static void give_pinned(void *user, uint64_t address) {
  host *self = user;
  cu.free_pinned((void *)(uintptr_t)address);
  self->pinned_given++;
}

static void listen(void *user, int32_t level, const char *message) {
  host *self = user;
  CHECK((level == VYC_LOG_WARNING || level == VYC_LOG_INFO) && message[0] != '\0');
  self->messages++;
}

static void open_ours(host *self) {
  const vyc_context_options options = {
      .struct_size = sizeof options,
      .handle = (uint64_t)(uintptr_t)self->context,
      .device_memory = {take_device, give_device, self},
      .pinned_memory = {take_pinned, give_pinned, self},
      .log = listen,
      .log_user = self,
  };
  vyc_driver *driver = NULL;
  OK(vyc_driver_open(&driver, driver_path));
  OK(vyc_context_open_with(&self->vyc, driver, 0, &options));
  vyc_driver_release(driver);
}

static void check_given_back(const host *self) {
  CHECK(self->device_taken > 0 && self->device_taken == self->device_given);
  CHECK(self->pinned_taken > 0 && self->pinned_taken == self->pinned_given);
}

/* ---- what is dispatched -----------------------------------------------------------------------
 */

typedef struct work {
  vyc_bundle *bundle;
  vyc_bundled_kernel *saxpy;
  vyc_buffer *buffers[3];
  vyc_argument arguments[3];
  uint64_t a;
  vyc_run run;
  float x[N], y[N], out[N];
} work;

/* Whole multiples of a half and small, so that no rounding is in it. */
static void begin(work *w, vyc_context *context) {
  memset(w, 0, sizeof *w);
  OK(vyc_bundle_open(&w->bundle, bundle_path, NULL, 0));
  OK(vyc_bundled_kernel_load(&w->saxpy, NULL, 0, context, w->bundle, "saxpy", 7));
  for (uint32_t i = 0; i < N; i++) {
    w->x[i] = (float)(i % 100);
    w->y[i] = (float)i / 2;
  }
  for (uint32_t i = 0; i < 3; i++) OK(vyc_buffer_alloc(&w->buffers[i], context, BYTES));
  OK(vyc_copy_in(w->buffers[0], 0, w->x, BYTES));
  OK(vyc_copy_in(w->buffers[1], 0, w->y, BYTES));
  w->run = (vyc_run){.struct_size = sizeof w->run,
                     .argument_count = 3,
                     .scalar_count = 1,
                     .arguments = w->arguments,
                     .scalars = &w->a,
                     .timeout_ns = -1};
}

static void end(work *w) {
  for (uint32_t i = 0; i < 3; i++) vyc_buffer_release(w->buffers[i]);
  vyc_bundled_kernel_release(w->saxpy);
  vyc_bundle_release(w->bundle);
}

static void verify(work *w, float a) {
  for (uint32_t i = 0; i < N; i++) CHECK(w->out[i] == a * w->x[i] + w->y[i]);
  memset(w->out, 0, sizeof w->out);
}

static void on_host(work *w, float a) {
  w->a = vyc_bits_f32(a);
  for (uint32_t i = 0; i < 3; i++)
    w->arguments[i] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = N};
  w->arguments[0].data = w->x;
  w->arguments[1].data = w->y;
  w->arguments[2].result = w->out;
}

static void on_device(work *w, float a) {
  w->a = vyc_bits_f32(a);
  for (uint32_t i = 0; i < 3; i++)
    w->arguments[i] =
        (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = N, .buffer = w->buffers[i]};
}

static void run_host_arrays(work *w) {
  for (int i = 0; i < CALLS; i++) {
    on_host(w, (float)i);
    OK(vyc_bundled_kernel_run(w->saxpy, NULL, &w->run));
    verify(w, (float)i);
  }
}

static void run_bound_call(work *w) {
  vyc_prepared *prepared = NULL;
  vyc_call *call = NULL;
  vyc_run run;
  on_device(w, 2);
  run = w->run;
  OK(vyc_bundled_kernel_prepared(w->saxpy, &prepared));
  OK(vyc_bundled_kernel_resolve(w->saxpy, &run));
  OK(vyc_call_create(&call, prepared, &run));
  for (int i = 0; i < CALLS; i++) OK(vyc_call_run(call));
  OK(vyc_copy_out(w->buffers[2], 0, w->out, BYTES));
  verify(w, 2);
  w->a = vyc_bits_f32(3);
  OK(vyc_call_set_run(call, &run));
  OK(vyc_copy_out(w->buffers[2], 0, w->out, BYTES));
  verify(w, 3);
  vyc_call_release(call);
  vyc_prepared_release(prepared);
}

/* out = 2.5 (a x + 0, 1, 2, ...). */
static void run_graph(work *w, vyc_context *context) {
  vyc_replay *replay = NULL;
  vyc_symbol_value values[3] = {{0}};
  uint32_t graph = 0;
  float out[GRAPH_N];
  OK(vyc_replay_load(&replay, NULL, 0, context, w->bundle, "step", 0));
  OK(vyc_bundle_graph_find(w->bundle, &graph, "step"));
  OK(vyc_bundle_symbol_find(w->bundle, &values[0].symbol, graph, "x"));
  OK(vyc_bundle_symbol_find(w->bundle, &values[1].symbol, graph, "out"));
  OK(vyc_bundle_symbol_find(w->bundle, &values[2].symbol, graph, "a"));
  values[0].buffer = w->buffers[0];
  values[1].buffer = w->buffers[2];
  values[0].count = values[1].count = GRAPH_N;
  for (int a = 1; a <= CALLS; a++) {
    values[2].bits = vyc_bits_f32((float)a);
    OK(vyc_replay_launch(replay, values, 3, NULL));
    OK(vyc_copy_out(w->buffers[2], 0, out, sizeof out));
    for (int i = 0; i < GRAPH_N; i++) CHECK(out[i] == 2.5f * ((float)a * w->x[i] + (float)i));
  }
  vyc_replay_release(replay);
}

/* The host's upload, our launch, the host's download: in the order of its stream, with no wait in
 * between, in memory that is the host's. */
static void run_on_stream_of_the_host(work *w, vyc_context *context) {
  CUstream theirs = NULL;
  CUdeviceptr memory = 0;
  vyc_stream *stream = NULL;
  CU(stream_create(&theirs, CU_STREAM_NON_BLOCKING));
  CU(alloc(&memory, 3 * BYTES));
  OK(vyc_stream_adopt(&stream, context, (uint64_t)(uintptr_t)theirs));
  on_device(w, 5);
  for (uint32_t i = 0; i < 3; i++) {
    const vyc_foreign_memory part = {.struct_size = sizeof part,
                                     .address = memory + i * BYTES,
                                     .bytes = BYTES,
                                     .source = stream};
    OK(vyc_buffer_adopt(&w->arguments[i].buffer, context, &part));
  }
  w->run.stream = stream;
  CU(upload(memory, w->x, BYTES, theirs));
  CU(upload(memory + BYTES, w->y, BYTES, theirs));
  OK(vyc_bundled_kernel_launch(w->saxpy, &w->run));
  CU(download(w->out, memory + 2 * BYTES, BYTES, theirs));
  CU(stream_synchronize(theirs));
  verify(w, 5);
  w->run.stream = NULL;
  for (uint32_t i = 0; i < 3; i++) vyc_buffer_release(w->arguments[i].buffer);
  vyc_stream_release(stream);
  CU(stream_synchronize(theirs));
  CU(stream_destroy(theirs));
  CU(free(memory));
}

/* Every way to dispatch; what is current stays so. */
static void run_all(work *w, vyc_context *context) {
  CUcontext before = NULL;
  CU(get_current(&before));
  run_host_arrays(w);
  check_current(before);
  run_bound_call(w);
  check_current(before);
  run_graph(w, context);
  check_current(before);
}

#endif
