/* The model's memory, and what allocates, frees, copies and fills it. */
#define CUDA_NO_PROTOTYPE
#include "model_parts.h"

memory *memory_at(uint64_t address) {
  for (uint32_t i = the_model->memory_count; i-- > 0;)
    if (address >= the_model->memories[i].address &&
        address < the_model->memories[i].address + the_model->memories[i].bytes)
      return &the_model->memories[i];
  return NULL;
}

bool model_has_memory(uintptr_t address) { return memory_at(address) != NULL; }

void model_check_memory(uint64_t address, uint64_t bytes, const char *who) {
  const memory *found = memory_at(address);
  if (found == NULL)
    explorer_fail("%s touches %#lx, which is no memory", who, (unsigned long)address);
  if (!found->live)
    explorer_fail("%s touches memory that was freed, at %#lx", who, (unsigned long)address);
  if (address + bytes > found->address + found->bytes)
    explorer_fail("%s touches what is behind its memory, at %#lx", who, (unsigned long)address);
}

uint64_t model_read(uint64_t address) {
  uint64_t value;
  memcpy(&value, (const void *)(uintptr_t)address, sizeof value);
  return value;
}

void model_write(uint64_t address, uint64_t value) {
  memcpy((void *)(uintptr_t)address, &value, sizeof value);
}

static uint64_t add_memory(uint64_t address, size_t bytes, bool pinned, bool foreign) {
  if (the_model->memory_count >= MODEL_MEMORIES) explorer_fail("the model has no more memory");
  if (address == 0) {
    const uintptr_t room = (uintptr_t)take(bytes + 256);
    address = (room + 255) & ~(uintptr_t)255;
  }
  the_model->memories[the_model->memory_count++] =
      (memory){address, bytes, true, pinned, foreign, device_now()};
  return address;
}

static bool work_touches(const work *w, const memory *where) {
  for (uint32_t i = 0; i < w->node_count; i++) {
    const node *n = &w->nodes[i];
    const uint64_t end = where->address + where->bytes;
    const uint64_t touched[] = {n->to,         n->from,          n->kernel.in,
                                n->kernel.out, n->kernel.report, n->kernel.row};
    for (uint32_t j = 0; j < sizeof touched / sizeof touched[0]; j++)
      if (touched[j] >= where->address && touched[j] < end) return true;
    if (n->kernel.reduce != NULL && reduce_touches(n->kernel.reduce, where)) return true;
  }
  return false;
}

static CUresult give_memory(uint64_t address, bool pinned, const char *function) {
  memory *found = memory_at(address);
  if (found == NULL || !found->live || found->address != address || found->pinned != pinned)
    explorer_fail("%s of what is not there, %#lx", function, (unsigned long)address);
  for (uint32_t i = 0; i < the_model->stream_count; i++)
    for (const work *w = the_model->streams[i]->first; w != NULL; w = w->next)
      if (work_touches(w, found))
        explorer_fail("%s of memory that work in flight touches, on stream %u", function,
                      the_model->streams[i]->number);
  found->live = false;
  return CUDA_SUCCESS;
}

uint64_t model_memory_of_others(void) { return add_memory(0, 256, false, true); }

/* ---- the functions --------------------------------------------------------------------------- */

static CUresult CUDAAPI model_cuMemAlloc(CUdeviceptr *out, size_t bytes) {
  MAKES();
  *out = (CUdeviceptr)add_memory(0, bytes, false, false);
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuMemFree(CUdeviceptr address) {
  WORKS_WITH_ALL();
  return give_memory(address, false, "cuMemFree");
}

static CUresult CUDAAPI model_cuMemGetInfo(size_t *left, size_t *total) {
  *left = *total = (size_t)1 << 34;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  MAKES();
  *out = (void *)(uintptr_t)add_memory(0, bytes, true, false);
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuMemFreeHost(void *address) {
  WORKS_WITH_ALL();
  return give_memory((uint64_t)(uintptr_t)address, true, "cuMemFreeHost");
}

static CUresult CUDAAPI model_cuMemHostRegister(void *address, size_t bytes, unsigned flags) {
  (void)flags;
  MAKES();
  add_memory((uint64_t)(uintptr_t)address, bytes, true, false);
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuMemHostUnregister(void *address) {
  WORKS_WITH_ALL();
  return give_memory((uint64_t)(uintptr_t)address, true, "cuMemHostUnregister");
}

static CUresult CUDAAPI model_cuMemHostGetDevicePointer(CUdeviceptr *out, void *address,
                                                        unsigned flags) {
  (void)flags;
  *out = (CUdeviceptr)(uintptr_t)address;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuPointerGetAttribute(void *data, CUpointer_attribute which,
                                                    CUdeviceptr address) {
  const memory *found = memory_at(address);
  if (found == NULL || !found->live || found->pinned) return CUDA_ERROR_INVALID_VALUE;
  const int value = which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? (int)CU_MEMORYTYPE_DEVICE : 0;
  memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

bool is_device(uint64_t address) {
  const memory *found = memory_at(address);
  return found != NULL && !found->pinned;
}

static CUresult copy(CUstream handle, uint64_t to, uint64_t from, size_t bytes,
                     const char *function) {
  stream *s = stream_of(handle, function);
  work *w = give(s, WORK_COPY);
  w->node_count = 1;
  w->nodes[0] = (node){.kind = WORK_COPY, .to = to, .from = from, .bytes = bytes};
  if (is_device(to)) {
    w->nodes[0].kernel = (model_kernel){.out = to, .operation = the_model->hooks.operation()};
    the_model->hooks.given(&w->nodes[0].kernel);
  }
  if (memory_at(from) == NULL) { /* pageable memory has been read when the call returns */
    w->copied = take(bytes);
    memcpy(w->copied, (const void *)(uintptr_t)from, bytes);
  }
  const CUresult result = given();
  if (memory_at(to) != NULL) return result;
  while (!w->done) { /* and has been written */
    the_model->wanted = s;
    explorer_wait_round();
  }
  return result;
}

static CUresult CUDAAPI model_cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes,
                                                CUstream handle) {
  WORKS(handle);
  return copy(handle, to, (uint64_t)(uintptr_t)from, bytes, "cuMemcpyHtoDAsync");
}

static CUresult CUDAAPI model_cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes,
                                                CUstream handle) {
  WORKS_WITH_ALL();
  return copy(handle, (uint64_t)(uintptr_t)to, from, bytes, "cuMemcpyDtoHAsync");
}

static CUresult copy_within(CUstream handle, uint64_t to, uint64_t from, const char *function) {
  work *w = give(stream_of(handle, function), WORK_KERNEL);
  w->node_count = 1;
  w->nodes[0] =
      (node){.kind = WORK_KERNEL,
             .kernel = {.in = from, .out = to, .value = the_model->hooks.operation(), .count = 1}};
  kernel_given(&w->nodes[0].kernel, 0, 0);
  return given();
}

/* Of eight bytes: a kernel does the same, and leaves its own number. */
static CUresult CUDAAPI model_cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                                CUstream handle) {
  (void)bytes;
  WORKS(handle);
  return copy_within(handle, to, from, "cuMemcpyDtoDAsync");
}

static void check_device(CUdeviceptr address, CUcontext context, const char *side) {
  const memory *found = memory_at(address);
  if (found != NULL && CONTEXT(found->device) != context)
    explorer_fail("cuMemcpyPeerAsync %s memory of another device", side);
}

static CUresult CUDAAPI model_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context,
                                                CUdeviceptr from, CUcontext from_context,
                                                size_t bytes, CUstream handle) {
  (void)bytes;
  WORKS(handle);
  check_device(to, to_context, "to");
  check_device(from, from_context, "from");
  return copy_within(handle, to, from, "cuMemcpyPeerAsync");
}

static CUresult fill(CUstream handle, uint64_t to, uint64_t value, uint32_t width, size_t count) {
  work *w = give(stream_of(handle, "cuMemsetAsync"), WORK_FILL);
  w->node_count = 1;
  w->nodes[0] =
      (node){.kind = WORK_FILL, .width = width, .to = to, .bytes = count * width, .value = value};
  w->nodes[0].kernel = (model_kernel){.out = to, .operation = the_model->hooks.operation()};
  the_model->hooks.given(&w->nodes[0].kernel);
  return given();
}

static CUresult CUDAAPI model_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                              CUstream handle) {
  WORKS(handle);
  return fill(handle, to, value, 1, count);
}

static CUresult CUDAAPI model_cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                                               CUstream handle) {
  WORKS(handle);
  return fill(handle, to, value, 4, count);
}

#define MODELLED(X)                                                                                \
  X(cuMemAlloc)                                                                                    \
  X(cuMemFree)                                                                                     \
  X(cuMemGetInfo)                                                                                  \
  X(cuMemHostAlloc)                                                                                \
  X(cuMemFreeHost)                                                                                 \
  X(cuMemHostRegister)                                                                             \
  X(cuMemHostUnregister)                                                                           \
  X(cuMemHostGetDevicePointer)                                                                     \
  X(cuPointerGetAttribute)                                                                         \
  X(cuMemcpyHtoDAsync)                                                                             \
  X(cuMemcpyDtoHAsync)                                                                             \
  X(cuMemcpyDtoDAsync) X(cuMemcpyPeerAsync) X(cuMemsetD8Async) X(cuMemsetD32Async)
const model_row model_memory_rows[] = {MODELLED(MODEL_ROW){NULL, NULL}};
