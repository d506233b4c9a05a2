/* Loading, reading, timing and reporting; support.h says what each function does. */
#define _GNU_SOURCE
#include "support.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

raw_driver cu;

void raw_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("twin: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

void raw_check(CUresult result, const char *call) {
  if (result == CUDA_SUCCESS) return;
  const char *name = NULL;
  if (cu.call_cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL) name = "unknown";
  raw_fail("%s: %s (%d)", call, name, (int)result);
}

/* ---- driver --------------------------------------------------------------------------------- */

static void *symbol(void *library, const char *name) {
  void *address = dlsym(library, name);
  if (address == NULL) raw_fail("the driver library has no %s", name);
  return address;
}

#define RAW_TEXT(name) #name
#define RAW_NAME(name) RAW_TEXT(name)

void raw_open(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) raw_fail("%s", dlerror());
  /* POSIX lets an object pointer hold a function's address; C needs the detour through void **. */
#define RAW_LOAD(name) *(void **)&cu.call_##name = symbol(library, RAW_NAME(name));
  RAW_DRIVER_TABLE(RAW_LOAD)
#undef RAW_LOAD
#define RAW_LOOK(name) *(void **)&cu.call_##name = dlsym(library, RAW_NAME(name));
  RAW_OPTIONAL_TABLE(RAW_LOOK)
#undef RAW_LOOK
}

void raw_open_device(CUcontext *context_out) {
  CUdevice device;
  int version = 0;
  char name[256] = "";
  CU(cuInit(0));
  CU(cuDriverGetVersion(&version));
  CU(cuDeviceGet(&device, 0));
  CU(cuDeviceGetName(name, (int)sizeof name, device));
  CU(cuDevicePrimaryCtxRetain(context_out, device));
  CU(cuCtxSetCurrent(*context_out));
  uint64_t ticks[1001];
  for (uint32_t i = 0; i < 1001; i++) ticks[i] = raw_now_ns();
  printf("{\"device\": \"%s\", \"driver_version\": %d, \"timer_ns\": %.1f}\n", name, version,
         (double)(ticks[1000] - ticks[0]) / 1000);
  fflush(stdout);
}

/* ---- files ---------------------------------------------------------------------------------- */

char *raw_read(const char *path, size_t *bytes_out) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) raw_fail("cannot open %s", path);
  if (fseek(file, 0, SEEK_END) != 0) raw_fail("cannot read %s", path);
  const long end = ftell(file);
  if (end < 0 || fseek(file, 0, SEEK_SET) != 0) raw_fail("cannot read %s", path);
  char *text = malloc((size_t)end + 1);
  if (text == NULL || fread(text, 1, (size_t)end, file) != (size_t)end)
    raw_fail("cannot read %s", path);
  fclose(file);
  text[end] = 0;
  if (bytes_out != NULL) *bytes_out = (size_t)end;
  return text;
}

const char *raw_path(const char *folder, const char *name, const char *suffix) {
  static char path[4096];
  const int length = snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
  if (length < 0 || (size_t)length >= sizeof path) raw_fail("a path is too long: %s", folder);
  return path;
}

void *raw_alloc(size_t bytes) {
  void *memory = malloc(bytes);
  if (memory == NULL) raw_fail("out of memory");
  return memory;
}

raw_set *raw_read_sets(const char *folder, const char *name, uint32_t sets, uint32_t n,
                       uint32_t inputs) {
  size_t bytes = 0;
  const char *path = raw_path(folder, name, ".f32");
  const float *data = (const float *)(const void *)raw_read(path, &bytes);
  const size_t stride = 1 + (inputs + 1) * (size_t)n;
  if (bytes != sets * stride * sizeof(float))
    raw_fail("%s has %zu bytes, not %u sets of %u elements", path, bytes, sets, n);
  raw_set *all = memset(raw_alloc(sets * sizeof *all), 0, sets * sizeof *all);
  for (uint32_t i = 0; i < sets; i++) {
    const float *at = data + i * stride;
    all[i].a = at[0];
    for (uint32_t j = 0; j < inputs; j++) all[i].inputs[j] = at + 1 + j * (size_t)n;
    all[i].expected = at + 1 + inputs * (size_t)n;
    all[i].result = raw_alloc(n * sizeof(float));
  }
  return all;
}

/* ---- parameters ----------------------------------------------------------------------------- */

static raw_kind kind_of(const char *name) {
  if (strcmp(name, "buffer") == 0) return RAW_BUFFER;
  if (strcmp(name, "scalar") == 0) return RAW_SCALAR;
  if (strcmp(name, "size") == 0) return RAW_SIZE;
  raw_fail("unknown parameter kind %s", name);
}

raw_layout raw_parse_layout(const char *text) {
  raw_layout layout = {.count = 0};
  while (*text != 0) {
    char kind[16];
    raw_parameter p;
    int used = 0;
    if (layout.count == RAW_MAX_PARAMETERS ||
        sscanf(text, "%15[a-z]:%u:%u:%u%n", kind, &p.index, &p.offset, &p.size, &used) != 4)
      raw_fail("layout not understood at %s", text);
    p.kind = kind_of(kind);
    if (p.size > 8 || p.offset > RAW_BLOCK_BYTES - 8 || p.index >= RAW_MAX_BUFFERS)
      raw_fail("parameter %u of the layout is out of range", layout.count);
    layout.parameters[layout.count++] = p;
    text += used;
    if (*text == ',') text++;
  }
  return layout;
}

void raw_fill_block(raw_block *block, const raw_layout *layout, const CUdeviceptr *buffers, float a,
                    uint32_t n) {
  memset(block, 0, sizeof *block);
  for (uint32_t i = 0; i < layout->count; i++) {
    const raw_parameter *p = &layout->parameters[i];
    uint64_t value = n;
    if (p->kind == RAW_BUFFER) value = buffers[p->index];
    if (p->kind == RAW_SCALAR) memcpy(&value, &a, sizeof a);
    memcpy(block->bytes + p->offset, &value, p->size); /* little-endian, as the device is */
    block->pointers[i] = block->bytes + p->offset;
  }
}

/* ---- kernels -------------------------------------------------------------------------------- */

void raw_load_kernel(raw_kernel *kernel, const char *folder, const char *name, uint32_t n) {
  CUmodule module;
  char entry[128];
  unsigned block = 0;
  int used = 0;
  char *words = raw_read(raw_path(folder, name, ".layout"), NULL);
  if (sscanf(words, "%127s %u %n", entry, &block, &used) != 2 || block == 0)
    raw_fail("the layout of %s is not understood", name);
  words[strcspn(words, "\n")] = 0;
  kernel->layout = raw_parse_layout(words + used);
  char *ptx = raw_read(raw_path(folder, name, ".ptx"), NULL);
  CU(cuModuleLoadData(&module, ptx));
  CU(cuModuleGetFunction(&kernel->function, module, entry));
  free(ptx);
  free(words);
  kernel->n = n;
  kernel->params = (CUDA_KERNEL_NODE_PARAMS){
      .func = kernel->function,
      .gridDimX = (n + block - 1) / block,
      .gridDimY = 1,
      .gridDimZ = 1,
      .blockDimX = block,
      .blockDimY = 1,
      .blockDimZ = 1,
  };
}

CUgraphExec raw_instantiate(CUgraph graph) {
  CUgraphExec exec;
  CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}

void raw_launch(const raw_kernel *kernel, raw_block *block, CUstream stream) {
  const CUDA_KERNEL_NODE_PARAMS *p = &kernel->params;
  CU(cuLaunchKernel(kernel->function, p->gridDimX, 1, 1, p->blockDimX, 1, 1, 0, stream,
                    block->pointers, NULL));
}

/* ---- where to run --------------------------------------------------------------------------- */

void raw_use_core(int core) {
  static cpu_set_t all;
  static bool known = false;
  if (!known) known = sched_getaffinity(0, sizeof all, &all) == 0;
  cpu_set_t wanted = all;
  if (core >= 0) {
    CPU_ZERO(&wanted);
    CPU_SET(core, &wanted);
  }
  if (!known || sched_setaffinity(0, sizeof wanted, &wanted) != 0)
    raw_fail("core %d cannot be chosen", core);
}

/* ---- figures -------------------------------------------------------------------------------- */

uint64_t raw_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static int ascending(const void *left, const void *right) {
  const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

void raw_begin(const char *id) {
  printf("{\"begin\": \"%s\"}\n", id);
  fflush(stdout);
}

void raw_absent(const char *id, const char *what) {
  printf("{\"id\": \"%s\", \"absent\": \"%s\"}\n", id, what);
  fflush(stdout);
}

void raw_report_rate(const char *id, uint32_t threads, double launches_per_second) {
  printf("{\"rate\": \"%s\", \"threads\": %u, \"launches_per_second\": %.1f}\n", id, threads,
         launches_per_second);
  fflush(stdout);
}

bool raw_wanted(const char *ids, const char *id) {
  const size_t length = strlen(id);
  for (const char *at = ids; at != NULL; at = strchr(at, ',')) {
    if (*at == ',') at++;
    if (strncmp(at, id, length) == 0 && (at[length] == 0 || at[length] == ',')) return true;
  }
  return ids == NULL;
}

void raw_report(const char *id, uint64_t *samples, uint32_t count, uint32_t calls) {
  qsort(samples, count, sizeof *samples, ascending);
  printf("{\"id\": \"%s\", \"median_ns\": %.1f, \"p99_ns\": %.1f, \"n\": %u, \"calls\": %u}\n", id,
         (double)samples[count / 2] / calls, (double)samples[(uint64_t)count * 99 / 100] / calls,
         count, calls);
  fflush(stdout);
}
