/* The driver functions this library calls, declared once.
 *
 * VYC_DRIVER_TABLE is the only list: it declares the pointers below, drives the loader in
 * driver.c, and the emulator builds its cuGetProcAddress from it, so a function that is named here
 * and missing there does not link. `since` is the CUDA version (major * 1000 + minor * 10) that is
 * handed to cuGetProcAddress: it selects the ABI variant that the header declares.
 * A vyc_driver is one open library. The CUDA driver and the emulator may be open side by side. */
#ifndef VYC_DRIVER_H
#define VYC_DRIVER_H

#include "cuda.h"
#include "vyre_cuda/driver.h"

/* clang-format off */
#define VYC_DRIVER_TABLE(X)                       \
  X(cuInit, 2000)                                 \
  X(cuDriverGetVersion, 2020)                     \
  X(cuGetErrorName, 6000)                         \
  X(cuGetErrorString, 6000)                       \
  X(cuDeviceGet, 2000)                            \
  X(cuDeviceGetCount, 2000)                       \
  X(cuDeviceGetName, 2000)                        \
  X(cuDeviceGetUuid, 11040)                       \
  X(cuDeviceTotalMem, 3020)                       \
  X(cuDeviceGetAttribute, 2000)                   \
  X(cuDevicePrimaryCtxRetain, 7000)               \
  X(cuDevicePrimaryCtxRelease, 11000)             \
  X(cuCtxGetCurrent, 4000)                        \
  X(cuCtxSetCurrent, 4000)                        \
  X(cuCtxGetDevice, 2000)                         \
  X(cuCtxGetId, 12000)                            \
  X(cuThreadExchangeStreamCaptureMode, 10010)     \
  X(cuStreamCreate, 2000)                         \
  X(cuStreamDestroy, 4000)                        \
  X(cuStreamSynchronize, 2000)                    \
  X(cuStreamQuery, 2000)                          \
  X(cuStreamWaitEvent, 3020)                      \
  X(cuStreamWaitValue32, 11070)                   \
  X(cuStreamWriteValue32, 11070)                  \
  X(cuStreamIsCapturing, 10000)                   \
  X(cuStreamEndCapture, 10000)                    \
  X(cuEventCreate, 2000)                          \
  X(cuEventDestroy, 4000)                         \
  X(cuEventRecord, 2000)                          \
  X(cuEventQuery, 2000)                           \
  X(cuEventElapsedTime, 2000)                     \
  X(cuMemAlloc, 3020)                             \
  X(cuMemFree, 3020)                              \
  X(cuMemGetInfo, 3020)                           \
  X(cuMemHostAlloc, 2020)                         \
  X(cuMemFreeHost, 2000)                          \
  X(cuPointerGetAttribute, 4000)                  \
  X(cuMemHostGetDevicePointer, 3020)              \
  X(cuMemHostRegister, 6050)                      \
  X(cuMemHostUnregister, 4000)                    \
  X(cuMemcpyHtoDAsync, 3020)                      \
  X(cuMemcpyDtoHAsync, 3020)                      \
  X(cuMemcpyDtoDAsync, 3020)                      \
  X(cuMemcpyPeerAsync, 4000)                      \
  X(cuDeviceCanAccessPeer, 4000)                  \
  X(cuCtxEnablePeerAccess, 4000)                  \
  X(cuMemsetD8Async, 3020)                        \
  X(cuMemsetD16Async, 3020)                       \
  X(cuMemsetD32Async, 3020)                       \
  X(cuModuleLoadDataEx, 2010)                     \
  X(cuModuleUnload, 2000)                         \
  X(cuModuleGetFunction, 2000)                    \
  X(cuFuncGetAttribute, 2020)                     \
  X(cuFuncSetAttribute, 9000)                     \
  X(cuLaunchKernel, 4000)                         \
  X(cuLaunchCooperativeKernel, 9000)              \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050) \
  X(cuOccupancyMaxPotentialBlockSize, 6050)       \
  X(cuLinkCreate, 6050)                           \
  X(cuLinkAddData, 6050)                          \
  X(cuLinkComplete, 5050)                         \
  X(cuLinkDestroy, 5050)                          \
  X(cuGraphCreate, 10000)                         \
  X(cuGraphDestroy, 10000)                        \
  X(cuGraphAddKernelNode, 12000)                  \
  X(cuGraphKernelNodeSetAttribute, 11000)         \
  X(cuGraphAddBatchMemOpNode, 11070)              \
  X(cuGraphAddMemcpyNode, 10000)                  \
  X(cuGraphAddMemsetNode, 10000)                  \
  X(cuGraphInstantiateWithFlags, 11040)           \
  X(cuGraphExecKernelNodeSetParams, 12000)        \
  X(cuGraphExecMemcpyNodeSetParams, 10020)        \
  X(cuGraphExecMemsetNodeSetParams, 10020)        \
  X(cuGraphExecDestroy, 10000)                    \
  X(cuGraphLaunch, 10000)

/* Functions that only newer drivers have: NULL in a vyc_driver if they are missing. */
#define VYC_DRIVER_OPTIONAL_TABLE(X)              \
  X(cuFuncGetParamInfo, 12040)                    \
  X(cuIpcGetMemHandle, 4010)                      \
  X(cuIpcOpenMemHandle, 11000)                    \
  X(cuIpcCloseMemHandle, 4010)                    \
  X(cuGraphConditionalHandleCreate, 12030)        \
  X(cuStreamBeginCaptureToGraph, 12030)           \
  X(cuUserObjectCreate, 11030)                    \
  X(cuUserObjectRelease, 11030)                   \
  X(cuGraphRetainUserObject, 11030)

/* The same with the type written out, because headers of several CUDA versions declare several ABIs
 * under the name; `since` is that of the type. */
#define VYC_DRIVER_VERSIONED_TABLE(X)                                   \
  X(cuGraphAddNode, 12020, vyc_graph_add_node_function)                 \
  X(cuStreamGetCaptureInfo, 11030, vyc_stream_capture_function)         \
  X(cuStreamUpdateCaptureDependencies, 11030, vyc_stream_depend_function)
/* clang-format on */

typedef CUresult(CUDAAPI *vyc_graph_add_node_function)(CUgraphNode *node_out, CUgraph graph,
                                                       const CUgraphNode *dependencies,
                                                       size_t dependency_count,
                                                       CUgraphNodeParams *params);
typedef CUresult(CUDAAPI *vyc_stream_capture_function)(CUstream stream,
                                                       CUstreamCaptureStatus *status_out,
                                                       cuuint64_t *id_out, CUgraph *graph_out,
                                                       const CUgraphNode **nodes_out,
                                                       size_t *count_out);
typedef CUresult(CUDAAPI *vyc_stream_depend_function)(CUstream stream, CUgraphNode *nodes,
                                                      size_t count, unsigned int flags);

/* What the emulator exports besides the driver's functions; its presence identifies it. */
#define VYC_EMULATOR_MARK "vyre_emulator_set"
/* See emulator/control.h. */
#define VYC_EMULATOR_UNSPECIFIED "vyre_emulator_unspecified"
typedef int (*vyc_unspecified_function)(uint64_t report, uint32_t binding, uint64_t address,
                                        uint64_t bytes);

#define VYC_EMULATOR_TEMPORARY_LIKE "vyre_emulator_temporary_like"
typedef void (*vyc_temporary_function)(uint64_t of, uint64_t address);

/* The oldest driver API this library works with. */
#define VYC_DRIVER_MINIMUM 12000

#ifndef __cplusplus /* the emulator, in C++, takes the table only: the members hide the functions  \
                     */
struct vyc_driver {
#define VYC_DRIVER_POINTER(name, since) __typeof__(&name) name;
  VYC_DRIVER_TABLE(VYC_DRIVER_POINTER)
  VYC_DRIVER_OPTIONAL_TABLE(VYC_DRIVER_POINTER)
#undef VYC_DRIVER_POINTER
#define VYC_DRIVER_POINTER(name, since, type) type name;
  VYC_DRIVER_VERSIONED_TABLE(VYC_DRIVER_POINTER)
#undef VYC_DRIVER_POINTER
  void *library; /* never closed: the CUDA driver does not survive dlclose */
  int32_t version;
  int32_t device_count;
  int32_t is_emulator;
  vyc_unspecified_function unspecified; /* the emulator's, like the next */
  vyc_temporary_function temporary_like;
  uint32_t references;
};

/* Adds a holder of the driver. */
vyc_driver *vyc__driver_retain(vyc_driver *driver);

/* A CUresult's name ("CUDA_ERROR_..."), never NULL. */
const char *vyc__driver_result_name(const vyc_driver *driver, CUresult result);
#endif /* __cplusplus */

#endif
