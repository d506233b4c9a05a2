// The primary contexts: their references, the stack of current contexts of each thread, their end.
#include "state.h"

namespace emulator {
namespace {

// Plain data, so that it is still there when other thread-local objects are gone.
struct CurrentStack {
  static constexpr int capacity = 32;
  CUcontext contexts[capacity];
  int depth;
};
thread_local CurrentStack current_stack;

CUcontext current() {
  return current_stack.depth == 0 ? nullptr : current_stack.contexts[current_stack.depth - 1];
}

bool is_context(CUcontext context) {
  const int device = device_of(context);
  return device >= 0 && state().contexts[device].references != 0;
}

// Nothing is queued any more; every handle and every allocation is invalid afterwards.
void destroy_context(State &s, Lock &lock, int device) {
  PrimaryContext &context = s.contexts[device];
  s.engine.close_all(lock, device);
  context.prints.show();
  context.per_thread.clear();
  context.peers = 0;
  for (PrimaryContext &other : s.contexts) other.peers &= ~(1u << device);
  s.streams.abandon(device);
  s.events.abandon(device);
  s.execs.abandon(device);
  s.nodes.abandon(device);
  s.graphs.abandon(device);
  for (auto at = s.conditionals.begin(); at != s.conditionals.end();)
    at = at->second.device == device ? s.conditionals.erase(at) : std::next(at);
  s.functions.abandon(device);
  s.modules.abandon(device);
  s.links.abandon(device);
  s.heap.abandon(device);
}

}  // namespace

CUcontext primary_context(int device) {
  const auto number = static_cast<uintptr_t>(device) + 1;
  return reinterpret_cast<CUcontext>(kHandleBase | (uintptr_t{0xff} << 48) | (number << 4));
}

int device_of(CUcontext context) {
  for (int device = 0; device < kMaxDevices; ++device) {
    if (context == primary_context(device)) return device;
  }
  return -1;
}

int current_device() { return current() == nullptr ? -1 : device_of(current()); }

CUresult check_current_context() {
  const int device = current_device();
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
  return state().contexts[device].references == 0 ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  return call(Call::cuDevicePrimaryCtxRetain, Need::driver, [&]() -> CUresult {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (const CUresult lost = outcome(device)) return lost;
    State &s = state();
    Lock lock(s.mutex);
    if (s.contexts[device].references++ == 0) {
      s.engine.open_default(device);
      s.contexts[device].id = ++s.context_id;
    }
    *context = primary_context(device);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  const auto body = [&]() -> CUresult {
    if (device < 0 || device >= kMaxDevices) return CUDA_ERROR_INVALID_DEVICE;
    State &s = state();
    Lock lock(s.mutex);
    std::atomic<uint32_t> &references = s.contexts[device].references;
    // The wait gives up the lock, so the context may have been retained or put to work meanwhile.
    while (references == 1 && !process().stopped && !s.engine.pending(device).empty()) {
      s.engine.finish(lock, s.engine.pending(device));
    }
    if (references == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--references == 0) destroy_context(s, lock, device);
    return outcome(device);
  };
  return call(Call::cuDevicePrimaryCtxRelease, Need::driver, body);
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *context) {
  return call(Call::cuCtxGetCurrent, Need::driver, [&]() -> CUresult {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = current();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  return call(Call::cuCtxSetCurrent, Need::driver, [&]() -> CUresult {
    CurrentStack &stack = current_stack;
    if (context == nullptr) {
      if (stack.depth > 0) --stack.depth;
      return CUDA_SUCCESS;
    }
    if (!is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.depth == 0) stack.depth = 1;
    stack.contexts[stack.depth - 1] = context;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device) {
  return call(Call::cuCtxGetDevice, Need::context, [&]() -> CUresult {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = current_device();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetId(CUcontext context, unsigned long long *id) {
  return call(Call::cuCtxGetId, Need::driver, [&]() -> CUresult {
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (context == nullptr) context = current();
    const int device = device_of(context);
    if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
    State &s = state();
    Lock lock(s.mutex);
    if (s.contexts[device].references == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *id = s.contexts[device].id;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
  return call(Call::cuCtxPushCurrent, Need::driver, [&]() -> CUresult {
    CurrentStack &stack = current_stack;
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.depth == CurrentStack::capacity) return CUDA_ERROR_OUT_OF_MEMORY;
    stack.contexts[stack.depth++] = context;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *context) {
  return call(Call::cuCtxPopCurrent, Need::driver, [&]() -> CUresult {
    CurrentStack &stack = current_stack;
    if (stack.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    --stack.depth;
    if (context != nullptr) *context = stack.contexts[stack.depth];
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSynchronize(void) {
  return call(Call::cuCtxSynchronize, Need::context, [&]() -> CUresult {
    State &s = state();
    Lock lock(s.mutex);
    const int device = current_device();
    s.engine.finish(lock, s.engine.pending(device));
    s.contexts[device].prints.show();
    return outcome(device);
  });
}

}  // extern "C"
