/* Loading, reading, timing and reporting for raw_driver.c; raw_support.h says what each does. */
#define _POSIX_C_SOURCE 200809L
#include "raw_support.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

raw_driver cu;

void raw_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("raw_driver: ", stderr);
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

raw_set *raw_read_sets(const char *path, uint32_t sets, uint32_t n) {
  size_t bytes = 0;
  const float *data = (const float *)(const void *)raw_read(path, &bytes);
  const size_t stride = 1 + 3 * (size_t)n;
  if (bytes != sets * stride * sizeof(float))
    raw_fail("%s has %zu bytes, not %u sets of %u elements", path, bytes, sets, n);
  raw_set *all = calloc(sets, sizeof *all);
  if (all == NULL) raw_fail("out of memory");
  for (uint32_t i = 0; i < sets; i++) {
    const float *at = data + i * stride;
    all[i].a = at[0];
    all[i].x = at + 1;
    all[i].y = at + 1 + n;
    all[i].expected = at + 1 + 2 * (size_t)n;
    all[i].result = malloc(n * sizeof(float));
    if (all[i].result == NULL) raw_fail("out of memory");
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
    if (p.size > 8 || p.offset > RAW_BLOCK_BYTES - 8 || p.index > 2)
      raw_fail("parameter %u of the layout is out of range", layout.count);
    layout.parameters[layout.count++] = p;
    text += used;
    if (*text == ',') text++;
  }
  return layout;
}

void raw_fill_block(raw_block *block, const raw_layout *layout, const CUdeviceptr buffers[3],
                    float a, uint32_t n) {
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

void raw_report(const char *id, uint64_t *samples, uint32_t count, uint32_t calls) {
  qsort(samples, count, sizeof *samples, ascending);
  printf("{\"id\": \"%s\", \"median_ns\": %.1f, \"p99_ns\": %.1f, \"n\": %u, \"calls\": %u}\n", id,
         (double)samples[count / 2] / calls, (double)samples[(uint64_t)count * 99 / 100] / calls,
         count, calls);
  fflush(stdout);
}
