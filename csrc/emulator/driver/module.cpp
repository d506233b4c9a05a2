// Modules: compiling PTX text, loading, finding functions, unloading.
#include "module.h"

#include <chrono>
#include <cstring>
#include <string_view>

#include "state.h"

namespace emulator {
namespace {

// The newest PTX version * 10 that a CUDA driver of this version takes (PTX ISA, release notes).
int newest_ptx(int64_t driver_version) {
  if (driver_version >= 13000) return 90 + static_cast<int>(driver_version % 1000 / 10);
  struct Row {
    int driver, ptx;
  };
  constexpr Row rows[] = {{12090, 88}, {12080, 87}, {12070, 86}, {12050, 85}, {12040, 84},
                          {12030, 83}, {12020, 82}, {12010, 81}, {12000, 80}, {11080, 78},
                          {11070, 77}, {11060, 76}, {11050, 75}, {11040, 74}, {11030, 73},
                          {11020, 72}, {11010, 71}, {11000, 70}};
  for (const Row &row : rows) {
    if (driver_version >= row.driver) return row.ptx;
  }
  return 65;
}

// What ptxas refuses although the text is well formed. Empty: nothing.
std::string refusal(const Module &module, int target) {
  if (const int64_t line = settings().refuse_line) {
    return "ptxas application ptx input, line " + std::to_string(line) +
           "; error   : refused on demand\nptxas fatal   : Ptx assembly aborted due to errors";
  }
  if (module.target > target) {
    return "ptxas fatal   : SM version specified by .target (sm_" + std::to_string(module.target) +
           ") is higher than the SM version of this device (sm_" + std::to_string(target) + ")";
  }
  for (const Kernel &kernel : module.kernels) {
    if (kernel.static_shared_bytes > Limits::shared_per_block) {
      return "ptxas error   : Entry function '" + kernel.name + "' uses too much shared data (" +
             std::to_string(kernel.static_shared_bytes) + " bytes, " +
             std::to_string(Limits::shared_per_block) + " max)";
    }
  }
  return "";
}

std::string usage(const Module &module, int target) {
  std::string log;
  for (const Kernel &kernel : module.kernels) {
    log += "ptxas info    : Function '" + kernel.name + "' for 'sm_" + std::to_string(target) +
           "' uses " + std::to_string(kernel.registers) + " registers, " +
           std::to_string(kernel.static_shared_bytes) + " bytes smem (vyre emulator, estimated)\n";
  }
  return log;
}

// Binaries of a real device. The emulator runs PTX only.
bool is_binary(const void *image) {
  const auto *bytes = static_cast<const unsigned char *>(image);
  const bool elf = bytes[0] == 0x7f && bytes[1] == 'E' && bytes[2] == 'L' && bytes[3] == 'F';
  const bool fat = bytes[0] == 0x50 && bytes[1] == 0xed && bytes[2] == 0x55 && bytes[3] == 0xba;
  return elf || fat;
}

CUresult load(CUmodule *handle, const void *image, unsigned count, const CUjit_option *keys,
              void **values) {
  if (handle == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  JitOptions options;
  if (const CUresult result = options.read(count, keys, values)) return result;
  std::string_view text;
  int target = 0;
  if (const CUresult result = unpack_image(image, &text, &target)) return result;
  if (text.empty()) {
    if (is_binary(image)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    text = static_cast<const char *>(image);
    target = options.target;
  }
  if (text.empty()) return CUDA_ERROR_INVALID_IMAGE;
  if (target > kComputeCapability) return CUDA_ERROR_NO_BINARY_FOR_GPU;

  auto module = std::make_shared<LoadedModule>();
  module->device = current_device();
  std::unique_ptr<Module> code;
  options.target = target;
  if (const CUresult result = compile(text, options, &code)) return result;
  module->code = std::move(code);
  module->binary_version = target;
  State &s = state();
  Lock lock(s.mutex);
  *handle = s.modules.add(std::move(module));
  return CUDA_SUCCESS;
}

// The handle of a kernel, made once and kept for the life of the module.
CUfunction function_of(State &s, const std::shared_ptr<LoadedModule> &module,
                       const Kernel &kernel) {
  for (const CUfunction handle : module->functions) {
    if (s.functions.find(handle)->kernel == &kernel) return handle;
  }
  auto function = std::make_shared<Function>();
  function->device = module->device;
  function->module = module;
  function->kernel = &kernel;
  function->max_dynamic_shared_bytes = Limits::shared_per_block - kernel.static_shared_bytes;
  module->functions.push_back(s.functions.add(std::move(function)));
  return module->functions.back();
}

}  // namespace

CUresult compile(std::string_view text, JitOptions &options, std::unique_ptr<Module> *module) {
  const auto start = std::chrono::steady_clock::now();
  std::string errors;
  std::string info;
  bool too_new = false;
  CUresult result = CUDA_ERROR_INVALID_PTX;
  *module = parse(text, newest_ptx(settings().driver_version), &errors, &too_new);
  if (*module == nullptr) {
    if (too_new) result = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  } else if (errors = refusal(**module, options.target); errors.empty()) {
    result = CUDA_SUCCESS;
    if (options.verbose) info = usage(**module, options.target);
  }
  const std::chrono::duration<float, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  options.write(errors, info, elapsed.count());
  if (result != CUDA_SUCCESS) module->reset();
  return result;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image) {
  return call(Call::cuModuleLoadData, Need::context,
              [&] { return load(module, image, 0, nullptr, nullptr); });
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
                                    CUjit_option *options, void **values) {
  return call(Call::cuModuleLoadDataEx, Need::context,
              [&] { return load(module, image, count, options, values); });
}

CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  return call(Call::cuModuleUnload, Need::release, [&]() -> CUresult {
    State &s = state();
    Lock lock(s.mutex);
    const auto object = s.modules.remove(module);
    if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    object->unloaded = true;
    for (const CUfunction function : object->functions) s.functions.remove(function);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  return call(Call::cuModuleGetFunction, Need::context, [&]() -> CUresult {
    if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    State &s = state();
    Lock lock(s.mutex);
    const auto object = s.modules.find(module);
    if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    for (const Kernel &kernel : object->code->kernels) {
      if (kernel.name != name) continue;
      *function = function_of(s, object, kernel);
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
  });
}

}  // extern "C"
