/* A driver that is the emulator named by VYC_STOPS_DRIVER, with a hook in front of and behind the
 * calls below: what another thread does while one is stopped there happens every time. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/cuda.h"

typedef void (*stops_hook)(const char *call, int behind);

static stops_hook hook;

__attribute__((visibility("default"))) void stops_set(stops_hook to) {
  __atomic_store_n(&hook, to, __ATOMIC_SEQ_CST);
}

static void stop(const char *call, int behind) {
  const stops_hook now = __atomic_load_n(&hook, __ATOMIC_SEQ_CST);
  if (now != NULL) now(call, behind);
}

#define STOP_TABLE(X)                                                                              \
  X(cuGraphLaunch, (CUgraphExec a, CUstream b), (a, b))                                            \
  X(cuCtxGetCurrent, (CUcontext * a), (a))                                                         \
  X(cuEventCreate, (CUevent * a, unsigned b), (a, b))                                              \
  X(cuStreamQuery, (CUstream a), (a))                                                              \
  X(cuEventRecord, (CUevent a, CUstream b), (a, b))                                                \
  X(cuStreamWaitEvent, (CUstream a, CUevent b, unsigned c), (a, b, c))                             \
  X(cuMemcpyHtoDAsync, (CUdeviceptr a, const void *b, size_t c, CUstream d), (a, b, c, d))         \
  X(cuMemcpyDtoDAsync, (CUdeviceptr a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d))         \
  X(cuMemcpyDtoHAsync, (void *a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d))               \
  X(cuMemsetD32Async, (CUdeviceptr a, unsigned b, size_t c, CUstream d), (a, b, c, d))             \
  X(cuLaunchKernel,                                                                                \
    (CUfunction a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g,         \
     unsigned h, CUstream i, void **j, void **k),                                                  \
    (a, b, c, d, e, f, g, h, i, j, k))

#define STOP_DEFINE(name, parameters, arguments)                                                   \
  static CUresult(*real_##name) parameters;                                                        \
  static CUresult stopped_##name parameters {                                                      \
    stop(#name, 0);                                                                                \
    const CUresult result = real_##name arguments;                                                 \
    stop(#name, 1);                                                                                \
    return result;                                                                                 \
  }
#undef cuMemcpyHtoDAsync
#undef cuMemcpyDtoDAsync
#undef cuMemcpyDtoHAsync
#undef cuMemsetD32Async
STOP_TABLE(STOP_DEFINE)

typedef CUresult (*look_up)(const char *, void **, int, cuuint64_t,
                            CUdriverProcAddressQueryResult *);

__attribute__((visibility("default"))) CUresult
cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                    CUdriverProcAddressQueryResult *found) {
  void *emulator = dlopen(getenv("VYC_STOPS_DRIVER"), RTLD_NOW);
  look_up real = NULL;
  if (emulator != NULL) *(void **)&real = dlsym(emulator, "cuGetProcAddress_v2");
  if (real == NULL) return CUDA_ERROR_NOT_FOUND;
  const CUresult result = real(name, out, version, flags, found);
#define STOP_PUT(call, parameters, arguments)                                                      \
  if (result == CUDA_SUCCESS && strcmp(name, #call) == 0) {                                        \
    *(void **)&real_##call = *out;                                                                 \
    *(void **)out = (void *)stopped_##call;                                                        \
  }
  STOP_TABLE(STOP_PUT)
  return result;
}
