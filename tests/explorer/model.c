/* The model's device: streams, events, memory; and the driver's functions on them. */
#define CUDA_NO_PROTOTYPE
#include "model.h"

#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include "driver.h"
#include "schedule.h"

enum { /* work.kind */
       WORK_KERNEL,
       WORK_COPY,
       WORK_FILL,
       WORK_SET,    /* a word, as a memory operation of a stream does */
       WORK_RECORD,
       WORK_WAIT,
       WORK_GRAPH
};

typedef struct node {
  uint32_t kind, width;
  uint64_t to, from, bytes, value;
  model_kernel kernel;
} node;

typedef struct event event;
typedef struct stream stream;
typedef struct exec exec;

typedef struct work {
  struct work *next;
  uint64_t serial;
  uint32_t kind;
  bool done;
  struct work *behind; /* of a launch: the one before of the same exec; of a wait: the record */
  uint8_t *copied;     /* of pageable memory: what it held */
  uint32_t node_count;
  node nodes[MODEL_NODES];
} work;

struct stream {
  bool live, foreign;
  uint32_t number;
  work *first, **end;
};

struct event {
  bool live;
  work *last; /* record; a wait is for the one that it finds, whatever is recorded later */
  stream *stream;
};

typedef struct graph {
  bool live;
  uint32_t node_count;
  node nodes[MODEL_NODES];
} graph;

struct exec {
  bool live;
  uint32_t node_count;
  node nodes[MODEL_NODES];
  work *last;
};

typedef struct memory {
  uint64_t address, bytes;
  bool live, pinned, foreign;
} memory;

static struct model {
  model_hooks hooks;
  bool eager;
  uint64_t serial;
  uint32_t stream_count, memory_count;
  stream *streams[MODEL_STREAMS];
  memory memories[MODEL_MEMORIES];
  stream *wanted;
  int64_t live_streams, live_events, live_graphs, live_execs, live_modules, holders;
  CUcontext current[EXPLORER_THREADS];
  CUstreamCaptureMode mode[EXPLORER_THREADS];
} *m;

/* In the handle of a function whose kernel fails an assertion whenever it runs. */
#define ASSERTING UINT64_C(8)
#define CONTEXT ((CUcontext)(uintptr_t)0xC0DE00)

#define POINT(text, object, kind)                                                                  \
  do {                                                                                             \
    EXPLORER_SITE(text);                                                                           \
    explorer_point(&explorer_here, "the driver", (object), (kind));                                \
  } while (0)
#define SHARED(object) POINT(__func__ + 6, object, EXPLORER_SHARED)

/* ---- memory ---------------------------------------------------------------------------------- */

static void *take(size_t bytes) { return memset(explorer_heap_take(bytes), 0, bytes); }

static memory *memory_at(uint64_t address) {
  for (uint32_t i = m->memory_count; i-- > 0;)
    if (address >= m->memories[i].address &&
        address < m->memories[i].address + m->memories[i].bytes)
      return &m->memories[i];
  return NULL;
}

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
  if (m->memory_count >= MODEL_MEMORIES) explorer_fail("the model has no more memory");
  if (address == 0) {
    const uintptr_t room = (uintptr_t)take(bytes + 256);
    address = (room + 255) & ~(uintptr_t)255;
  }
  m->memories[m->memory_count++] = (memory){address, bytes, true, pinned, foreign};
  return address;
}

static bool work_touches(const work *w, const memory *where) {
  for (uint32_t i = 0; i < w->node_count; i++) {
    const node *n = &w->nodes[i];
    const uint64_t end = where->address + where->bytes;
    const uint64_t touched[] = {n->to, n->from, n->kernel.in, n->kernel.out, n->kernel.report};
    for (uint32_t j = 0; j < sizeof touched / sizeof touched[0]; j++)
      if (touched[j] >= where->address && touched[j] < end) return true;
  }
  return false;
}

static CUresult give_memory(uint64_t address, bool pinned, const char *function) {
  memory *found = memory_at(address);
  if (found == NULL || !found->live || found->address != address || found->pinned != pinned)
    explorer_fail("%s of what is not there, %#lx", function, (unsigned long)address);
  for (uint32_t i = 0; i < m->stream_count; i++)
    for (const work *w = m->streams[i]->first; w != NULL; w = w->next)
      if (work_touches(w, found))
        explorer_fail("%s of memory that work in flight touches, on stream %u", function,
                      m->streams[i]->number);
  found->live = false;
  return CUDA_SUCCESS;
}

/* ---- work ------------------------------------------------------------------------------------ */

/* As a thread of a kernel leaves it: the key, by which the least wins, and the index. */
static void write_report(const model_kernel *kernel) {
  model_check_memory(kernel->report, 16, "a report");
  if (model_read(kernel->report) < kernel->operation) return;
  model_write(kernel->report + 8, kernel->operation);
  model_write(kernel->report, kernel->operation);
}

static void run_node(const work *w, node *n) {
  switch (n->kind) {
  case WORK_KERNEL:
    for (uint32_t i = 0; i < n->kernel.count; i++) {
      model_check_memory(n->kernel.in, 8, "a kernel");
      model_check_memory(n->kernel.out, 8, "a kernel");
    }
    m->hooks.runs(&n->kernel);
    if (n->kernel.report != 0) write_report(&n->kernel);
    break;
  case WORK_COPY:
    if (memory_at(n->to) != NULL) model_check_memory(n->to, n->bytes, "a copy");
    if (w->copied == NULL && memory_at(n->from) != NULL)
      model_check_memory(n->from, n->bytes, "a copy");
    if (n->kernel.out != 0) m->hooks.writes(&n->kernel);
    memmove((void *)(uintptr_t)n->to,
            w->copied != NULL ? w->copied : (const void *)(uintptr_t)n->from, n->bytes);
    break;
  case WORK_FILL:
    model_check_memory(n->to, n->bytes, "a fill");
    for (uint64_t i = 0; i < n->bytes; i += n->width)
      memcpy((void *)(uintptr_t)(n->to + i), &n->value, n->width);
    break;
  case WORK_SET:
    model_check_memory(n->to, 4, "a memory operation");
    memcpy((void *)(uintptr_t)n->to, &n->value, 4);
    break;
  default: break;
  }
}

static bool can_run(const work *w) { return w->behind == NULL || w->behind->done; }

static void run_first(stream *s) {
  work *w = s->first;
  for (uint32_t i = 0; i < w->node_count; i++) {
    if (w->kind == WORK_GRAPH && i > 0) w->nodes[i].kernel.first_value = w->nodes[0].kernel.value;
    run_node(w, &w->nodes[i]);
  }
  w->done = true;
  s->first = w->next;
  if (s->first == NULL) s->end = &s->first;
}

/* The stream whose first piece of work must run for that of `s` to come on. */
static stream *runnable_for(stream *s) {
  for (uint32_t depth = 0; depth < MODEL_STREAMS && s != NULL && s->first != NULL; depth++) {
    if (can_run(s->first)) return s;
    const work *w = s->first;
    stream *other = NULL;
    for (uint32_t i = 0; i < m->stream_count; i++)
      for (const work *x = m->streams[i]->first; x != NULL; x = x->next)
        if (x == w->behind) other = m->streams[i];
    s = other;
  }
  return NULL;
}

static stream *oldest(bool newest) {
  stream *found = NULL;
  for (uint32_t i = 0; i < m->stream_count; i++) {
    stream *s = m->streams[i];
    if (s->first == NULL || !can_run(s->first)) continue;
    if (found == NULL || (s->first->serial < found->first->serial) != newest) found = s;
  }
  return found;
}

bool model_has_work(void) { return m != NULL && oldest(false) != NULL; }

/* What takes no time, once its turn has come. */
static stream *with_marker(void) {
  for (uint32_t i = 0; i < m->stream_count; i++) {
    const work *w = m->streams[i]->first;
    if (w != NULL && (w->kind == WORK_RECORD || w->kind == WORK_WAIT) && can_run(w))
      return m->streams[i];
  }
  return NULL;
}

bool model_step(bool is_waited_for) {
  stream *s = NULL;
  if (m == NULL) return false;
  if (is_waited_for && m->wanted != NULL) s = runnable_for(m->wanted);
  if (s == NULL) s = oldest(false);
  if (s == NULL) return false;
  run_first(s);
  while ((s = with_marker()) != NULL) run_first(s);
  return true;
}

void model_drain(void) {
  for (stream *s = oldest(true); s != NULL; s = oldest(true)) run_first(s);
}

static stream *stream_of(CUstream handle, const char *function) {
  if ((uintptr_t)handle < 16) explorer_fail("%s on a default stream", function);
  stream *s = (stream *)(void *)handle;
  if (!s->live) explorer_fail("%s on stream %u, which was destroyed", function, s->number);
  return s;
}

static work *give(stream *s, uint32_t kind) {
  work *w = take(sizeof *w);
  w->kind = kind;
  w->serial = ++m->serial;
  *s->end = w;
  s->end = &w->next;
  return w;
}

/* After a call that gave work. */
static CUresult given(void) {
  while (m->eager && model_step(false)) {
  }
  return CUDA_SUCCESS;
}

static void kernel_given(model_kernel *kernel, uint32_t number, uint32_t of_graph) {
  kernel->operation = m->hooks.operation();
  kernel->number = number;
  kernel->of_graph = of_graph;
  m->hooks.given(kernel);
}

static model_kernel kernel_of(const void *function, void **parameters) {
  const uint64_t module = (uint64_t)(uintptr_t)function & ~ASSERTING;
  model_kernel kernel = {.module = (const void *)(uintptr_t)module};
  memcpy(&kernel.in, parameters[0], 8);
  memcpy(&kernel.out, parameters[1], 8);
  memcpy(&kernel.value, parameters[2], 8);
  memcpy(&kernel.count, parameters[3], 4);
  if (((uint64_t)(uintptr_t)function & ASSERTING) != 0) memcpy(&kernel.report, parameters[4], 8);
  return kernel;
}

/* ---- devices and contexts -------------------------------------------------------------------- */

static CUresult CUDAAPI model_cuInit(unsigned flags) {
  (void)flags;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuDriverGetVersion(int *version) {
  *version = 13000;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuGetErrorName(CUresult result, const char **text) {
  *text = result == CUDA_SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR";
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuDeviceGetCount(int *count) {
  *count = 1;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuDeviceGetName(char *text, int room, CUdevice device) {
  (void)device;
  snprintf(text, (size_t)room, "model");
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  (void)device;
  memset(uuid, 7, sizeof *uuid);
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  (void)device;
  *bytes = (size_t)1 << 34;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuDeviceGetAttribute(int *value, CUdevice_attribute which,
                                                   CUdevice device) {
  (void)device;
  *value = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
           : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
                                                                   : 1024;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  (void)device;
  *context = CONTEXT;
  m->holders++;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuDevicePrimaryCtxRelease(CUdevice device) {
  (void)device;
  if (--m->holders < 0) explorer_fail("the primary context is given up too often");
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuCtxGetCurrent(CUcontext *context) {
  POINT("cuCtxGetCurrent", NULL, EXPLORER_OWN);
  *context = m->current[explorer->current];
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuCtxSetCurrent(CUcontext context) {
  POINT("cuCtxSetCurrent", NULL, EXPLORER_OWN);
  m->current[explorer->current] = context;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuCtxGetDevice(CUdevice *device) {
  *device = 0;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuCtxGetId(CUcontext context, unsigned long long *id) {
  (void)context;
  *id = 1;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  POINT("cuThreadExchangeStreamCaptureMode", NULL, EXPLORER_OWN);
  const CUstreamCaptureMode before = m->mode[explorer->current];
  m->mode[explorer->current] = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

/* ---- streams and events ---------------------------------------------------------------------- */

static stream *add_stream(bool foreign) {
  if (m->stream_count >= MODEL_STREAMS) explorer_fail("the model has no more streams");
  stream *s = take(sizeof *s);
  s->live = true;
  s->foreign = foreign;
  s->number = m->stream_count;
  s->end = &s->first;
  m->streams[m->stream_count++] = s;
  return s;
}

uint64_t model_stream_of_others(void) { return (uint64_t)(uintptr_t)add_stream(true); }

uint64_t model_memory_of_others(void) { return add_memory(0, 256, false, true); }

static CUresult CUDAAPI model_cuStreamCreate(CUstream *out, unsigned flags) {
  (void)flags;
  SHARED(NULL);
  *out = (CUstream)(void *)add_stream(false);
  m->live_streams++;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuStreamDestroy(CUstream handle) {
  SHARED(handle);
  stream *s = stream_of(handle, "cuStreamDestroy");
  if (s->foreign) explorer_fail("cuStreamDestroy of a stream of others");
  s->live = false;
  m->live_streams--;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuStreamQuery(CUstream handle) {
  SHARED(handle);
  stream *s = stream_of(handle, "cuStreamQuery");
  if (s->first == NULL) return CUDA_SUCCESS;
  m->wanted = s;
  return CUDA_ERROR_NOT_READY;
}

static CUresult CUDAAPI model_cuStreamSynchronize(CUstream handle) {
  SHARED(handle);
  stream *s = stream_of(handle, "cuStreamSynchronize");
  while (s->first != NULL) {
    m->wanted = s;
    explorer_wait_round();
  }
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  SHARED(handle);
  stream_of(handle, "cuStreamIsCapturing");
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

static event *event_of(CUevent handle, const char *function) {
  event *e = (event *)(void *)handle;
  if (e == NULL) explorer_fail("%s without an event", function);
  if (!e->live) explorer_fail("%s of an event that was destroyed", function);
  return e;
}

static CUresult CUDAAPI model_cuStreamWaitEvent(CUstream handle, CUevent which, unsigned flags) {
  (void)flags;
  SHARED(handle);
  stream *s = stream_of(handle, "cuStreamWaitEvent");
  const event *e = event_of(which, "cuStreamWaitEvent");
  give(s, WORK_WAIT)->behind = e->last;
  return given();
}

static CUresult CUDAAPI model_cuEventCreate(CUevent *out, unsigned flags) {
  (void)flags;
  SHARED(NULL);
  event *e = take(sizeof *e);
  e->live = true;
  *out = (CUevent)(void *)e;
  m->live_events++;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuEventDestroy(CUevent handle) {
  SHARED(handle);
  event_of(handle, "cuEventDestroy")->live = false;
  m->live_events--;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuEventRecord(CUevent handle, CUstream where) {
  SHARED(where);
  event *e = event_of(handle, "cuEventRecord");
  stream *s = stream_of(where, "cuEventRecord");
  e->last = give(s, WORK_RECORD);
  e->stream = s;
  return given();
}

static CUresult CUDAAPI model_cuEventQuery(CUevent handle) {
  SHARED(handle);
  const event *e = event_of(handle, "cuEventQuery");
  if (e->last == NULL || e->last->done) return CUDA_SUCCESS;
  m->wanted = e->stream;
  return CUDA_ERROR_NOT_READY;
}

static CUresult CUDAAPI model_cuEventElapsedTime(float *milliseconds, CUevent start, CUevent stop) {
  event_of(start, "cuEventElapsedTime");
  event_of(stop, "cuEventElapsedTime");
  *milliseconds = 1.0f;
  return CUDA_SUCCESS;
}

/* ---- memory of the driver -------------------------------------------------------------------- */

static CUresult CUDAAPI model_cuMemAlloc(CUdeviceptr *out, size_t bytes) {
  SHARED(NULL);
  *out = (CUdeviceptr)add_memory(0, bytes, false, false);
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuMemFree(CUdeviceptr address) {
  SHARED(NULL);
  return give_memory(address, false, "cuMemFree");
}

static CUresult CUDAAPI model_cuMemGetInfo(size_t *left, size_t *total) {
  *left = *total = (size_t)1 << 34;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  SHARED(NULL);
  *out = (void *)(uintptr_t)add_memory(0, bytes, true, false);
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuMemFreeHost(void *address) {
  SHARED(NULL);
  return give_memory((uint64_t)(uintptr_t)address, true, "cuMemFreeHost");
}

static CUresult CUDAAPI model_cuPointerGetAttribute(void *data, CUpointer_attribute which,
                                                    CUdeviceptr address) {
  const memory *found = memory_at(address);
  if (found == NULL || !found->live || found->pinned) return CUDA_ERROR_INVALID_VALUE;
  const int value = which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? (int)CU_MEMORYTYPE_DEVICE : 0;
  memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

static bool is_device(uint64_t address) {
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
    w->nodes[0].kernel = (model_kernel){.out = to, .operation = m->hooks.operation()};
    m->hooks.given(&w->nodes[0].kernel);
  }
  if (memory_at(from) == NULL) { /* pageable memory has been read when the call returns */
    w->copied = take(bytes);
    memcpy(w->copied, (const void *)(uintptr_t)from, bytes);
  }
  const CUresult result = given();
  if (memory_at(to) != NULL) return result;
  while (!w->done) { /* and has been written */
    m->wanted = s;
    explorer_wait_round();
  }
  return result;
}

static CUresult CUDAAPI model_cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes,
                                                CUstream handle) {
  SHARED(handle);
  return copy(handle, to, (uint64_t)(uintptr_t)from, bytes, "cuMemcpyHtoDAsync");
}

static CUresult CUDAAPI model_cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes,
                                                CUstream handle) {
  SHARED(handle);
  return copy(handle, (uint64_t)(uintptr_t)to, from, bytes, "cuMemcpyDtoHAsync");
}

static CUresult CUDAAPI model_cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                                CUstream handle) {
  SHARED(handle);
  work *w = give(stream_of(handle, "cuMemcpyDtoDAsync"), WORK_KERNEL);
  w->node_count = 1;
  w->nodes[0] =
      (node){.kind = WORK_KERNEL,
             .kernel = {.in = from, .out = to, .value = m->hooks.operation(), .count = 1}};
  (void)bytes; /* eight: a kernel does the same, and leaves its own number */
  kernel_given(&w->nodes[0].kernel, 0, 0);
  return given();
}

static CUresult fill(CUstream handle, uint64_t to, uint64_t value, uint32_t width, size_t count) {
  work *w = give(stream_of(handle, "cuMemsetAsync"), WORK_FILL);
  w->node_count = 1;
  w->nodes[0] =
      (node){.kind = WORK_FILL, .width = width, .to = to, .bytes = count * width, .value = value};
  return given();
}

static CUresult CUDAAPI model_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                              CUstream handle) {
  SHARED(handle);
  return fill(handle, to, value, 1, count);
}

static CUresult CUDAAPI model_cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                                               CUstream handle) {
  SHARED(handle);
  return fill(handle, to, value, 4, count);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static CUresult CUDAAPI model_cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count,
                                                 CUjit_option *options, void **values) {
  (void)image;
  (void)count;
  (void)options;
  (void)values;
  *out = (CUmodule)take(64);
  m->live_modules++;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuModuleUnload(CUmodule module) {
  SHARED(module);
  for (uint32_t i = 0; i < m->stream_count; i++)
    for (const work *w = m->streams[i]->first; w != NULL; w = w->next)
      for (uint32_t j = 0; j < w->node_count; j++)
        if (w->nodes[j].kernel.module == module)
          explorer_fail("cuModuleUnload of a kernel that is in flight");
  m->live_modules--;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuModuleGetFunction(CUfunction *out, CUmodule module,
                                                  const char *text) {
  const uint64_t kind = strcmp(text, MODEL_ASSERTING) == 0 ? ASSERTING : 0;
  *out = (CUfunction)(uintptr_t)((uint64_t)(uintptr_t)module | kind);
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuFuncGetAttribute(int *value, CUfunction_attribute which,
                                                 CUfunction function) {
  (void)which;
  (void)function;
  *value = 1024;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuLaunchKernel(CUfunction function, unsigned x, unsigned y,
                                             unsigned z, unsigned bx, unsigned by, unsigned bz,
                                             unsigned shared, CUstream handle, void **parameters,
                                             void **extra) {
  (void)x, (void)y, (void)z, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
  SHARED(handle);
  work *w = give(stream_of(handle, "cuLaunchKernel"), WORK_KERNEL);
  w->node_count = 1;
  w->nodes[0] = (node){.kind = WORK_KERNEL, .kernel = kernel_of(function, parameters)};
  kernel_given(&w->nodes[0].kernel, 0, 1);
  return given();
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static graph *graph_of(CUgraph handle) {
  graph *g = (graph *)(void *)handle;
  if (!g->live) explorer_fail("a graph is used that was destroyed");
  return g;
}

static exec *exec_of(CUgraphExec handle, const char *function) {
  exec *x = (exec *)(void *)handle;
  if (x == NULL || !x->live) explorer_fail("%s of an exec that was destroyed", function);
  return x;
}

static CUresult CUDAAPI model_cuGraphCreate(CUgraph *out, unsigned flags) {
  (void)flags;
  SHARED(NULL);
  graph *g = take(sizeof *g);
  g->live = true;
  m->live_graphs++;
  *out = (CUgraph)(void *)g;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuGraphDestroy(CUgraph handle) {
  SHARED(handle);
  graph_of(handle)->live = false;
  m->live_graphs--;
  return CUDA_SUCCESS;
}

/* Nodes run in the order of their making, which is one that their edges allow. */
static CUresult add_node(CUgraphNode *out, CUgraph handle, const node *n) {
  graph *g = graph_of(handle);
  if (g->node_count >= MODEL_NODES) explorer_fail("a graph of the model has no room for a node");
  g->nodes[g->node_count] = *n;
  *out = (CUgraphNode)(uintptr_t)(++g->node_count);
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuGraphAddKernelNode(CUgraphNode *out, CUgraph handle,
                                                   const CUgraphNode *before, size_t count,
                                                   const CUDA_KERNEL_NODE_PARAMS *params) {
  (void)before, (void)count;
  SHARED(handle);
  const node n = {.kind = WORK_KERNEL, .kernel = kernel_of(params->func, params->kernelParams)};
  return add_node(out, handle, &n);
}

static node copy_node(const CUDA_MEMCPY3D *p) {
  const uint64_t to = p->dstMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)p->dstHost
                                                             : (uint64_t)p->dstDevice;
  const uint64_t from = p->srcMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)p->srcHost
                                                               : (uint64_t)p->srcDevice;
  return (node){.kind = WORK_COPY,
                .to = to + p->dstXInBytes,
                .from = from + p->srcXInBytes,
                .bytes = p->WidthInBytes * (p->Height == 0 ? 1 : p->Height)};
}

static CUresult CUDAAPI model_cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph handle,
                                                   const CUgraphNode *before, size_t count,
                                                   const CUDA_MEMCPY3D *params, CUcontext context) {
  (void)before, (void)count, (void)context;
  SHARED(handle);
  const node n = copy_node(params);
  return add_node(out, handle, &n);
}

static node fill_node(const CUDA_MEMSET_NODE_PARAMS *p) {
  return (node){.kind = WORK_FILL,
                .width = p->elementSize,
                .to = p->dst,
                .bytes = p->width * p->elementSize,
                .value = p->value};
}

static CUresult CUDAAPI model_cuGraphAddMemsetNode(CUgraphNode *out, CUgraph handle,
                                                   const CUgraphNode *before, size_t count,
                                                   const CUDA_MEMSET_NODE_PARAMS *params,
                                                   CUcontext context) {
  (void)before, (void)count, (void)context;
  SHARED(handle);
  const node n = fill_node(params);
  return add_node(out, handle, &n);
}

static CUresult CUDAAPI
model_cuGraphAddBatchMemOpNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
                               size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params) {
  (void)before, (void)count;
  SHARED(handle);
  return add_node(out, handle,
                  &(node){.kind = WORK_SET,
                          .to = params->paramArray[0].writeValue.address,
                          .value = params->paramArray[0].writeValue.value});
}

static CUresult CUDAAPI model_cuGraphKernelNodeSetAttribute(CUgraphNode which,
                                                            CUkernelNodeAttrID attribute,
                                                            const CUkernelNodeAttrValue *value) {
  (void)which, (void)attribute, (void)value;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph handle,
                                                          unsigned long long flags) {
  (void)flags;
  SHARED(handle);
  const graph *g = graph_of(handle);
  exec *x = take(sizeof *x);
  x->live = true;
  x->node_count = g->node_count;
  memcpy(x->nodes, g->nodes, sizeof x->nodes);
  m->live_execs++;
  *out = (CUgraphExec)(void *)x;
  return CUDA_SUCCESS;
}

static node *node_of(CUgraphExec handle, CUgraphNode which, const char *function) {
  exec *x = exec_of(handle, function);
  const uint64_t number = (uint64_t)(uintptr_t)which;
  if (number == 0 || number > x->node_count) explorer_fail("%s of a node of another", function);
  return &x->nodes[number - 1];
}

static CUresult CUDAAPI model_cuGraphExecKernelNodeSetParams(CUgraphExec handle, CUgraphNode which,
                                                             const CUDA_KERNEL_NODE_PARAMS *p) {
  SHARED(handle);
  node *n = node_of(handle, which, "cuGraphExecKernelNodeSetParams");
  n->kernel = kernel_of(p->func, p->kernelParams);
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuGraphExecMemcpyNodeSetParams(CUgraphExec handle, CUgraphNode which,
                                                             const CUDA_MEMCPY3D *params,
                                                             CUcontext context) {
  (void)context;
  SHARED(handle);
  *node_of(handle, which, "cuGraphExecMemcpyNodeSetParams") = copy_node(params);
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuGraphExecMemsetNodeSetParams(CUgraphExec handle, CUgraphNode which,
                                                             const CUDA_MEMSET_NODE_PARAMS *params,
                                                             CUcontext context) {
  (void)context;
  SHARED(handle);
  *node_of(handle, which, "cuGraphExecMemsetNodeSetParams") = fill_node(params);
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuGraphExecDestroy(CUgraphExec handle) {
  SHARED(handle);
  exec_of(handle, "cuGraphExecDestroy")->live = false;
  m->live_execs--;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuGraphUpload(CUgraphExec handle, CUstream where) {
  exec_of(handle, "cuGraphUpload");
  stream_of(where, "cuGraphUpload");
  return CUDA_SUCCESS;
}

/* Launches of one exec run one after the other, on whatever streams. */
static CUresult CUDAAPI model_cuGraphLaunch(CUgraphExec handle, CUstream where) {
  SHARED(handle);
  exec *x = exec_of(handle, "cuGraphLaunch");
  work *w = give(stream_of(where, "cuGraphLaunch"), WORK_GRAPH);
  uint32_t kernels = 0, number = 0;
  w->node_count = x->node_count;
  memcpy(w->nodes, x->nodes, sizeof w->nodes);
  w->behind = x->last != NULL && !x->last->done ? x->last : NULL;
  x->last = w;
  for (uint32_t i = 0; i < w->node_count; i++) kernels += w->nodes[i].kind == WORK_KERNEL;
  for (uint32_t i = 0; i < w->node_count; i++)
    if (w->nodes[i].kind == WORK_KERNEL) kernel_given(&w->nodes[i].kernel, number++, kernels);
  return given();
}

/* ---- the table ------------------------------------------------------------------------------- */

#define MODELLED(X)                                                                                \
  X(cuInit)                                                                                        \
  X(cuDriverGetVersion) X(cuGetErrorName) X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) X( \
      cuDeviceGetUuid) X(cuDeviceTotalMem) X(cuDeviceGetAttribute) X(cuDevicePrimaryCtxRetain)     \
      X(cuDevicePrimaryCtxRelease) X(cuCtxGetCurrent) X(cuCtxSetCurrent) X(cuCtxGetDevice) X(      \
          cuCtxGetId) X(cuThreadExchangeStreamCaptureMode) X(cuStreamCreate) X(cuStreamDestroy)    \
          X(cuStreamQuery) X(cuStreamSynchronize) X(cuStreamIsCapturing) X(cuStreamWaitEvent) X(   \
              cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery)                    \
              X(cuEventElapsedTime) X(cuMemAlloc) X(cuMemFree) X(cuMemGetInfo) X(                  \
                  cuMemHostAlloc) X(cuMemFreeHost) X(cuPointerGetAttribute) X(cuMemcpyHtoDAsync)   \
                  X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD8Async) X(cuMemsetD32Async) \
                      X(cuModuleLoadDataEx) X(cuModuleUnload) X(cuModuleGetFunction) X(            \
                          cuFuncGetAttribute) X(cuLaunchKernel) X(cuGraphCreate) X(cuGraphDestroy) \
                          X(cuGraphAddKernelNode) X(cuGraphAddMemcpyNode) X(cuGraphAddMemsetNode)  \
                              X(cuGraphAddBatchMemOpNode) X(cuGraphKernelNodeSetAttribute)         \
                                  X(cuGraphInstantiateWithFlags) X(cuGraphExecKernelNodeSetParams) \
                                      X(cuGraphExecMemcpyNodeSetParams)                            \
                                          X(cuGraphExecMemsetNodeSetParams) X(cuGraphExecDestroy)  \
                                              X(cuGraphUpload) X(cuGraphLaunch)

typedef struct row {
  const char *name;
  void (*function)(void);
} row;

#define MODEL_ROW(name) {#name, (void (*)(void))model_##name},
static const row modelled[] = {MODELLED(MODEL_ROW)};

/* What nobody has modelled yet says so when it is called. */
#define MODEL_STUB(name, ...)                                                                      \
  static CUresult CUDAAPI stub_##name(void) { explorer_fail("the model has no " #name); }
VYC_DRIVER_TABLE(MODEL_STUB)
#define MODEL_STUB_ROW(name, ...) {#name, (void (*)(void))stub_##name},
static const row stubs[] = {VYC_DRIVER_TABLE(MODEL_STUB_ROW)};

static CUresult CUDAAPI look_up(const char *name, void **out, int version, cuuint64_t flags,
                                CUdriverProcAddressQueryResult *status) {
  (void)version, (void)flags, (void)status;
  *out = NULL;
  for (size_t i = 0; i < sizeof modelled / sizeof modelled[0]; i++)
    if (strcmp(modelled[i].name, name) == 0) memcpy(out, &modelled[i].function, sizeof *out);
  for (size_t i = 0; *out == NULL && i < sizeof stubs / sizeof stubs[0]; i++)
    if (strcmp(stubs[i].name, name) == 0) memcpy(out, &stubs[i].function, sizeof *out);
  return *out == NULL ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

void *explorer_dlopen(const char *path) {
  (void)path;
  return m;
}

void *explorer_dlsym(void *library, const char *name) {
  (void)library;
  if (strcmp(name, "cuGetProcAddress_v2") != 0) return NULL;
  CUresult (*const function)(const char *, void **, int, cuuint64_t,
                             CUdriverProcAddressQueryResult *) = look_up;
  void *address;
  memcpy(&address, &function, sizeof address);
  return address;
}

/* ---- the whole ------------------------------------------------------------------------------- */

void model_start(model_hooks hooks) {
  m = take(sizeof *m);
  m->hooks = hooks;
  explorer->device_step = model_step;
  explorer->device_has_work = model_has_work;
}

void model_be_eager(bool eager) { m->eager = eager; }

void model_check_thread(void) {
  if (m->current[explorer->current] != NULL) explorer_fail("a thread is left in the context");
  if (m->mode[explorer->current] != CU_STREAM_CAPTURE_MODE_GLOBAL)
    explorer_fail("a thread is left with another capture mode");
}

void model_check_empty(void) {
  int64_t memories = 0;
  for (uint32_t i = 0; i < m->memory_count; i++)
    memories += m->memories[i].live && !m->memories[i].foreign;
  if (m->live_streams != 0 || m->live_events != 0 || m->live_graphs != 0 || m->live_execs != 0 ||
      m->live_modules != 0 || m->holders != 0 || memories != 0)
    explorer_fail("the driver still has %d streams, %d events, %d graphs, %d execs, %d modules, %d "
                  "memories, %d holders of the context",
                  (int)m->live_streams, (int)m->live_events, (int)m->live_graphs,
                  (int)m->live_execs, (int)m->live_modules, (int)memories, (int)m->holders);
}
