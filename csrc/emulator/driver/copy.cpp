// Copies, memsets and functions of the host on streams.
//
// From pageable memory the bytes are taken at the call, from pinned memory when the copy runs. A
// copy to pageable memory is complete when the call returns. Device ranges are checked at the call
// and again when the work runs.
#include "state.h"

namespace emulator {
namespace {

bool is_pinned(const void *pointer, size_t bytes) {
  const auto block = state().heap.find(reinterpret_cast<uint64_t>(pointer), bytes);
  return block != nullptr && block->kind != Kind::device;
}

CopySide device_side(CUdeviceptr address, int owner = -1) { return {address, true, owner, 0, 0}; }
CopySide host_side(const void *pointer) {
  return {reinterpret_cast<uint64_t>(pointer), false, -1, 0, 0};
}

// Checks, queues, and on demand waits for one piece of work.
template <class Piece>
CUresult enqueue(CUstream stream, Piece piece, bool wait) {
  piece.device = current_device();
  if (const CUresult result = check(piece)) return result;
  State &s = state();
  Lock lock(s.mutex);
  std::shared_ptr<Stream> where;
  if (const CUresult result = enter_stream(s, stream, &where)) return result;
  if (where->device != piece.device) {  // a stream of another context runs it there
    piece.device = where->device;
    if (const CUresult result = check(piece)) return result;
  }
  if (where->capture != nullptr && wait) return refuse_in_capture(*where);
  const auto work = std::make_shared<const Work>(std::move(piece));
  if (where->capture != nullptr) {
    capture_work(*where, work);
    return CUDA_SUCCESS;
  }
  const auto operation = s.engine.submit(lock, where, [work] { run(*work); });
  if (!wait) return CUDA_SUCCESS;
  s.engine.finish(lock, operation);
  return outcome(where->device);
}

CUresult copy_in(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  CopyWork work{current_device(), device_side(to), host_side(from), bytes, 1, 1, nullptr};
  if (const CUresult result = check(work)) return result;
  if (bytes != 0 && !is_pinned(from, bytes)) {
    const auto *begin = static_cast<const uint8_t *>(from);
    work.staged = std::make_shared<std::vector<uint8_t>>(begin, begin + bytes);
    work.from = host_side(work.staged->data());
  }
  return enqueue(stream, std::move(work), false);
}

CUresult fill(CUdeviceptr address, uint32_t value, uint32_t element_bytes, size_t count,
              CUstream stream) {
  return enqueue(stream, FillWork{0, address, value, element_bytes, count, 1, 0}, false);
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes,
                                   CUstream stream) {
  return call(Call::cuMemcpyHtoDAsync, Need::context,
              [&] { return copy_in(to, from, bytes, stream); });
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return call(Call::cuMemcpyDtoHAsync, Need::context, [&]() -> CUresult {
    const CopyWork work{0, host_side(to), device_side(from), bytes, 1, 1, nullptr};
    return enqueue(stream, work, bytes != 0 && !is_pinned(to, bytes));
  });
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                   CUstream stream) {
  return call(Call::cuMemcpyDtoDAsync, Need::context, [&]() -> CUresult {
    const CopyWork work{0, device_side(to), device_side(from), bytes, 1, 1, nullptr};
    return enqueue(stream, work, false);
  });
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                   CUcontext from_context, size_t bytes, CUstream stream) {
  return call(Call::cuMemcpyPeerAsync, Need::context, [&]() -> CUresult {
    const int to_device = device_of(to_context);
    const int from_device = device_of(from_context);
    for (const int device : {to_device, from_device}) {
      if (device < 0 || state().contexts[device].references == 0) return CUDA_ERROR_INVALID_CONTEXT;
      if (const CUresult lost = outcome(device)) return lost;
    }
    const CopyWork work{
        0, device_side(to, to_device), device_side(from, from_device), bytes, 1, 1, nullptr};
    return enqueue(stream, work, false);
  });
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument) {
  return call(Call::cuLaunchHostFunc, Need::context, [&]() -> CUresult {
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    State &s = state();
    Lock lock(s.mutex);
    std::shared_ptr<Stream> where;
    if (const CUresult result = enter_stream(s, stream, &where)) return result;
    const auto work = std::make_shared<const Work>(HostWork{function, argument});
    if (where->capture != nullptr) {
      capture_work(*where, work);
      return CUDA_SUCCESS;
    }
    s.engine.submit(lock, where, [work] { run(*work); });
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  return call(Call::cuMemcpyHtoD, Need::context, [&]() -> CUresult {
    const CopyWork work{0, device_side(to), host_side(from), bytes, 1, 1, nullptr};
    return enqueue(nullptr, work, true);
  });
}

CUresult CUDAAPI cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
  return call(Call::cuMemcpyDtoH, Need::context, [&]() -> CUresult {
    const CopyWork work{0, host_side(to), device_side(from), bytes, 1, 1, nullptr};
    return enqueue(nullptr, work, true);
  });
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                 CUstream stream) {
  return call(Call::cuMemsetD8Async, Need::context,
              [&] { return fill(to, value, 1, count, stream); });
}

CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                                  CUstream stream) {
  return call(Call::cuMemsetD16Async, Need::context,
              [&] { return fill(to, value, 2, count, stream); });
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count,
                                  CUstream stream) {
  return call(Call::cuMemsetD32Async, Need::context,
              [&] { return fill(to, value, 4, count, stream); });
}

}  // extern "C"
