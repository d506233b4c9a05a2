// The primary context: its references, the stack of current contexts of each thread, its end.
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
  return context == primary_context() && state().context_references != 0;
}

// Nothing is queued any more; every handle and every allocation is invalid afterwards.
void destroy_context(State &s, Lock &lock) {
  s.engine.close_all(lock);
  s.prints.show();
  s.per_thread.clear();
  s.streams.abandon();
  s.events.abandon();
  s.execs.abandon();
  s.nodes.abandon();
  s.graphs.abandon();
  s.conditionals.clear();
  s.functions.abandon();
  s.modules.abandon();
  s.links.abandon();
  s.heap.abandon();
}

}  // namespace

CUcontext primary_context() {
  return reinterpret_cast<CUcontext>(kHandleBase | (uintptr_t{0xff} << 48) | 16);
}

CUresult check_current_context() {
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return state().context_references == 0 ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  return call(Call::cuDevicePrimaryCtxRetain, Need::device, [&]() -> CUresult {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0 || settings().device_count == 0) return CUDA_ERROR_INVALID_DEVICE;
    State &s = state();
    Lock lock(s.mutex);
    if (s.context_references++ == 0) {
      s.engine.open_default();
      ++s.context_id;
    }
    *context = primary_context();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  const auto body = [&]() -> CUresult {
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    State &s = state();
    Lock lock(s.mutex);
    // The wait gives up the lock, so the context may have been retained or put to work meanwhile.
    while (s.context_references == 1 && !process().stopped && !s.engine.pending().empty()) {
      s.engine.finish(lock, s.engine.pending());
    }
    if (s.context_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--s.context_references == 0) destroy_context(s, lock);
    return outcome();
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
    *device = 0;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetId(CUcontext context, unsigned long long *id) {
  return call(Call::cuCtxGetId, Need::driver, [&]() -> CUresult {
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (context == nullptr) context = current();
    if (context != primary_context()) return CUDA_ERROR_INVALID_CONTEXT;
    State &s = state();
    Lock lock(s.mutex);
    if (s.context_references == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *id = s.context_id;
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
    s.engine.finish(lock, s.engine.pending());
    s.prints.show();
    return outcome();
  });
}

}  // extern "C"
