/* The part of the CUDA driver API that this library and the emulator use: NVIDIA's binary interface
 * for 64-bit machines, declared here, so that no CUDA toolkit is needed to build them.
 *
 * Names, layouts and numbers are NVIDIA's; tests/binding/test_cuda_header.py compares all of them
 * with a cuda.h of theirs. Functions of which there are several binary interfaces have that of CUDA
 * 12.0 or newer, under the name that the driver exports, like there. */
#ifndef VYC_CUDA_H
#define VYC_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_values.h"

#define CUDAAPI
#define CUDA_CB

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef cuuint64_t CUgraphConditionalHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUkern_st *CUkernel;
typedef struct CUarray_st *CUarray;
typedef struct CUevent_st *CUevent;
typedef struct CUstream_st *CUstream;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUlinkState_st *CUlinkState;
typedef struct CUuserObject_st *CUuserObject;
typedef struct CUgraphEdgeData_st {
  unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;
typedef void(CUDA_CB *CUhostFn)(void *);
typedef size_t(CUDA_CB *CUoccupancyB2DSize)(int);

#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)
#define CU_LAUNCH_PARAM_END ((void *)0x00)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x02)

typedef struct CUuuid_st {
  char bytes[16];
} CUuuid;

typedef struct CUipcMemHandle_st {
  char reserved[64];
} CUipcMemHandle;

typedef struct CUDA_KERNEL_NODE_PARAMS_v2_st {
  CUfunction func;
  unsigned int gridDimX, gridDimY, gridDimZ;
  unsigned int blockDimX, blockDimY, blockDimZ;
  unsigned int sharedMemBytes;
  void **kernelParams;
  void **extra;
  CUkernel kern;
  CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

typedef struct CUDA_MEMSET_NODE_PARAMS_st {
  CUdeviceptr dst;
  size_t pitch;
  unsigned int value, elementSize;
  size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;

typedef struct CUDA_MEMCPY3D_st {
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  CUmemorytype srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  void *reserved0;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD;
  CUmemorytype dstMemoryType;
  void *dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  void *reserved1;
  size_t dstPitch, dstHeight;
  size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

/* An operation that waits for a word in memory or writes one, as node of a graph. */
struct CUstreamMemOpWriteValueParams_st {
  CUstreamBatchMemOpType operation;
  CUdeviceptr address;
  union {
    cuuint32_t value;
    cuuint64_t value64;
  };
  unsigned int flags;
  CUdeviceptr alias;
};

typedef union CUstreamBatchMemOpParams_union {
  CUstreamBatchMemOpType operation;
  struct CUstreamMemOpWriteValueParams_st writeValue;
  cuuint64_t pad[6];
} CUstreamBatchMemOpParams;

typedef struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v1_st {
  CUcontext ctx;
  unsigned int count;
  CUstreamBatchMemOpParams *paramArray;
  unsigned int flags;
} CUDA_BATCH_MEM_OP_NODE_PARAMS;

typedef struct CUDA_CONDITIONAL_NODE_PARAMS {
  CUgraphConditionalHandle handle;
  CUgraphConditionalNodeType type;
  unsigned int size;
  CUgraph *phGraph_out;
  CUcontext ctx;
} CUDA_CONDITIONAL_NODE_PARAMS;

/* Other kinds of nodes have functions of their own. */
typedef struct CUgraphNodeParams_st {
  CUgraphNodeType type;
  int reserved0[3];
  union {
    long long reserved1[29];
    CUDA_CONDITIONAL_NODE_PARAMS conditional;
  };
  long long reserved2;
} CUgraphNodeParams;

typedef CUlaunchAttributeID CUkernelNodeAttrID;
typedef union CUlaunchAttributeValue_union {
  cuuint64_t pad[8];
  int cooperative;
  int priority;
} CUkernelNodeAttrValue;

#define cuCtxDestroy cuCtxDestroy_v2
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuDeviceGetUuid cuDeviceGetUuid_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuGraphAddKernelNode cuGraphAddKernelNode_v2
#define cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2
#define cuIpcOpenMemHandle cuIpcOpenMemHandle_v2
#define cuLinkAddData cuLinkAddData_v2
#define cuLinkCreate cuLinkCreate_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemGetInfo cuMemGetInfo_v2
#define cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2
#define cuMemHostRegister cuMemHostRegister_v2
#define cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuStreamBeginCapture cuStreamBeginCapture_v2
#define cuStreamDestroy cuStreamDestroy_v2
#define cuStreamWaitValue32 cuStreamWaitValue32_v2
#define cuStreamWriteValue32 cuStreamWriteValue32_v2

#ifdef __cplusplus
extern "C" {
#endif
#ifdef VYC_CUDA_IS_EXPORTED /* by whoever defines these functions */
#pragma GCC visibility push(default)
#endif

CUresult CUDAAPI cuCtxDestroy(CUcontext);
CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext);
CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext, unsigned int);
CUresult CUDAAPI cuCtxGetCurrent(CUcontext *);
CUresult CUDAAPI cuCtxGetDevice(CUdevice *);
CUresult CUDAAPI cuCtxGetId(CUcontext, unsigned long long *);
CUresult CUDAAPI cuCtxPopCurrent(CUcontext *);
CUresult CUDAAPI cuCtxPushCurrent(CUcontext);
CUresult CUDAAPI cuCtxSetCurrent(CUcontext);
CUresult CUDAAPI cuCtxSynchronize(void);
CUresult CUDAAPI cuDeviceCanAccessPeer(int *, CUdevice, CUdevice);
CUresult CUDAAPI cuDeviceGet(CUdevice *, int);
CUresult CUDAAPI cuDeviceGetAttribute(int *, CUdevice_attribute, CUdevice);
CUresult CUDAAPI cuDeviceGetCount(int *);
CUresult CUDAAPI cuDeviceGetName(char *, int, CUdevice);
CUresult CUDAAPI cuDeviceGetUuid(CUuuid *, CUdevice);
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice);
CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult CUDAAPI cuDeviceTotalMem(size_t *, CUdevice);
CUresult CUDAAPI cuDriverGetVersion(int *);
CUresult CUDAAPI cuEventCreate(CUevent *, unsigned int);
CUresult CUDAAPI cuEventDestroy(CUevent);
CUresult CUDAAPI cuEventElapsedTime(float *, CUevent, CUevent);
CUresult CUDAAPI cuEventQuery(CUevent);
CUresult CUDAAPI cuEventRecord(CUevent, CUstream);
CUresult CUDAAPI cuEventRecordWithFlags(CUevent, CUstream, unsigned int);
CUresult CUDAAPI cuEventSynchronize(CUevent);
CUresult CUDAAPI cuFuncGetAttribute(int *, CUfunction_attribute, CUfunction);
CUresult CUDAAPI cuFuncGetParamInfo(CUfunction, size_t, size_t *, size_t *);
CUresult CUDAAPI cuFuncSetAttribute(CUfunction, CUfunction_attribute, int);
CUresult CUDAAPI cuGetErrorName(CUresult, const char **);
CUresult CUDAAPI cuGetErrorString(CUresult, const char **);
CUresult CUDAAPI cuGetProcAddress_v2(const char *, void **, int, cuuint64_t,
                                     CUdriverProcAddressQueryResult *);
CUresult CUDAAPI cuGraphAddBatchMemOpNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                                          const CUDA_BATCH_MEM_OP_NODE_PARAMS *);
CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                                      const CUDA_KERNEL_NODE_PARAMS *);
CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                                      const CUDA_MEMCPY3D *, CUcontext);
CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                                      const CUDA_MEMSET_NODE_PARAMS *, CUcontext);
CUresult CUDAAPI cuGraphClone(CUgraph *, CUgraph);
CUresult CUDAAPI cuGraphConditionalHandleCreate(CUgraphConditionalHandle *, CUgraph, CUcontext,
                                                unsigned int, unsigned int);
CUresult CUDAAPI cuGraphCreate(CUgraph *, unsigned int);
CUresult CUDAAPI cuGraphDestroy(CUgraph);
CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec);
CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec, CUgraphNode,
                                                const CUDA_KERNEL_NODE_PARAMS *);
CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D *,
                                                CUcontext);
CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec, CUgraphNode,
                                                const CUDA_MEMSET_NODE_PARAMS *, CUcontext);
CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode, CUkernelNodeAttrID,
                                               const CUkernelNodeAttrValue *);
CUresult CUDAAPI cuGraphLaunch(CUgraphExec, CUstream);
CUresult CUDAAPI cuGraphRetainUserObject(CUgraph, CUuserObject, unsigned int, unsigned int);
CUresult CUDAAPI cuInit(unsigned int);
CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction, unsigned int, unsigned int, unsigned int,
                                           unsigned int, unsigned int, unsigned int, unsigned int,
                                           CUstream, void **);
CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr);
CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *, CUdeviceptr);
CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *, CUipcMemHandle, unsigned int);
CUresult CUDAAPI cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
                                unsigned int, unsigned int, unsigned int, CUstream, void **,
                                void **);
CUresult CUDAAPI cuLinkAddData(CUlinkState, CUjitInputType, void *, size_t, const char *,
                               unsigned int, CUjit_option *, void **);
CUresult CUDAAPI cuLinkComplete(CUlinkState, void **, size_t *);
CUresult CUDAAPI cuLinkCreate(unsigned int, CUjit_option *, void **, CUlinkState *);
CUresult CUDAAPI cuLinkDestroy(CUlinkState);
CUresult CUDAAPI cuMemAlloc(CUdeviceptr *, size_t);
CUresult CUDAAPI cuMemFree(CUdeviceptr);
CUresult CUDAAPI cuMemFreeHost(void *);
CUresult CUDAAPI cuMemGetInfo(size_t *, size_t *);
CUresult CUDAAPI cuMemHostAlloc(void **, size_t, unsigned int);
CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *, void *, unsigned int);
CUresult CUDAAPI cuMemHostRegister(void *, size_t, unsigned int);
CUresult CUDAAPI cuMemHostUnregister(void *);
CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr, CUdeviceptr, size_t, CUstream);
CUresult CUDAAPI cuMemcpyDtoH(void *, CUdeviceptr, size_t);
CUresult CUDAAPI cuMemcpyDtoHAsync(void *, CUdeviceptr, size_t, CUstream);
CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr, const void *, size_t);
CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr, const void *, size_t, CUstream);
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t,
                                   CUstream);
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr, unsigned short, size_t, CUstream);
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr, unsigned int, size_t, CUstream);
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, CUstream);
CUresult CUDAAPI cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult CUDAAPI cuModuleLoadData(CUmodule *, const void *);
CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *, const void *, unsigned int, CUjit_option *,
                                    void **);
CUresult CUDAAPI cuModuleUnload(CUmodule);
CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, CUfunction, int, size_t);
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int *, int *, CUfunction, CUoccupancyB2DSize,
                                                  size_t, int);
CUresult CUDAAPI cuPointerGetAttribute(void *, CUpointer_attribute, CUdeviceptr);
CUresult CUDAAPI cuPointerGetAttributes(unsigned int, CUpointer_attribute *, void **, CUdeviceptr);
CUresult CUDAAPI cuLaunchHostFunc(CUstream, CUhostFn, void *);
CUresult CUDAAPI cuStreamBeginCapture(CUstream, CUstreamCaptureMode);
CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream, CUgraph, const CUgraphNode *,
                                             const CUgraphEdgeData *, size_t, CUstreamCaptureMode);
CUresult CUDAAPI cuStreamCreate(CUstream *, unsigned int);
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *, unsigned int, int);
CUresult CUDAAPI cuStreamDestroy(CUstream);
CUresult CUDAAPI cuStreamEndCapture(CUstream, CUgraph *);
CUresult CUDAAPI cuStreamIsCapturing(CUstream, CUstreamCaptureStatus *);
CUresult CUDAAPI cuStreamQuery(CUstream);
CUresult CUDAAPI cuStreamSynchronize(CUstream);
CUresult CUDAAPI cuStreamWaitEvent(CUstream, CUevent, unsigned int);
CUresult CUDAAPI cuStreamWaitValue32(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
CUresult CUDAAPI cuStreamWriteValue32(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *);
CUresult CUDAAPI cuUserObjectCreate(CUuserObject *, void *, CUhostFn, unsigned int, unsigned int);
CUresult CUDAAPI cuUserObjectRelease(CUuserObject, unsigned int);

#ifdef VYC_CUDA_IS_EXPORTED
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
