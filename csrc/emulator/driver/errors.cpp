// cuGetErrorName and cuGetErrorString for every result of CUDA 13.0.
#include "call.h"

namespace emulator {
namespace {

struct Row {
  CUresult result;
  const char *name;
  const char *text;
};

#define ROW(name, text) {name, #name, text}
constexpr Row kRows[] = {
    ROW(CUDA_SUCCESS, "no error"),
    ROW(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ROW(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ROW(CUDA_ERROR_NOT_INITIALIZED, "the driver is not initialized"),
    ROW(CUDA_ERROR_DEINITIALIZED, "the driver is shutting down"),
    ROW(CUDA_ERROR_PROFILER_DISABLED, "the profiler is disabled"),
    ROW(CUDA_ERROR_PROFILER_NOT_INITIALIZED, "the profiler is not initialized"),
    ROW(CUDA_ERROR_PROFILER_ALREADY_STARTED, "the profiler has already started"),
    ROW(CUDA_ERROR_PROFILER_ALREADY_STOPPED, "the profiler has already stopped"),
    ROW(CUDA_ERROR_STUB_LIBRARY, "the driver library is a stub"),
    ROW(CUDA_ERROR_DEVICE_UNAVAILABLE, "the device is busy or unavailable"),
    ROW(CUDA_ERROR_NO_DEVICE, "no device was found"),
    ROW(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ROW(CUDA_ERROR_DEVICE_NOT_LICENSED, "the device has no license"),
    ROW(CUDA_ERROR_INVALID_IMAGE, "invalid module image"),
    ROW(CUDA_ERROR_INVALID_CONTEXT, "no context, or an invalid one, is current"),
    ROW(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "the context is already current"),
    ROW(CUDA_ERROR_MAP_FAILED, "mapping failed"),
    ROW(CUDA_ERROR_UNMAP_FAILED, "unmapping failed"),
    ROW(CUDA_ERROR_ARRAY_IS_MAPPED, "the array is mapped"),
    ROW(CUDA_ERROR_ALREADY_MAPPED, "the resource is already mapped"),
    ROW(CUDA_ERROR_NO_BINARY_FOR_GPU, "the image has no code for this device"),
    ROW(CUDA_ERROR_ALREADY_ACQUIRED, "the resource is already acquired"),
    ROW(CUDA_ERROR_NOT_MAPPED, "the resource is not mapped"),
    ROW(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, "the resource is not mapped as an array"),
    ROW(CUDA_ERROR_NOT_MAPPED_AS_POINTER, "the resource is not mapped as a pointer"),
    ROW(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable memory error"),
    ROW(CUDA_ERROR_UNSUPPORTED_LIMIT, "the device does not have this limit"),
    ROW(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "another thread uses the context"),
    ROW(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "the devices cannot access each other"),
    ROW(CUDA_ERROR_INVALID_PTX, "the PTX could not be compiled"),
    ROW(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "invalid graphics context"),
    ROW(CUDA_ERROR_NVLINK_UNCORRECTABLE, "uncorrectable NVLink error"),
    ROW(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "the PTX compiler library was not found"),
    ROW(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the PTX version is newer than the driver"),
    ROW(CUDA_ERROR_JIT_COMPILATION_DISABLED, "PTX compilation is disabled"),
    ROW(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
        "the device does not support this execution affinity"),
    ROW(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC, "synchronizing inside a kernel is not supported"),
    ROW(CUDA_ERROR_INVALID_SOURCE, "invalid source"),
    ROW(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    ROW(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "a shared object lacks a symbol"),
    ROW(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "a shared object failed to initialize"),
    ROW(CUDA_ERROR_OPERATING_SYSTEM, "an operating system call failed"),
    ROW(CUDA_ERROR_INVALID_HANDLE, "invalid handle"),
    ROW(CUDA_ERROR_ILLEGAL_STATE, "the resource is in the wrong state"),
    ROW(CUDA_ERROR_LOSSY_QUERY, "the answer would lose information"),
    ROW(CUDA_ERROR_NOT_FOUND, "the named symbol was not found"),
    ROW(CUDA_ERROR_NOT_READY, "the device is not ready yet"),
    ROW(CUDA_ERROR_ILLEGAL_ADDRESS, "a kernel accessed an illegal address"),
    ROW(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the launch asked for too many resources"),
    ROW(CUDA_ERROR_LAUNCH_TIMEOUT, "the kernel ran too long and was stopped"),
    ROW(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, "incompatible texturing mode"),
    ROW(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    ROW(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access is not enabled"),
    ROW(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is active"),
    ROW(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was destroyed"),
    ROW(CUDA_ERROR_ASSERT, "an assertion in a kernel failed"),
    ROW(CUDA_ERROR_TOO_MANY_PEERS, "too many peers"),
    ROW(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "the host memory is already registered"),
    ROW(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the host memory is not registered"),
    ROW(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
    ROW(CUDA_ERROR_ILLEGAL_INSTRUCTION, "a kernel executed an illegal instruction"),
    ROW(CUDA_ERROR_MISALIGNED_ADDRESS, "a kernel accessed a misaligned address"),
    ROW(CUDA_ERROR_INVALID_ADDRESS_SPACE, "a kernel used an address of the wrong space"),
    ROW(CUDA_ERROR_INVALID_PC, "invalid program counter"),
    ROW(CUDA_ERROR_LAUNCH_FAILED, "a kernel failed"),
    ROW(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks for a cooperative launch"),
    ROW(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    ROW(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ROW(CUDA_ERROR_SYSTEM_NOT_READY, "the system is not ready"),
    ROW(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "display driver and CUDA driver do not match"),
    ROW(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
        "forward compatibility is not supported on this device"),
    ROW(CUDA_ERROR_MPS_CONNECTION_FAILED, "MPS: the connection failed"),
    ROW(CUDA_ERROR_MPS_RPC_FAILURE, "MPS: a remote call failed"),
    ROW(CUDA_ERROR_MPS_SERVER_NOT_READY, "MPS: the server is not ready"),
    ROW(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "MPS: too many clients"),
    ROW(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, "MPS: too many connections"),
    ROW(CUDA_ERROR_MPS_CLIENT_TERMINATED, "MPS: the client was terminated"),
    ROW(CUDA_ERROR_CDP_NOT_SUPPORTED, "launching from a kernel is not supported"),
    ROW(CUDA_ERROR_CDP_VERSION_MISMATCH, "versions for launching from a kernel do not match"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not permitted while a stream is capturing"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier error invalidated the capture"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would merge"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began in another stream"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a captured stream did not join again"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a dependency crosses the border of the capture"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "a dependency on the default stream while capturing"),
    ROW(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture"),
    ROW(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread began the capture"),
    ROW(CUDA_ERROR_TIMEOUT, "timed out"),
    ROW(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the instantiated graph could not be updated"),
    ROW(CUDA_ERROR_EXTERNAL_DEVICE, "an external device failed"),
    ROW(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid cluster size"),
    ROW(CUDA_ERROR_FUNCTION_NOT_LOADED, "the function is not loaded"),
    ROW(CUDA_ERROR_INVALID_RESOURCE_TYPE, "invalid resource type"),
    ROW(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "invalid resource configuration"),
    ROW(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef ROW

const Row *find(int64_t result) {
  for (const Row &row : kRows) {
    if (row.result == result) return &row;
  }
  return nullptr;
}

CUresult answer(int64_t result, const char **out, const char *Row::*column) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Row *const row = find(result);
  *out = row == nullptr ? nullptr : row->*column;
  return row == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuGetErrorName(CUresult result, const char **name) {
  return call(Call::cuGetErrorName, Need::nothing,
              [&] { return answer(number(result), name, &Row::name); });
}

CUresult CUDAAPI cuGetErrorString(CUresult result, const char **text) {
  return call(Call::cuGetErrorString, Need::nothing,
              [&] { return answer(number(result), text, &Row::text); });
}

}  // extern "C"
