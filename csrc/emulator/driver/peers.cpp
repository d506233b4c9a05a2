// Access of the work of one device to the memory of another one.
//
// Work whose device was not given the access faults, as on a GPU; cuMemcpyPeerAsync needs none.
#include "state.h"

namespace emulator {
namespace {

// Any two devices, unless a test says otherwise.
bool can_access(int device, int peer) { return device != peer && settings().peer_access != 0; }

}  // namespace

bool reaches(int device, const Block &block) {
  if (block.kind == Kind::pinned || block.device == device) return true;
  if (block.kind == Kind::registered) return (block.flags & CU_MEMHOSTREGISTER_PORTABLE) != 0;
  return (state().contexts[device].peers >> block.device & 1u) != 0;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  return call(Call::cuDeviceCanAccessPeer, Need::driver, [&]() -> CUresult {
    if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device) || !is_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can = can_access(device, peer) ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext context, unsigned int flags) {
  return call(Call::cuCtxEnablePeerAccess, Need::context, [&]() -> CUresult {
    const int device = current_device();
    const int peer = device_of(context);
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    State &s = state();
    Lock lock(s.mutex);
    if (peer < 0 || peer == device || s.contexts[peer].references == 0)
      return CUDA_ERROR_INVALID_CONTEXT;
    if (!can_access(device, peer)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    const uint32_t bit = 1u << peer;
    const bool had = (s.contexts[device].peers.fetch_or(bit) & bit) != 0;
    return had ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext context) {
  return call(Call::cuCtxDisablePeerAccess, Need::context, [&]() -> CUresult {
    const int device = current_device();
    const int peer = device_of(context);
    State &s = state();
    Lock lock(s.mutex);
    if (peer < 0 || peer == device) return CUDA_ERROR_INVALID_CONTEXT;
    const uint32_t bit = 1u << peer;
    const bool had = (s.contexts[device].peers.fetch_and(~bit) & bit) != 0;
    return had ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  });
}

}  // extern "C"
