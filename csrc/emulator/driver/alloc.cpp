// Allocation, registration and queries of device and pinned memory.
//
// A free waits, as the driver's does, for all work that was queued before it.
#include "state.h"

namespace emulator {
namespace {

constexpr unsigned kAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags =
    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;

uint64_t address_of(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

// `missing` is the answer when no block of this kind begins at the address.
CUresult release(uint64_t begin, Kind kind, CUresult missing) {
  State &s = state();
  int device = 0;
  {
    Lock lock(s.mutex);
    const std::shared_ptr<Block> block = s.heap.starting(begin);
    if (block == nullptr || block->kind != kind) return missing;
    device = block->device;
    s.engine.finish(lock, s.engine.pending(device));
  }
  return s.heap.release(begin, kind, settings().quarantine_bytes) ? outcome(device) : missing;
}

// One attribute of the block that holds `address`. Sizes and types are the driver's, by attribute.
CUresult attribute_of(const Block &block, uint64_t address, int64_t attribute, void *data) {
  const bool host = block.kind != Kind::device;
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    *static_cast<CUcontext *>(data) = primary_context(block.device);
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *static_cast<unsigned *>(data) = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    *static_cast<CUdeviceptr *>(data) = address;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    if (!host) return CUDA_ERROR_INVALID_VALUE;
    *static_cast<void **>(data) = block.at(address);
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    *static_cast<unsigned long long *>(data) = block.id;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED: *static_cast<unsigned *>(data) = 0; return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    *static_cast<int *>(data) = block.device;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    *static_cast<CUdeviceptr *>(data) = block.begin;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    *static_cast<size_t *>(data) = block.size;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_MAPPED: *static_cast<unsigned *>(data) = 1; return CUDA_SUCCESS;
  default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// What cuPointerGetAttributes gives for memory that the driver does not know.
void clear_attribute(int64_t attribute, void *data) {
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
  case CU_POINTER_ATTRIBUTE_MAPPED: *static_cast<unsigned *>(data) = 0; return;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int *>(data) = -2; return;
  case CU_POINTER_ATTRIBUTE_CONTEXT:
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *static_cast<uint64_t *>(data) = 0; return;
  default: return;
  }
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *pointer, size_t bytes) {
  return call(Call::cuMemAlloc, Need::context, [&]() -> CUresult {
    if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    const auto block =
        state().heap.allocate(current_device(), Kind::device, bytes, 0, settings().memory_limit);
    if (block == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    *pointer = block->begin;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemFree(CUdeviceptr pointer) {
  return call(Call::cuMemFree, Need::release, [&]() -> CUresult {
    if (pointer == 0) return CUDA_SUCCESS;
    return release(pointer, Kind::device, CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult CUDAAPI cuMemGetInfo(size_t *available, size_t *total) {
  return call(Call::cuMemGetInfo, Need::context, [&]() -> CUresult {
    if (available == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t limit = static_cast<uint64_t>(settings().memory_limit);
    const uint64_t used = state().heap.device_bytes(current_device());
    *available = used < limit ? limit - used : 0;
    *total = limit;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags) {
  return call(Call::cuMemHostAlloc, Need::context, [&]() -> CUresult {
    if (pointer == nullptr || bytes == 0 || (flags & ~kAllocFlags) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    const auto block =
        state().heap.allocate(current_device(), Kind::pinned, bytes, flags, settings().host_limit);
    if (block == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    *pointer = block->at(block->begin);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemFreeHost(void *pointer) {
  return call(Call::cuMemFreeHost, Need::release,
              [&] { return release(address_of(pointer), Kind::pinned, CUDA_ERROR_INVALID_VALUE); });
}

CUresult CUDAAPI cuMemHostRegister(void *pointer, size_t bytes, unsigned int flags) {
  return call(Call::cuMemHostRegister, Need::context, [&]() -> CUresult {
    const uint64_t begin = address_of(pointer);
    if (pointer == nullptr || bytes == 0 || (flags & ~kRegisterFlags) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (begin + bytes < begin) return CUDA_ERROR_INVALID_VALUE;
    return state().heap.enter(current_device(), begin, bytes, flags)
               ? CUDA_SUCCESS
               : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  });
}

CUresult CUDAAPI cuMemHostUnregister(void *pointer) {
  return call(Call::cuMemHostUnregister, Need::release, [&]() -> CUresult {
    if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return release(address_of(pointer), Kind::registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  });
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *device, void *host, unsigned int flags) {
  return call(Call::cuMemHostGetDevicePointer, Need::context, [&]() -> CUresult {
    if (device == nullptr || host == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const auto block = state().heap.find(address_of(host), 1);
    if (block == nullptr || block->kind == Kind::device || !reaches(current_device(), *block))
      return CUDA_ERROR_INVALID_VALUE;
    *device = address_of(host);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                       CUdeviceptr pointer) {
  return call(Call::cuPointerGetAttribute, Need::context, [&]() -> CUresult {
    if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto block = state().heap.find(pointer, 1);
    if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return attribute_of(*block, pointer, number(attribute), data);
  });
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
                                        void **data, CUdeviceptr pointer) {
  return call(Call::cuPointerGetAttributes, Need::context, [&]() -> CUresult {
    if (count == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto block = state().heap.find(pointer, 1);
    for (unsigned i = 0; i < count; ++i) {
      if (data[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      const CUresult result = block == nullptr
                                  ? CUDA_ERROR_INVALID_VALUE
                                  : attribute_of(*block, pointer, number(attributes[i]), data[i]);
      if (result == CUDA_ERROR_NOT_SUPPORTED) return result;
      if (result != CUDA_SUCCESS) clear_attribute(number(attributes[i]), data[i]);
    }
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
