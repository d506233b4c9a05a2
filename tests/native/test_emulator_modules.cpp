// Modules, functions and launches of the emulated driver: loading, logs, images of the linker,
// attributes, occupancy, what a launch refuses, and faults of kernels.
#include "emulator_test.h"

namespace {

constexpr char kFunctions[] = R"(.version 8.0
.target sm_75
.address_size 64

.visible .entry shared_block()
{
    .shared .align 4 .b8 buffer[4096];
    .reg .b32 %r<2>;
    mov.u32 %r1, 0;
    st.shared.u32 [buffer], %r1;
    ret;
}

.visible .entry exact() .reqntid 64, 1, 1
{
    ret;
}

.visible .entry bounded(.param .u32 bounded_a, .param .u64 bounded_b) .maxntid 128, 1, 1
{
    ret;
}

.visible .entry crash()
{
    trap;
    ret;
}
)";

std::string with_header(const char *version, const char *target) {
  std::string text = kFunctions;
  text.replace(text.find("8.0"), 3, version);
  text.replace(text.find("sm_75"), 5, target);
  return text;
}

struct Functions {
  Functions() {
    OK(driver.cuModuleLoadData(&module, kFunctions));
    shared_block = get("shared_block");
    exact = get("exact");
    bounded = get("bounded");
    crash = get("crash");
  }
  ~Functions() { OK(driver.cuModuleUnload(module)); }
  CUfunction get(const char *name) const {
    CUfunction function = nullptr;
    OK(driver.cuModuleGetFunction(&function, module, name));
    return function;
  }
  CUmodule module = nullptr;
  CUfunction shared_block, exact, bounded, crash;
};

int attribute(CUfunction function, CUfunction_attribute key) {
  int value = -1;
  OK(driver.cuFuncGetAttribute(&value, key, function));
  return value;
}

CUresult launch(CUfunction function, unsigned grid, unsigned block, unsigned shared_bytes = 0) {
  return driver.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared_bytes, nullptr, nullptr,
                               nullptr);
}

// A log buffer and the options that name it.
struct Log {
  char text[512] = "";
  CUjit_option keys[2] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[2] = {text, reinterpret_cast<void *>(sizeof text)};
  size_t length() const { return reinterpret_cast<size_t>(values[1]); }
};

void a_text_with_errors_gives_a_log() {
  const Session session;
  CUmodule module = nullptr;
  Log log;
  std::string text = kFunctions;
  text.replace(text.find("trap"), 4, "bogus.instruction");
  GIVES(CUDA_ERROR_INVALID_PTX,
        driver.cuModuleLoadDataEx(&module, text.c_str(), 2, log.keys, log.values));
  CHECK(log.length() > 0);
  EQUAL(std::strlen(log.text), log.length());
  Log tiny;
  tiny.values[1] = reinterpret_cast<void *>(size_t{8});
  GIVES(CUDA_ERROR_INVALID_PTX,
        driver.cuModuleLoadDataEx(&module, text.c_str(), 2, tiny.keys, tiny.values));
  EQUAL(size_t{7}, std::strlen(tiny.text));
  GIVES(CUDA_ERROR_INVALID_PTX, driver.cuModuleLoadData(&module, text.c_str()));
  GIVES(CUDA_ERROR_INVALID_IMAGE, driver.cuModuleLoadData(&module, ""));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuModuleLoadData(&module, nullptr));
  GIVES(CUDA_ERROR_NO_BINARY_FOR_GPU, driver.cuModuleLoadData(&module, "\x7f"
                                                                       "ELF"));
  CUjit_option unknown = static_cast<CUjit_option>(63);
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuModuleLoadDataEx(&module, kFunctions, 1, &unknown, log.values));
}

void a_good_text_gives_an_empty_log_and_verbose_usage() {
  const Session session;
  CUmodule module = nullptr;
  char error[64] = "x";
  char info[1024] = "";
  CUjit_option keys[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                         CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                         CU_JIT_LOG_VERBOSE,      CU_JIT_TARGET_FROM_CUCONTEXT,
                         CU_JIT_WALL_TIME};
  void *values[] = {error,
                    reinterpret_cast<void *>(sizeof error),
                    info,
                    reinterpret_cast<void *>(sizeof info),
                    reinterpret_cast<void *>(1),
                    nullptr,
                    nullptr};
  OK(driver.cuModuleLoadDataEx(&module, kFunctions, 7, keys, values));
  EQUAL(size_t{0}, std::strlen(error));
  CHECK(values[1] == nullptr);
  CHECK(std::strstr(info, "shared_block") != nullptr);
  float milliseconds = -1.0F;
  std::memcpy(&milliseconds, &values[6], sizeof milliseconds);
  CHECK(milliseconds >= 0.0F);
  OK(driver.cuModuleUnload(module));
}

void version_and_target_must_fit_driver_and_device() {
  const Session session;
  CUmodule module = nullptr;
  Log log;
  GIVES(CUDA_ERROR_INVALID_PTX,
        driver.cuModuleLoadDataEx(&module, with_header("8.6", "sm_100").c_str(), 2, log.keys,
                                  log.values));
  CHECK(std::strstr(log.text, "sm_100") != nullptr);
  OK(driver.set("driver_version", 12000));
  GIVES(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        driver.cuModuleLoadData(&module, with_header("8.1", "sm_75").c_str()));
  OK(driver.cuModuleLoadData(&module, with_header("8.0", "sm_75").c_str()));
  OK(driver.cuModuleUnload(module));
  std::string big = kFunctions;
  big.replace(big.find("4096"), 4, "49156");
  OK(driver.reset());
  GIVES(CUDA_ERROR_INVALID_PTX, driver.cuModuleLoadData(&module, big.c_str()));
}

void functions_are_found_and_described() {
  const Session session;
  const Functions functions;
  CUfunction none = nullptr;
  GIVES(CUDA_ERROR_NOT_FOUND, driver.cuModuleGetFunction(&none, functions.module, "absent"));
  CHECK(functions.get("exact") == functions.exact);
  EQUAL(4096, attribute(functions.shared_block, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  EQUAL(49152 - 4096,
        attribute(functions.shared_block, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  EQUAL(64, attribute(functions.exact, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  EQUAL(128, attribute(functions.bounded, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  EQUAL(75, attribute(functions.exact, CU_FUNC_ATTRIBUTE_PTX_VERSION));
  EQUAL(90, attribute(functions.exact, CU_FUNC_ATTRIBUTE_BINARY_VERSION));
  EQUAL(0, attribute(functions.exact, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  size_t offset = 0;
  size_t bytes = 0;
  OK(driver.cuFuncGetParamInfo(functions.bounded, 1, &offset, &bytes));
  EQUAL(size_t{8}, offset);
  EQUAL(size_t{8}, bytes);
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuFuncGetParamInfo(functions.bounded, 2, &offset, &bytes));
}

void occupancy_counts_the_scarcest_resource() {
  const Session session;
  const Functions functions;
  int blocks = -1;
  OK(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, functions.shared_block, 32, 0));
  EQUAL(32, blocks);  // blocks
  OK(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, functions.shared_block, 1024, 0));
  EQUAL(2, blocks);  // threads
  OK(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, functions.shared_block, 32,
                                                        40000));
  EQUAL(5, blocks);  // shared memory: 233472 / (4096 + 40000 + 1024)
  OK(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, functions.shared_block, 32,
                                                        232448));
  EQUAL(0, blocks);
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, functions.shared_block, 0, 0));
}

void the_best_block_has_the_most_threads_resident() {
  const Session session;
  const Functions functions;
  int grid = -1;
  int block = -1;
  OK(driver.cuOccupancyMaxPotentialBlockSize(&grid, &block, functions.shared_block, nullptr, 0, 0));
  EQUAL(1024, block);
  EQUAL(2 * 132, grid);
  OK(driver.cuOccupancyMaxPotentialBlockSize(&grid, &block, functions.shared_block, nullptr, 0,
                                             300));
  EQUAL(256, block);  // 2048 threads in 8 blocks; 288 would be 2016 in 7
  OK(driver.cuOccupancyMaxPotentialBlockSize(
      &grid, &block, functions.shared_block, [](int threads) -> size_t { return threads * 200u; },
      0, 0));
  EQUAL(544, block);  // twice 4096 + 544 * 200 + 1024 bytes fit into 233472, more do not
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuOccupancyMaxPotentialBlockSize(
                                      nullptr, &block, functions.shared_block, nullptr, 0, 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuOccupancyMaxPotentialBlockSize(
                                      &grid, &block, functions.shared_block, nullptr, 0, -1));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuOccupancyMaxPotentialBlockSize(
                                      &grid, &block, functions.shared_block, nullptr, 300000, 0));
}

void launches_with_a_wrong_shape_are_refused() {
  const Session session;
  const Functions functions;
  GIVES(CUDA_ERROR_INVALID_VALUE, launch(functions.shared_block, 0, 1));
  GIVES(CUDA_ERROR_INVALID_VALUE, launch(functions.shared_block, 1, 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, launch(functions.shared_block, 1, 1025));
  GIVES(CUDA_ERROR_INVALID_VALUE, launch(functions.shared_block, 2147483648U, 1));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuLaunchKernel(functions.shared_block, 1, 65536, 1, 1, 1,
                                                        1, 0, nullptr, nullptr, nullptr));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuLaunchKernel(functions.shared_block, 1, 1, 1, 1, 1, 65,
                                                        0, nullptr, nullptr, nullptr));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuLaunchKernel(functions.shared_block, 1, 1, 1, 64, 32, 1,
                                                        0, nullptr, nullptr, nullptr));
  GIVES(CUDA_ERROR_INVALID_VALUE, launch(functions.exact, 1, 32));
  OK(launch(functions.exact, 1, 64));
  GIVES(CUDA_ERROR_INVALID_VALUE, launch(functions.shared_block, 1, 32, 49152));
  OK(driver.cuFuncSetAttribute(functions.shared_block,
                               CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
  OK(launch(functions.shared_block, 1, 32, 100000));
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuFuncSetAttribute(functions.shared_block,
                                  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448));
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuFuncSetAttribute(functions.exact, CU_FUNC_ATTRIBUTE_NUM_REGS, 8));
  OK(driver.cuLaunchCooperativeKernel(functions.shared_block, 132 * 2, 1, 1, 1024, 1, 1, 0, nullptr,
                                      nullptr));
  GIVES(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
        driver.cuLaunchCooperativeKernel(functions.shared_block, 132 * 2 + 1, 1, 1, 1024, 1, 1, 0,
                                         nullptr, nullptr));
  OK(driver.cuCtxSynchronize());
}

void arguments_come_as_pointers_or_as_one_buffer() {
  const Session session;
  Saxpy saxpy(64);
  struct {
    CUdeviceptr x, y;
    float a;
    uint32_t n;
  } block{saxpy.x, saxpy.y, 3.0F, 64};
  size_t bytes = sizeof block;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  const auto with = [&](void **parameters, void **buffer) {
    return driver.cuLaunchKernel(saxpy.function, 1, 1, 1, 64, 1, 1, 0, nullptr, parameters, buffer);
  };
  OK(with(nullptr, extra));
  CHECK(saxpy.holds(3.0F));
  GIVES(CUDA_ERROR_INVALID_VALUE, with(saxpy.arguments, extra));
  GIVES(CUDA_ERROR_INVALID_VALUE, with(nullptr, nullptr));
  bytes = 8;
  GIVES(CUDA_ERROR_INVALID_VALUE, with(nullptr, extra));
  void *incomplete[] = {&saxpy.x, &saxpy.y, nullptr, &saxpy.n};
  GIVES(CUDA_ERROR_INVALID_VALUE, with(incomplete, nullptr));
}

void code_outlives_its_module_while_launches_are_queued() {
  const Session session(emulator::StreamMode::lazy);
  Saxpy saxpy(64);
  CUmodule extra = nullptr;
  CUfunction function = nullptr;
  OK(driver.cuModuleLoadData(&extra, kSaxpy));
  OK(driver.cuModuleGetFunction(&function, extra, "saxpy"));
  OK(driver.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, saxpy.arguments, nullptr));
  OK(driver.cuModuleUnload(extra));
  GIVES(CUDA_ERROR_INVALID_HANDLE, launch(function, 1, 64));
  int value = 0;
  GIVES(CUDA_ERROR_INVALID_HANDLE,
        driver.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
  CHECK(saxpy.holds(2.0F));
}

void the_linker_makes_images_that_load() {
  const Session session;
  CUlinkState link = nullptr;
  CUmodule module = nullptr;
  void *image = nullptr;
  size_t bytes = 0;
  std::string text = kSaxpy;
  OK(driver.cuLinkCreate(0, nullptr, nullptr, &link));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuLinkComplete(link, &image, &bytes));
  OK(driver.cuLinkAddData(link, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "saxpy", 0, nullptr,
                          nullptr));
  OK(driver.cuLinkComplete(link, &image, &bytes));
  std::vector<char> copy(static_cast<char *>(image), static_cast<char *>(image) + bytes);
  OK(driver.cuLinkDestroy(link));
  OK(driver.cuModuleLoadData(&module, copy.data()));
  CUfunction function = nullptr;
  OK(driver.cuModuleGetFunction(&function, module, "saxpy"));
  OK(driver.cuModuleUnload(module));
  copy[copy.size() - 10] ^= 1;
  GIVES(CUDA_ERROR_INVALID_IMAGE, driver.cuModuleLoadData(&module, copy.data()));

  Log log;
  text = "no PTX";
  OK(driver.cuLinkCreate(2, log.keys, log.values, &link));
  GIVES(CUDA_ERROR_INVALID_PTX, driver.cuLinkAddData(link, CU_JIT_INPUT_PTX, text.data(),
                                                     text.size(), "text", 0, nullptr, nullptr));
  CHECK(log.length() > 0);
  EQUAL(uint64_t{1}, driver.count("links"));
  OK(driver.cuLinkDestroy(link));
}

// What the next waiting call answers after `function` ran with these arguments.
CUresult fault_of(CUfunction function, unsigned block, void **arguments) {
  OK(driver.cuLaunchKernel(function, 1, 1, 1, block, 1, 1, 0, nullptr, arguments, nullptr));
  return driver.cuCtxSynchronize();
}

void a_fault_loses_the_device() {
  for (const emulator::StreamMode mode : kModes) {
    const Session session(mode);
    CUstream stream = nullptr;
    CUdeviceptr small = 0;
    uint32_t left = 0;
    OK(driver.cuStreamCreate(&stream, 0));
    {
      Saxpy saxpy(64);
      const Functions functions;
      OK(driver.cuMemAlloc(&small, 63 * 4));
      void *arguments[] = {&saxpy.x, &small, &saxpy.a, &saxpy.n};
      GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, fault_of(saxpy.function, 64, arguments));
      GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, driver.cuStreamQuery(stream));
      GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, driver.cuMemcpyDtoH(&left, saxpy.y, 4));
      char message[256];
      OK(driver.fault_message(message, sizeof message));
      CHECK(std::strstr(message, "saxpy") != nullptr);
      OK(driver.reset());
      OK(driver.set("stream_mode", static_cast<int64_t>(mode)));

      OK(driver.cuMemFree(small));
      GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, fault_of(saxpy.function, 64, arguments)); // use after free
      OK(driver.reset());
      GIVES(CUDA_ERROR_LAUNCH_FAILED, fault_of(functions.crash, 1, nullptr));
      GIVES(CUDA_ERROR_LAUNCH_FAILED,
            driver.cuLaunchKernel(functions.crash, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
      OK(driver.reset());
    }
    OK(driver.cuStreamDestroy(stream));
  }
}

void instructions_and_launches_are_counted() {
  const Session session;
  Saxpy saxpy(64);
  const uint64_t launches = driver.count("launches");
  const uint64_t instructions = driver.count("instructions");
  OK(saxpy.launch(nullptr));
  OK(driver.cuCtxSynchronize());
  EQUAL(launches + 1, driver.count("launches"));
  CHECK(driver.count("instructions") >= instructions + 64);
}

} // namespace

int main(int argc, char **argv) {
  CHECK(argc == 2);
  open_driver(argv[1]);
  a_text_with_errors_gives_a_log();
  a_good_text_gives_an_empty_log_and_verbose_usage();
  version_and_target_must_fit_driver_and_device();
  functions_are_found_and_described();
  occupancy_counts_the_scarcest_resource();
  the_best_block_has_the_most_threads_resident();
  launches_with_a_wrong_shape_are_refused();
  arguments_come_as_pointers_or_as_one_buffer();
  code_outlives_its_module_while_launches_are_queued();
  the_linker_makes_images_that_load();
  a_fault_loses_the_device();
  instructions_and_launches_are_counted();
  return 0;
}
