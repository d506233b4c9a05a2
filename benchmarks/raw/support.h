/* What the twins stand on: the driver's functions from any library that has them, kernels and input
 * sets from files, the clock, and the lines that are printed.
 *
 * Every failure ends the process with a message on stderr; a figure is printed only after the
 * results behind it were compared with the expected bits. */
#ifndef RAW_SUPPORT_H
#define RAW_SUPPORT_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define RAW_NORETURN [[noreturn]]
extern "C" {
#else
#define RAW_NORETURN _Noreturn
#endif

/* The header's macros name the ABI variant it declares, and that name is the one looked up. */
/* clang-format off */
#define RAW_DRIVER_TABLE(X)         \
  X(cuInit)                         \
  X(cuDriverGetVersion)             \
  X(cuGetErrorName)                 \
  X(cuDeviceGet)                    \
  X(cuDeviceGetName)                \
  X(cuDevicePrimaryCtxRetain)       \
  X(cuCtxGetCurrent)                \
  X(cuCtxSetCurrent)                \
  X(cuCtxSynchronize)               \
  X(cuStreamCreate)                 \
  X(cuStreamSynchronize)            \
  X(cuStreamQuery)                  \
  X(cuStreamWaitEvent)              \
  X(cuEventCreate)                  \
  X(cuEventRecord)                  \
  X(cuEventQuery)                   \
  X(cuMemAlloc)                     \
  X(cuMemHostAlloc)                 \
  X(cuMemHostGetDevicePointer)      \
  X(cuMemcpyHtoD)                   \
  X(cuMemcpyDtoH)                   \
  X(cuMemcpyHtoDAsync)              \
  X(cuMemcpyDtoHAsync)              \
  X(cuMemsetD8Async)                \
  X(cuModuleLoadData)               \
  X(cuModuleGetFunction)            \
  X(cuLaunchKernel)                 \
  X(cuGraphCreate)                  \
  X(cuGraphAddKernelNode)           \
  X(cuGraphAddMemsetNode)           \
  X(cuGraphInstantiateWithFlags)    \
  X(cuGraphExecKernelNodeSetParams) \
  X(cuGraphExecMemsetNodeSetParams) \
  X(cuGraphLaunch)                  \
  X(cuGraphExecDestroy)             \
  X(cuGraphDestroy)
/* NULL where the library lacks them, as the emulator does. */
#define RAW_OPTIONAL_TABLE(X) \
  X(cuGraphUpload)            \
  X(cuMemAllocAsync)          \
  X(cuMemFreeAsync)
/* clang-format on */

typedef struct raw_driver {
#define RAW_POINTER(name) __typeof__(&name) call_##name;
  RAW_DRIVER_TABLE(RAW_POINTER)
  RAW_OPTIONAL_TABLE(RAW_POINTER)
#undef RAW_POINTER
} raw_driver;

extern raw_driver cu;

/* CU(cuInit(0)): a driver call that must succeed. */
#define CU(call) raw_check(cu.call_##call, #call)

enum { RAW_MAX_PARAMETERS = 16, RAW_BLOCK_BYTES = 128, RAW_MAX_BUFFERS = 3, RAW_POISON = 0xA5 };

typedef enum raw_kind { RAW_BUFFER, RAW_SCALAR, RAW_SIZE } raw_kind;

/* One kernel parameter: `index` numbers the buffers in declared order, for buffers and sizes. */
typedef struct raw_parameter {
  raw_kind kind;
  uint32_t index, offset, size;
} raw_parameter;

typedef struct raw_layout {
  raw_parameter parameters[RAW_MAX_PARAMETERS];
  uint32_t count;
} raw_layout;

/* A kernel over n elements, with its launch geometry in `params`. */
typedef struct raw_kernel {
  CUfunction function;
  raw_layout layout;
  CUDA_KERNEL_NODE_PARAMS params;
  uint32_t n;
} raw_kernel;

/* A kernel's parameter block and the pointers into it that the driver takes. */
typedef struct raw_block {
  uint8_t bytes[RAW_BLOCK_BYTES];
  void *pointers[RAW_MAX_PARAMETERS];
} raw_block;

/* Inputs, the expected bits, and memory for the result: n floats each. */
typedef struct raw_set {
  float a;
  const float *inputs[2];
  const float *expected;
  float *result;
} raw_set;

RAW_NORETURN void raw_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void raw_check(CUresult result, const char *call);
void raw_open(const char *path);
/* Make the first device's primary context current and print the line about it. */
void raw_open_device(CUcontext *context_out);

/* The whole file with a terminating 0; bytes_out may be NULL. */
char *raw_read(const char *path, size_t *bytes_out);
/* FOLDER/NAME with a suffix, in static memory that the next call overwrites. */
const char *raw_path(const char *folder, const char *name, const char *suffix);

/* FOLDER/NAME.ptx, and NAME.layout: "entry block kind:index:offset:bytes,...". */
void raw_load_kernel(raw_kernel *kernel, const char *folder, const char *name, uint32_t n);
raw_layout raw_parse_layout(const char *text);
void raw_fill_block(raw_block *block, const raw_layout *layout, const CUdeviceptr *buffers, float a,
                    uint32_t n);
CUgraphExec raw_instantiate(CUgraph graph);
void raw_launch(const raw_kernel *kernel, raw_block *block, CUstream stream);

/* FOLDER/NAME.f32 holds, for each set, a, then each input and expected as n floats. */
raw_set *raw_read_sets(const char *folder, const char *name, uint32_t sets, uint32_t n,
                       uint32_t inputs);
void *raw_alloc(size_t bytes);

uint64_t raw_now_ns(void);
/* Run the calling thread on this core only; negative: on every core it started with. */
void raw_use_core(int core);

/* Say which twin comes next, so that one that ends the process can be named. */
void raw_begin(const char *id);
void raw_absent(const char *id, const char *what);
/* Sorts the series. Prints one JSON line; each sample is the time of `calls` calls. */
void raw_report(const char *id, uint64_t *samples, uint32_t count, uint32_t calls);
void raw_report_rate(const char *id, uint32_t threads, double launches_per_second);
/* Whether `id` is among `ids`, separated by commas; NULL has all. */
bool raw_wanted(const char *ids, const char *id);

#ifdef __cplusplus
}
#endif

#endif
