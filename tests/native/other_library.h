/* Another library in the same process: the driver's own API on the emulator, called past the C
 * layer, on the primary context; its streams and its memory as the C layer adopts them. */
#ifndef OTHER_LIBRARY_H
#define OTHER_LIBRARY_H

#include "base/cuda.h"
#include "dispatch_test.h"

static struct {
  __typeof__(&cuStreamCreate) stream_create;
  __typeof__(&cuStreamDestroy) stream_destroy;
  __typeof__(&cuStreamQuery) stream_query;
  __typeof__(&cuStreamSynchronize) stream_synchronize;
  __typeof__(&cuStreamBeginCapture) begin;
  __typeof__(&cuStreamEndCapture) end;
  __typeof__(&cuGraphInstantiateWithFlags) instantiate;
  __typeof__(&cuGraphLaunch) graph_launch;
  __typeof__(&cuGraphExecDestroy) exec_destroy;
  __typeof__(&cuGraphDestroy) graph_destroy;
  __typeof__(&cuMemAlloc) alloc;
  __typeof__(&cuMemFree) release;
  __typeof__(&cuMemsetD32Async) fill;
  __typeof__(&cuMemcpyDtoHAsync) copy_out;
  __typeof__(&cuDevicePrimaryCtxRetain) retain;
  __typeof__(&cuDevicePrimaryCtxRelease) release_primary;
  __typeof__(&cuCtxSetCurrent) set_current;
} cu;

static void find(void *slot, const char *name, int since) {
  void *library = dlopen(emulator_path, RTLD_NOW);
  CUresult (*lookup)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
  *(void **)&lookup = symbol(library, "cuGetProcAddress_v2");
  CUdriverProcAddressQueryResult status;
  CHECK(lookup(name, slot, since, 0, &status) == CUDA_SUCCESS && *(void **)slot != NULL);
}

static void open_other_library(void) {
  find(&cu.stream_create, "cuStreamCreate", 2000);
  find(&cu.stream_destroy, "cuStreamDestroy", 4000);
  find(&cu.stream_query, "cuStreamQuery", 2000);
  find(&cu.stream_synchronize, "cuStreamSynchronize", 2000);
  find(&cu.begin, "cuStreamBeginCapture", 10010);
  find(&cu.end, "cuStreamEndCapture", 10000);
  find(&cu.instantiate, "cuGraphInstantiateWithFlags", 11040);
  find(&cu.graph_launch, "cuGraphLaunch", 10000);
  find(&cu.exec_destroy, "cuGraphExecDestroy", 10000);
  find(&cu.graph_destroy, "cuGraphDestroy", 10000);
  find(&cu.alloc, "cuMemAlloc", 3020);
  find(&cu.release, "cuMemFree", 3020);
  find(&cu.fill, "cuMemsetD32Async", 3020);
  find(&cu.copy_out, "cuMemcpyDtoHAsync", 3020);
  find(&cu.retain, "cuDevicePrimaryCtxRetain", 7000);
  find(&cu.release_primary, "cuDevicePrimaryCtxRelease", 11000);
  find(&cu.set_current, "cuCtxSetCurrent", 4000);
}

#define CU(call) CHECK((call) == CUDA_SUCCESS)

UNUSED static uint32_t pattern(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  return word;
}

UNUSED static vyc_stream *adopted(vyc_context *context, CUstream handle) {
  vyc_stream *stream = NULL;
  OK(vyc_stream_adopt(&stream, context, (uint64_t)(uintptr_t)handle));
  return stream;
}

static void note_drop(void *owner) { ++*(int *)owner; }

UNUSED static vyc_buffer *adopted_memory(vyc_context *context, CUdeviceptr address,
                                         vyc_stream *source, uint32_t flags, int *drops) {
  const vyc_foreign_memory memory = {.struct_size = sizeof memory,
                                     .flags = flags,
                                     .address = (uint64_t)address,
                                     .bytes = BYTES,
                                     .source = source,
                                     .drop = note_drop,
                                     .owner = drops};
  vyc_buffer *buffer = NULL;
  OK(vyc_buffer_adopt(&buffer, context, &memory));
  return buffer;
}

/* With the primary context current in this thread, as another library has it. */
static void enter_other_library(void) {
  CUcontext primary;
  CU(cu.retain(&primary, 0));
  CU(cu.set_current(primary));
}

static void leave_other_library(void) {
  CU(cu.set_current(NULL));
  CU(cu.release_primary(0));
}

#endif
