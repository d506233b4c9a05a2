/* What the twins in raw_driver.c stand on: the driver's functions from any library that has them,
 * the input sets, the clock and the two figures of a series.
 *
 * Every failure ends the process with a message on stderr; a figure is printed only after the
 * results behind it were compared with the expected bits. */
#ifndef RAW_SUPPORT_H
#define RAW_SUPPORT_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The header's macros name the ABI variant it declares, and that name is the one looked up. */
/* clang-format off */
#define RAW_DRIVER_TABLE(X)         \
  X(cuInit)                         \
  X(cuDriverGetVersion)             \
  X(cuGetErrorName)                 \
  X(cuDeviceGet)                    \
  X(cuDeviceGetName)                \
  X(cuDevicePrimaryCtxRetain)       \
  X(cuCtxSetCurrent)                \
  X(cuStreamCreate)                 \
  X(cuStreamSynchronize)            \
  X(cuStreamQuery)                  \
  X(cuMemAlloc)                     \
  X(cuMemHostAlloc)                 \
  X(cuMemHostGetDevicePointer)      \
  X(cuMemcpyHtoDAsync)              \
  X(cuMemcpyDtoHAsync)              \
  X(cuMemsetD8Async)                \
  X(cuModuleLoadData)               \
  X(cuModuleGetFunction)            \
  X(cuLaunchKernel)                 \
  X(cuGraphCreate)                  \
  X(cuGraphAddKernelNode)           \
  X(cuGraphInstantiateWithFlags)    \
  X(cuGraphExecKernelNodeSetParams) \
  X(cuGraphUpload)                  \
  X(cuGraphLaunch)
/* clang-format on */

typedef struct raw_driver {
#define RAW_POINTER(name) __typeof__(&name) call_##name;
  RAW_DRIVER_TABLE(RAW_POINTER)
#undef RAW_POINTER
} raw_driver;

extern raw_driver cu;

/* CU(cuInit(0)): a driver call that must succeed. */
#define CU(call) raw_check(cu.call_##call, #call)

enum { RAW_MAX_PARAMETERS = 16, RAW_BLOCK_BYTES = 128 };

typedef enum raw_kind { RAW_BUFFER, RAW_SCALAR, RAW_SIZE } raw_kind;

/* One kernel parameter: `index` numbers x, y, out (0 to 2) for buffers and sizes. */
typedef struct raw_parameter {
  raw_kind kind;
  uint32_t index, offset, size;
} raw_parameter;

typedef struct raw_layout {
  raw_parameter parameters[RAW_MAX_PARAMETERS];
  uint32_t count;
} raw_layout;

/* A kernel's parameter block and the pointers into it that the driver takes. */
typedef struct raw_block {
  uint8_t bytes[RAW_BLOCK_BYTES];
  void *pointers[RAW_MAX_PARAMETERS];
} raw_block;

/* out = a * x + y on n floats: the inputs, the expected bits, and memory for the result. */
typedef struct raw_set {
  float a;
  const float *x, *y, *expected;
  float *result;
  CUdeviceptr buffers[3];
  raw_block block;
} raw_set;

_Noreturn void raw_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void raw_check(CUresult result, const char *call);
void raw_open(const char *path);

/* The whole file with a terminating 0; bytes_out may be NULL. */
char *raw_read(const char *path, size_t *bytes_out);

/* "buffer:0:0:8,scalar:0:24:4,...": kind, index, offset and size in bytes. */
raw_layout raw_parse_layout(const char *text);
void raw_fill_block(raw_block *block, const raw_layout *layout, const CUdeviceptr buffers[3],
                    float a, uint32_t n);

/* The file holds, for each set, a, x[n], y[n] and expected[n] as floats. */
raw_set *raw_read_sets(const char *path, uint32_t sets, uint32_t n);

uint64_t raw_now_ns(void);

/* Sorts the series. Prints one JSON line; each sample is the time of `calls` calls. */
void raw_report(const char *id, uint64_t *samples, uint32_t count, uint32_t calls);

#endif
