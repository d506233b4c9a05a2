/* The model's modules, whose code is a kernel of eight bytes, and launches of it. */
#define CUDA_NO_PROTOTYPE
#include "model_parts.h"

static CUresult CUDAAPI model_cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count,
                                                 CUjit_option *options, void **values) {
  (void)image;
  (void)count;
  (void)options;
  (void)values;
  const uintptr_t room = (uintptr_t)take(256); /* handles of functions have more in lower bits */
  *out = (CUmodule)((room + 127) & ~(uintptr_t)127);
  the_model->live_modules++;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuModuleUnload(CUmodule module) {
  WORKS_WITH_ALL();
  for (uint32_t i = 0; i < the_model->stream_count; i++)
    for (const work *w = the_model->streams[i]->first; w != NULL; w = w->next)
      for (uint32_t j = 0; j < w->node_count; j++)
        if (w->nodes[j].kernel.module == module)
          explorer_fail("cuModuleUnload of a kernel that is in flight");
  the_model->live_modules--;
  return CUDA_SUCCESS;
}

/* Names of a bundle have more behind that of the program. */
static bool begins_with(const char *text, const char *beginning) {
  return strncmp(text, beginning, strlen(beginning)) == 0;
}

static CUresult CUDAAPI model_cuModuleGetFunction(CUfunction *out, CUmodule module,
                                                  const char *text) {
  const uint64_t kind = strcmp(text, MODEL_ASSERTING) == 0  ? ASSERTING
                        : strcmp(text, MODEL_ROWS) == 0     ? ROWS
                        : strcmp(text, MODEL_PLACES) == 0   ? ROWS | PLACES
                        : strcmp(text, MODEL_RESIDENT) == 0 ? RESIDENT
                        : strcmp(text, MODEL_GATHERS) == 0  ? GATHERS
                        : strcmp(text, MODEL_REDUCES) == 0  ? REDUCES
                        : begins_with(text, MODEL_MERGED)   ? MERGED
                        : begins_with(text, MODEL_CELLS)    ? CELLS
                                                            : 0;
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

static CUresult CUDAAPI model_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                                          CUfunction function,
                                                                          int threads,
                                                                          size_t shared) {
  (void)function, (void)threads, (void)shared;
  *blocks = 8;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuOccupancyMaxPotentialBlockSize(int *blocks, int *threads,
                                                               CUfunction function,
                                                               CUoccupancyB2DSize shared_of,
                                                               size_t shared, int limit) {
  (void)function, (void)shared_of, (void)shared, (void)limit;
  *blocks = 8;
  *threads = 256;
  return CUDA_SUCCESS;
}

/* A copy for each of its blocks. */
static CUresult give_gathering(stream *s, CUfunction function, unsigned rows, void **parameters) {
  work *w = give(s, WORK_KERNEL);
  model_kernel whole = {.count = 1,
                        .gathers = true,
                        .module =
                            (const void *)((uintptr_t)(void *)function & ~(uintptr_t)GATHERS)};
  if (rows > MODEL_NODES) explorer_fail("a launch that reads %u ranges", rows);
  w->node_count = rows;
  for (unsigned i = 0; i < rows; i++) {
    uint64_t row[3]; /* vyc_gather_row: from, distance, end */
    memcpy(row, (const uint8_t *)parameters[0] + i * sizeof row, sizeof row);
    w->nodes[i] = (node){.kind = WORK_COPY,
                         .to = row[0] + row[1],
                         .from = row[0],
                         .bytes = row[2] - row[0],
                         .kernel = {.module = whole.module}};
  }
  kernel_given(&whole, 0, 1);
  return given();
}

static CUresult CUDAAPI model_cuLaunchKernel(CUfunction function, unsigned x, unsigned y,
                                             unsigned z, unsigned bx, unsigned by, unsigned bz,
                                             unsigned shared, CUstream handle, void **parameters,
                                             void **extra) {
  (void)y, (void)z, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
  WORKS(handle);
  if (the_model->faulted) return given();
  if (((uintptr_t)(void *)function & RESIDENT) != 0) {
    resident_given(give(stream_of(handle, "cuLaunchKernel"), WORK_RESIDENT), (void *)function,
                   parameters);
    return given();
  }
  if (((uintptr_t)(void *)function & GATHERS) != 0) {
    const bool apart = the_model->plant == MODEL_GATHERS_APART;
    const CUstream to = apart ? (CUstream)(uintptr_t)model_stream_of_others() : handle;
    return give_gathering(stream_of(to, "cuLaunchKernel"), function, x, parameters);
  }
  model_kernel kernel = kernel_of(function, parameters);
  if (kernel.reduce != NULL && the_model->hooks.refuses()) return CUDA_ERROR_INVALID_VALUE;
  work *w = give(stream_of(handle, "cuLaunchKernel"), WORK_KERNEL);
  if (kernel.reduce != NULL) reduce_given(&kernel);
  w->node_count = 1;
  w->nodes[0] = (node){.kind = WORK_KERNEL, .kernel = kernel};
  if (w->nodes[0].kernel.row != 0)
    rows_given(w);
  else
    kernel_given(&w->nodes[0].kernel, 0, 1);
  return given();
}

#define MODELLED(X)                                                                                \
  X(cuModuleLoadDataEx)                                                                            \
  X(cuModuleUnload)                                                                                \
  X(cuModuleGetFunction)                                                                           \
  X(cuFuncGetAttribute)                                                                            \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor)                                                   \
  X(cuOccupancyMaxPotentialBlockSize) X(cuLaunchKernel)
const model_row model_kernel_rows[] = {MODELLED(MODEL_ROW){NULL, NULL}};
