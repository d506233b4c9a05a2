// The emulated driver as a whole: entry points, initialization, the device, contexts, the gate of
// every function, the lost device, fork and process exit.
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "emulator_test.h"

namespace {
bool in_fork = false;
}  // namespace

// A forked child has the memory of the parent's threads, but not the stacks that it hangs from: the
// leak sanitizer, at its exit, would take for leaked what the threads of the streams hold.
extern "C" int __lsan_is_turned_off() { return in_fork ? 1 : 0; }

namespace {

CUresult proc(const char *name, int version, void **address,
              CUdriverProcAddressQueryResult *status) {
  return driver.get_proc_address(name, address, version, CU_GET_PROC_ADDRESS_DEFAULT, status);
}

void proc_address_answers_by_name_and_version() {
  void *address = nullptr;
  CUdriverProcAddressQueryResult status;
  OK(proc("cuNoSuchFunction", 13000, &address, &status));
  EQUAL(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, status);
  CHECK(address == nullptr);
  GIVES(CUDA_ERROR_NOT_FOUND, proc("cuNoSuchFunction", 13000, &address, nullptr));
  OK(proc("cuMemAlloc", 2000, &address, &status)); // the 32-bit ABI
  CHECK(address == nullptr);
  EQUAL(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, status);
  OK(driver.set("driver_version", 11030));
  GIVES(CUDA_ERROR_INVALID_VALUE, proc("cuGraphAddKernelNode", 12000, &address, &status));
  OK(proc("cuGraphAddKernelNode", 11030, &address, &status));
  EQUAL(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, status);
  OK(proc("cuGraphLaunch", 10000, &address, nullptr));
  int version = 0;
  OK(driver.cuDriverGetVersion(&version));
  EQUAL(11030, version);
  OK(driver.reset());
  GIVES(CUDA_ERROR_INVALID_VALUE, proc(nullptr, 13000, &address, &status));
  GIVES(CUDA_ERROR_INVALID_VALUE, proc("cuInit", 13000, nullptr, &status));
  void *old_form = nullptr;
  OK(proc("cuGetProcAddress", 11030, &old_form, &status));
  OK(proc("cuGetProcAddress", 12000, &address, &status));
  CHECK(old_form != address);
  auto *const legacy =
      reinterpret_cast<CUresult (*)(const char *, void **, int, cuuint64_t)>(old_form);
  OK(legacy("cuInit", &address, 2000, 0));
  CHECK(address == reinterpret_cast<void *>(driver.cuInit));
}

void error_names_are_those_of_the_header() {
  const char *text = nullptr;
  OK(driver.cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  EQUAL(0, std::strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
  OK(driver.cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  CHECK(std::strlen(text) > 0);
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGetErrorName(static_cast<CUresult>(998), &text));
  CHECK(text == nullptr);
}

void calls_before_init_are_refused() {
  int count = 0;
  CUdeviceptr pointer = 0;
  GIVES(CUDA_ERROR_NOT_INITIALIZED, driver.cuDeviceGetCount(&count));
  GIVES(CUDA_ERROR_NOT_INITIALIZED, driver.cuMemAlloc(&pointer, 4));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuInit(1));
  OK(driver.set("device_count", 0));
  GIVES(CUDA_ERROR_NO_DEVICE, driver.cuInit(0));
  OK(driver.reset());
  OK(driver.cuInit(0));
  OK(driver.cuInit(0));
  GIVES(CUDA_ERROR_INVALID_CONTEXT, driver.cuMemAlloc(&pointer, 4));
}

int attribute(CUdevice_attribute key) {
  int value = -1;
  OK(driver.cuDeviceGetAttribute(&value, key, 0));
  return value;
}

void the_device_says_what_it_is() {
  int count = 0;
  OK(driver.cuDeviceGetCount(&count));
  EQUAL(1, count);
  CUdevice device = -1;
  OK(driver.cuDeviceGet(&device, 0));
  GIVES(CUDA_ERROR_INVALID_DEVICE, driver.cuDeviceGet(&device, 1));
  GIVES(CUDA_ERROR_INVALID_DEVICE, driver.cuDeviceGet(&device, -1));
  char name[64];
  OK(driver.cuDeviceGetName(name, sizeof name, 0));
  CHECK(std::strstr(name, "emulator") != nullptr);
  OK(driver.cuDeviceGetName(name, 5, 0));
  EQUAL(size_t{4}, std::strlen(name));
  CUuuid uuid{};
  OK(driver.cuDeviceGetUuid(&uuid, 0));
  size_t bytes = 0;
  OK(driver.set("memory_limit", 4096));
  OK(driver.cuDeviceTotalMem(&bytes, 0));
  EQUAL(size_t{4096}, bytes);
  OK(driver.reset());
  EQUAL(9, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  EQUAL(0, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  EQUAL(132, attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  EQUAL(1024, attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  EQUAL(49152, attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
  EQUAL(232448, attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  EQUAL(0, attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED));
  EQUAL(0, attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE));
  int value = 0;
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(0), 0));
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
}

void every_life_of_a_context_has_a_number_of_its_own() {
  CUcontext context = nullptr;
  unsigned long long first = 0;
  unsigned long long now = 0;
  OK(driver.cuDevicePrimaryCtxRetain(&context, 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuCtxGetId(context, nullptr));
  GIVES(CUDA_ERROR_INVALID_CONTEXT, driver.cuCtxGetId(nullptr, &first));
  GIVES(CUDA_ERROR_INVALID_CONTEXT, driver.cuCtxGetId(reinterpret_cast<CUcontext>(&now), &first));
  OK(driver.cuCtxGetId(context, &first));
  OK(driver.cuCtxSetCurrent(context));
  OK(driver.cuCtxGetId(nullptr, &now));
  EQUAL(first, now);
  OK(driver.cuCtxSetCurrent(nullptr));
  OK(driver.cuDevicePrimaryCtxRelease(0));
  GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, driver.cuCtxGetId(context, &now));
  OK(driver.cuDevicePrimaryCtxRetain(&context, 0));
  OK(driver.cuCtxGetId(context, &now));
  CHECK(now != first);
  OK(driver.cuDevicePrimaryCtxRelease(0));
}

void contexts_are_counted_and_current_per_thread() {
  CUcontext context = nullptr;
  CUcontext again = nullptr;
  CUcontext now = nullptr;
  GIVES(CUDA_ERROR_INVALID_CONTEXT, driver.cuDevicePrimaryCtxRelease(0));
  OK(driver.cuDevicePrimaryCtxRetain(&context, 0));
  OK(driver.cuDevicePrimaryCtxRetain(&again, 0));
  CHECK(context == again);
  OK(driver.cuCtxGetCurrent(&now));
  CHECK(now == nullptr);
  OK(driver.cuCtxSetCurrent(context));
  std::thread([] {
    CUcontext other = nullptr;
    OK(driver.cuCtxGetCurrent(&other));
    CHECK(other == nullptr);
    GIVES(CUDA_ERROR_INVALID_CONTEXT, driver.cuCtxSynchronize());
  }).join();
  OK(driver.cuCtxPushCurrent(context));
  OK(driver.cuCtxPopCurrent(&now));
  CHECK(now == context);
  OK(driver.cuDevicePrimaryCtxRelease(0));
  OK(driver.cuCtxSynchronize());
  EQUAL(uint64_t{1}, driver.count("contexts"));
  OK(driver.cuDevicePrimaryCtxRelease(0));
  EQUAL(uint64_t{0}, driver.count("contexts"));
  GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, driver.cuCtxSynchronize());
  GIVES(CUDA_ERROR_INVALID_CONTEXT, driver.cuCtxSetCurrent(context));
  OK(driver.cuCtxSetCurrent(nullptr));
  GIVES(CUDA_ERROR_INVALID_CONTEXT, driver.cuCtxPopCurrent(&now));
}

// Calls a function with all arguments zero: only behind an injected failure.
template <class... Arguments>
CUresult with_zeros(CUresult (*function)(Arguments...)) {
  return function(Arguments{}...);
}

void every_function_counts_and_fails_on_demand() {
  const Session session;
#define ROW(name, since)                                                                           \
  {                                                                                                \
    const uint64_t before = driver.count(#name);                                                   \
    OK(driver.fail_call(#name, 1, CUDA_ERROR_TIMEOUT, 0));                                         \
    GIVES(CUDA_ERROR_TIMEOUT, with_zeros(driver.name));                                            \
    EQUAL(before + 1, driver.count(#name));                                                        \
  }
  VYC_DRIVER_TABLE(ROW) VYRE_EMULATOR_EXTRA_TABLE(ROW)
#undef ROW
}

void the_nth_call_fails() {
  const Session session;
  CUdeviceptr pointer = 0;
  OK(driver.fail_call("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY, 0));
  OK(driver.cuMemAlloc(&pointer, 16));
  OK(driver.cuMemFree(pointer));
  GIVES(CUDA_ERROR_OUT_OF_MEMORY, driver.cuMemAlloc(&pointer, 16));
  EQUAL(uint64_t{0}, driver.count("allocations"));
  OK(driver.cuMemAlloc(&pointer, 16));
  OK(driver.fail_call("cuMemFree", 1, CUDA_ERROR_UNKNOWN, 1));
  GIVES(CUDA_ERROR_UNKNOWN, driver.cuMemFree(pointer));
  GIVES(CUDA_ERROR_UNKNOWN, driver.cuMemFree(pointer));
  EQUAL(uint64_t{1}, driver.count("allocations"));
  OK(driver.reset());
  OK(driver.cuMemFree(pointer));
  EQUAL(-1, driver.fail_call("cuNoSuchFunction", 1, 1, 0));
  EQUAL(-1, driver.fail_call("cuMemFree", 0, 1, 0));
  EQUAL(-1, driver.set("no_such_key", 1));
  EQUAL(-1, driver.set("stream_mode", 3));
  uint64_t value = 0;
  EQUAL(-1, driver.count_into("no_such_key", &value));
}

void a_lost_device_refuses_work_and_releases_objects() {
  const Session session;
  CUdeviceptr pointer = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  OK(driver.cuMemAlloc(&pointer, 16));
  OK(driver.cuStreamCreate(&stream, 0));
  OK(driver.cuEventCreate(&event, 0));
  OK(driver.set("lost", 1));
  CUdeviceptr other = 0;
  GIVES(CUDA_ERROR_LAUNCH_FAILED, driver.cuMemAlloc(&other, 16));
  GIVES(CUDA_ERROR_LAUNCH_FAILED, driver.cuStreamSynchronize(stream));
  GIVES(CUDA_ERROR_LAUNCH_FAILED, driver.cuMemFree(pointer));
  GIVES(CUDA_ERROR_LAUNCH_FAILED, driver.cuStreamDestroy(stream));
  GIVES(CUDA_ERROR_LAUNCH_FAILED, driver.cuEventDestroy(event));
  char message[64];
  OK(driver.fault_message(message, sizeof message));
  CHECK(std::strlen(message) > 0);
  char name[64];
  OK(driver.cuDeviceGetName(name, sizeof name, 0));
}

void dead_handles_are_refused() {
  const Session session;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  OK(driver.cuStreamCreate(&stream, 0));
  OK(driver.cuStreamDestroy(stream));
  OK(driver.cuEventCreate(&event, 0));
  OK(driver.cuEventDestroy(event));
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuStreamDestroy(stream));
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuStreamDestroy(nullptr));
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuStreamSynchronize(stream));
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuStreamQuery(reinterpret_cast<CUstream>(&stream)));
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuEventRecord(event, nullptr));
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuEventDestroy(nullptr));
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuModuleUnload(reinterpret_cast<CUmodule>(stream)));
  GIVES(CUDA_ERROR_INVALID_HANDLE,
        driver.cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphDestroy(nullptr));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphLaunch(nullptr, nullptr));
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuLinkDestroy(nullptr));
  CUstream next = nullptr;
  OK(driver.cuStreamCreate(&next, 0));
  CHECK(next != stream);
  OK(driver.cuStreamDestroy(next));
}

void objects_alive_at_the_end_of_the_context_are_leaked() {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr pointer = 0;
  OK(driver.cuDevicePrimaryCtxRetain(&context, 0));
  OK(driver.cuCtxSetCurrent(context));
  OK(driver.cuStreamCreate(&stream, 0));
  OK(driver.cuMemAlloc(&pointer, 100));
  OK(driver.cuDevicePrimaryCtxRelease(0));
  OK(driver.cuDevicePrimaryCtxRetain(&context, 0));
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuStreamDestroy(stream));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemFree(pointer));
  EQUAL(uint64_t{1}, driver.count("streams"));
  EQUAL(uint64_t{100}, driver.count("bytes"));
  OK(driver.cuDevicePrimaryCtxRelease(0));
}

void the_capture_mode_is_swapped_per_thread() {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  OK(driver.cuThreadExchangeStreamCaptureMode(&mode));
  EQUAL(CU_STREAM_CAPTURE_MODE_GLOBAL, mode);
  std::thread([] {
    CUstreamCaptureMode other = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    OK(driver.cuThreadExchangeStreamCaptureMode(&other));
    EQUAL(CU_STREAM_CAPTURE_MODE_GLOBAL, other);
  }).join();
  OK(driver.cuThreadExchangeStreamCaptureMode(&mode));
  EQUAL(CU_STREAM_CAPTURE_MODE_RELAXED, mode);
}

// Runs `body` in a forked child and gives its exit status; a hang ends in SIGALRM.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    in_fork = true;
    alarm(30);
    body();
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

void a_forked_child_is_refused_at_once() {
  const Session session;
  Saxpy saxpy(100);
  CUstream stream = nullptr;
  OK(driver.cuStreamCreate(&stream, 0));
  OK(driver.set("delay_us", 20000));
  OK(saxpy.launch(stream));
  const int status = in_child([&] {
    uint64_t value = 0;
    CUdeviceptr pointer = 0;
    GIVES(CUDA_ERROR_NOT_INITIALIZED, driver.cuStreamSynchronize(stream));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, driver.cuMemAlloc(&pointer, 4));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, driver.cuInit(0));
    EQUAL(-1, driver.count_into("streams", &value));
    const char *name = nullptr;
    OK(driver.cuGetErrorName(CUDA_ERROR_NOT_INITIALIZED, &name));
    std::exit(7); // runs the exit handlers
  });
  CHECK(WIFEXITED(status));
  EQUAL(7, WEXITSTATUS(status));
  OK(driver.cuStreamSynchronize(stream));
  CHECK(saxpy.holds(2.0F));
  OK(driver.cuStreamDestroy(stream));
}

// In a process of its own: exits with a kernel that never ends, a queue behind it and a waiter.
[[noreturn]] void exit_with_work_in_flight() {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction spin = nullptr;
  CUstream stream = nullptr;
  CUstream behind = nullptr;
  CUevent event = nullptr;
  OK(driver.cuInit(0));
  OK(driver.cuDevicePrimaryCtxRetain(&context, 0));
  OK(driver.cuCtxSetCurrent(context));
  OK(driver.cuModuleLoadData(&module, kSpin));
  OK(driver.cuModuleGetFunction(&spin, module, "spin"));
  OK(driver.cuStreamCreate(&stream, 0));
  OK(driver.cuStreamCreate(&behind, 0));
  OK(driver.cuEventCreate(&event, 0));
  OK(driver.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  OK(driver.cuEventRecord(event, stream));
  OK(driver.cuStreamWaitEvent(behind, event, 0));
  GIVES(CUDA_ERROR_NOT_READY, driver.cuStreamQuery(behind));
  std::promise<void> ready;
  std::thread waiter([&] {
    OK(driver.cuCtxSetCurrent(context));
    ready.set_value();
    GIVES(CUDA_ERROR_DEINITIALIZED, driver.cuStreamSynchronize(behind));
  });
  waiter.detach();
  ready.get_future().wait();
  std::exit(5);
}

void the_process_ends_with_work_in_flight(const char *program, const char *library) {
  const int status = in_child([&] {
    execl(program, program, library, "exit", static_cast<char *>(nullptr));
    std::_Exit(1);
  });
  CHECK(WIFEXITED(status));
  EQUAL(5, WEXITSTATUS(status));
}

} // namespace

int main(int argc, char **argv) {
  CHECK(argc >= 2);
  open_driver(argv[1]);
  if (argc > 2) exit_with_work_in_flight();
  the_process_ends_with_work_in_flight(argv[0], argv[1]);
  proc_address_answers_by_name_and_version();
  error_names_are_those_of_the_header();
  calls_before_init_are_refused();
  the_device_says_what_it_is();
  every_life_of_a_context_has_a_number_of_its_own();
  contexts_are_counted_and_current_per_thread();
  every_function_counts_and_fails_on_demand();
  the_nth_call_fails();
  a_lost_device_refuses_work_and_releases_objects();
  dead_handles_are_refused();
  the_capture_mode_is_swapped_per_thread();
  a_forked_child_is_refused_at_once();
  objects_alive_at_the_end_of_the_context_are_leaked();
  return 0;
}
