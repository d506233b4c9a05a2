/* The model's device, its one context, and what is current in each thread. */
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
  the_model->holders++;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuDevicePrimaryCtxRelease(CUdevice device) {
  (void)device;
  if (--the_model->holders < 0) explorer_fail("the primary context is given up too often");
  return CUDA_SUCCESS;
}

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
  *device = 0;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuCtxGetId(CUcontext context, unsigned long long *id) {
  (void)context;
  *id = 1;
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
  X(cuDeviceGetName) X(cuDeviceGetUuid) X(cuDeviceTotalMem) X(cuDeviceGetAttribute)                \
      X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxGetCurrent)                  \
          X(cuCtxSetCurrent) X(cuCtxGetDevice) X(cuCtxGetId) X(cuThreadExchangeStreamCaptureMode)
const model_row model_context_rows[] = {MODELLED(MODEL_ROW){NULL, NULL}};
