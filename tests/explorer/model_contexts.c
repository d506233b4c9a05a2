/* The model's two devices, a context of each, and what is current in each thread. */
#define CUDA_NO_PROTOTYPE
#include <stdio.h>

#include "model_parts.h"

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
  *count = MODEL_DEVICES;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuDeviceGetName(char *text, int room, CUdevice device) {
  (void)device;
  snprintf(text, (size_t)room, "model");
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  memset(uuid, 7 + device, sizeof *uuid);
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
  *context = CONTEXT((uint32_t)device);
  the_model->holders[device]++;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuDevicePrimaryCtxRelease(CUdevice device) {
  if (--the_model->holders[device] < 0) explorer_fail("the primary context is given up too often");
  return CUDA_SUCCESS;
}

uint32_t device_now(void) { return the_model->current[explorer->current] == CONTEXT(1); }

static CUresult CUDAAPI model_cuCtxGetCurrent(CUcontext *context) {
  ALONE("cuCtxGetCurrent");
  *context = the_model->current[explorer->current];
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuCtxSetCurrent(CUcontext context) {
  ALONE("cuCtxSetCurrent");
  the_model->current[explorer->current] = context;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuCtxGetDevice(CUdevice *device) {
  *device = (CUdevice)device_now();
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuCtxGetId(CUcontext context, unsigned long long *id) {
  *id = context == CONTEXT(1) ? 2 : 1;
  return CUDA_SUCCESS;
}

/* ---- from one device to the other ------------------------------------------------------------ */

static CUresult CUDAAPI model_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice other) {
  *can = device != other;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuCtxEnablePeerAccess(CUcontext other, unsigned flags) {
  (void)flags;
  NAMES(other);
  bool *const reaches = &the_model->reaches[device_now()][other == CONTEXT(1)];
  if (*reaches) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  *reaches = true;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  ALONE("cuThreadExchangeStreamCaptureMode");
  const CUstreamCaptureMode before = the_model->mode[explorer->current];
  the_model->mode[explorer->current] = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

#define MODELLED(X)                                                                                \
  X(cuInit)                                                                                        \
  X(cuDriverGetVersion)                                                                            \
  X(cuGetErrorName)                                                                                \
  X(cuDeviceGet)                                                                                   \
  X(cuDeviceGetCount)                                                                              \
  X(cuDeviceGetName)                                                                               \
  X(cuDeviceGetUuid)                                                                               \
  X(cuDeviceTotalMem)                                                                              \
  X(cuDeviceGetAttribute)                                                                          \
  X(cuDevicePrimaryCtxRetain)                                                                      \
  X(cuDevicePrimaryCtxRelease)                                                                     \
  X(cuCtxGetCurrent)                                                                               \
  X(cuDeviceCanAccessPeer)                                                                         \
  X(cuCtxEnablePeerAccess)                                                                         \
  X(cuCtxSetCurrent) X(cuCtxGetDevice) X(cuCtxGetId) X(cuThreadExchangeStreamCaptureMode)
const model_row model_context_rows[] = {MODELLED(MODEL_ROW){NULL, NULL}};
