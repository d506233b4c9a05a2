// Attributes of functions, and how many blocks of one fit on a multiprocessor.
#include <algorithm>

#include "state.h"

namespace emulator {
namespace {

constexpr uint32_t kRegisterUnit = 256;  // registers are handed to a warp in units of this many

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

uint64_t registers_of_warp(const Kernel &kernel) {
  return round_up(uint64_t{std::max<uint32_t>(kernel.registers, 1)} * Limits::warp, kRegisterUnit);
}

uint32_t max_threads(const Kernel &kernel) {
  const auto &block = kernel.required_block;
  const uint64_t required = uint64_t{block[0]} * block[1] * block[2];
  const uint64_t declared = required != 0 ? required : kernel.max_threads;
  const uint64_t warps = Limits::registers / registers_of_warp(kernel);
  return static_cast<uint32_t>(std::min(declared, warps * Limits::warp));
}

CUresult attribute_of(const Function &function, int64_t attribute, int *value) {
  const Kernel &kernel = *function.kernel;
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = static_cast<int>(max_threads(kernel));
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    *value = static_cast<int>(kernel.static_shared_bytes);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = static_cast<int>(kernel.registers); return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:  // the virtual architecture, not the version of the ISA
    *value = function.module->code->target;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    *value = function.module->binary_version;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *value = static_cast<int>(function.max_dynamic_shared_bytes);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    *value = function.shared_carveout;
    return CUDA_SUCCESS;
  default:  // constant, local, caching, clusters: none
    if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
    *value = 0;
    return CUDA_SUCCESS;
  }
}

CUresult set_attribute(Function &function, int64_t attribute, int value) {
  const uint32_t room = Limits::shared_per_block_optin - function.kernel->static_shared_bytes;
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    if (value < 0 || static_cast<uint32_t>(value) > room) return CUDA_ERROR_INVALID_VALUE;
    function.max_dynamic_shared_bytes = static_cast<uint32_t>(value);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
    function.shared_carveout = value;
    return CUDA_SUCCESS;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
}

// The largest block of whole warps that keeps the most threads resident, and the grid that fills
// the device with such blocks.
void best_block(const Kernel &kernel, CUoccupancyB2DSize shared_of, size_t shared, uint32_t limit,
                int *grid, int *block) {
  uint64_t most = 0;
  *grid = 0;
  *block = 0;
  for (uint32_t threads = limit / Limits::warp * Limits::warp; threads > 0;
       threads -= Limits::warp) {
    const size_t bytes = shared_of == nullptr ? shared : shared_of(static_cast<int>(threads));
    const auto blocks = static_cast<uint64_t>(resident_blocks(kernel, threads, bytes));
    if (blocks * threads <= most) continue;
    most = blocks * threads;
    *block = static_cast<int>(threads);
    *grid = static_cast<int>(blocks * Limits::multiprocessors);
  }
}

}  // namespace

int resident_blocks(const Kernel &kernel, uint32_t threads, uint64_t dynamic_shared_bytes) {
  const uint64_t warps = (threads + Limits::warp - 1) / Limits::warp;
  const uint64_t shared = kernel.static_shared_bytes + dynamic_shared_bytes;
  if (warps == 0 || threads > Limits::threads_per_block || shared > Limits::shared_per_block_optin)
    return 0;
  const uint64_t by_threads = Limits::threads / Limits::warp / warps;
  const uint64_t by_registers = Limits::registers / (registers_of_warp(kernel) * warps);
  const uint64_t by_shared = Limits::shared_bytes / (shared + Limits::shared_reserved_per_block);
  return static_cast<int>(
      std::min({by_threads, by_registers, by_shared, uint64_t{Limits::blocks}}));
}

}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                                    CUfunction function) {
  return call(Call::cuFuncGetAttribute, Need::context, [&]() -> CUresult {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    State &s = state();
    Lock lock(s.mutex);
    const auto object = s.functions.find(function);
    return object == nullptr ? CUDA_ERROR_INVALID_HANDLE
                             : attribute_of(*object, number(attribute), value);
  });
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                    int value) {
  return call(Call::cuFuncSetAttribute, Need::context, [&]() -> CUresult {
    State &s = state();
    Lock lock(s.mutex);
    const auto object = s.functions.find(function);
    return object == nullptr ? CUDA_ERROR_INVALID_HANDLE
                             : set_attribute(*object, number(attribute), value);
  });
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset,
                                    size_t *bytes) {
  return call(Call::cuFuncGetParamInfo, Need::context, [&]() -> CUresult {
    if (offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
    State &s = state();
    Lock lock(s.mutex);
    const auto object = s.functions.find(function);
    if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (index >= object->kernel->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = object->kernel->parameters[index].offset;
    if (bytes != nullptr) *bytes = object->kernel->parameters[index].size;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                             int threads,
                                                             size_t dynamic_shared_bytes) {
  return call(Call::cuOccupancyMaxActiveBlocksPerMultiprocessor, Need::context, [&]() -> CUresult {
    if (blocks == nullptr || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    State &s = state();
    Lock lock(s.mutex);
    const auto object = s.functions.find(function);
    if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const uint32_t limit = max_threads(*object->kernel);
    const auto wanted = static_cast<uint32_t>(threads);
    *blocks = wanted > limit ? 0 : resident_blocks(*object->kernel, wanted, dynamic_shared_bytes);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
                                                  CUoccupancyB2DSize shared_of,
                                                  size_t dynamic_shared_bytes, int limit) {
  return call(Call::cuOccupancyMaxPotentialBlockSize, Need::context, [&]() -> CUresult {
    if (grid == nullptr || block == nullptr || limit < 0) return CUDA_ERROR_INVALID_VALUE;
    State &s = state();
    Lock lock(s.mutex);
    const auto object = s.functions.find(function);
    if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const uint32_t own = max_threads(*object->kernel);
    const uint32_t most = limit == 0 ? own : std::min(own, static_cast<uint32_t>(limit));
    best_block(*object->kernel, shared_of, dynamic_shared_bytes,
               std::min(most, Limits::threads_per_block), grid, block);
    return *block == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

}  // extern "C"
