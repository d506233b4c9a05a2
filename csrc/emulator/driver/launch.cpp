// cuLaunchKernel and cuLaunchCooperativeKernel: geometry and arguments, checked as the driver does.
#include <cstring>

#include "state.h"

namespace emulator {
namespace {

constexpr uint64_t kMaxGrid[3] = {2147483647, 65535, 65535};
constexpr uint64_t kMaxBlock[3] = {1024, 1024, 64};

CUresult check_geometry(const LaunchRequest &request, const Function &function) {
  const Kernel &kernel = *function.kernel;
  for (int axis = 0; axis < 3; ++axis) {
    if (request.grid[axis] == 0 || request.grid[axis] > kMaxGrid[axis])
      return CUDA_ERROR_INVALID_VALUE;
    if (request.block[axis] == 0 || request.block[axis] > kMaxBlock[axis])
      return CUDA_ERROR_INVALID_VALUE;
    const uint32_t required = kernel.required_block[static_cast<size_t>(axis)];
    if (required != 0 && required != request.block[axis]) return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t threads = uint64_t{request.block[0]} * request.block[1] * request.block[2];
  if (threads > Limits::threads_per_block || threads > kernel.max_threads)
    return CUDA_ERROR_INVALID_VALUE;
  if (request.shared_bytes > function.max_dynamic_shared_bytes) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

// The `extra` form: pairs of key and value up to CU_LAUNCH_PARAM_END.
CUresult copy_buffer(void **extra, const Kernel &kernel, std::vector<uint8_t> *parameters) {
  const void *buffer = nullptr;
  const size_t *bytes = nullptr;
  for (void **at = extra; *at != CU_LAUNCH_PARAM_END; at += 2) {
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = at[1];
    } else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      bytes = static_cast<const size_t *>(at[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (buffer == nullptr || bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Callers may round the block up to its alignment, at most 8 bytes.
  if (*bytes < kernel.parameter_bytes || *bytes >= kernel.parameter_bytes + size_t{8})
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(parameters->data(), buffer, kernel.parameter_bytes);
  return CUDA_SUCCESS;
}

CUresult copy_arguments(const LaunchRequest &request, const Kernel &kernel,
                        std::vector<uint8_t> *parameters) {
  if (request.parameters != nullptr && request.extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  parameters->assign(kernel.parameter_bytes, 0);
  if (kernel.parameters.empty()) return CUDA_SUCCESS;
  if (request.extra != nullptr) return copy_buffer(request.extra, kernel, parameters);
  if (request.parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Parameter &parameter = kernel.parameters[i];
    if (request.parameters[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(parameters->data() + parameter.offset, request.parameters[i], parameter.size);
  }
  return CUDA_SUCCESS;
}

CUresult launch(const LaunchRequest &request, CUstream stream) {
  KernelWork kernel;
  if (const CUresult result = prepare(request, &kernel)) return result;
  const auto work = std::make_shared<const Work>(std::move(kernel));
  State &s = state();
  Lock lock(s.mutex);
  std::shared_ptr<Stream> where;
  if (const CUresult result = enter_stream(s, stream, &where)) return result;
  if (where->device != std::get<KernelWork>(*work).function->device)
    return CUDA_ERROR_INVALID_HANDLE;
  if (where->capture != nullptr) {
    capture_work(*where, work);
    return CUDA_SUCCESS;
  }
  s.engine.make_room(lock, where);
  s.engine.submit(lock, where, [work] { run(*work); });
  return CUDA_SUCCESS;
}

} // namespace

CUresult check_resident(const KernelWork &work) {
  const Launch &shape = work.shape;
  const uint32_t threads = shape.block[0] * shape.block[1] * shape.block[2];
  const int resident = resident_blocks(*work.function->kernel, threads, shape.dynamic_shared_bytes);
  if (resident == 0) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (!shape.cooperative) return CUDA_SUCCESS;
  uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1];
  if (__builtin_mul_overflow(blocks, uint64_t{shape.grid[2]}, &blocks)) blocks = UINT64_MAX;
  const uint64_t room = static_cast<uint64_t>(resident) * Limits::multiprocessors;
  return blocks > room ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

CUresult prepare(const LaunchRequest &request, KernelWork *work) {
  State &s = state();
  Lock lock(s.mutex);
  work->function = s.functions.find(request.function);
  if (work->function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = check_geometry(request, *work->function)) return result;
  for (size_t axis = 0; axis < 3; ++axis) {
    work->shape.grid[axis] = request.grid[axis];
    work->shape.block[axis] = request.block[axis];
  }
  work->shape.dynamic_shared_bytes = request.shared_bytes;
  work->shape.cooperative = request.cooperative;
  if (const CUresult result = check_resident(*work)) return result;
  return copy_arguments(request, *work->function->kernel, &work->parameters);
}

} // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                void **parameters, void **extra) {
  return call(Call::cuLaunchKernel, Need::context, [&] {
    return launch({function,
                   {grid_x, grid_y, grid_z},
                   {block_x, block_y, block_z},
                   shared_bytes,
                   parameters,
                   extra,
                   false},
                  stream);
  });
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x,
                                           unsigned int grid_y, unsigned int grid_z,
                                           unsigned int block_x, unsigned int block_y,
                                           unsigned int block_z, unsigned int shared_bytes,
                                           CUstream stream, void **parameters) {
  return call(Call::cuLaunchCooperativeKernel, Need::context, [&] {
    return launch({function,
                   {grid_x, grid_y, grid_z},
                   {block_x, block_y, block_z},
                   shared_bytes,
                   parameters,
                   nullptr,
                   true},
                  stream);
  });
}

} // extern "C"
