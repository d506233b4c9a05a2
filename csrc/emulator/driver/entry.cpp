// cuInit, versions, cuGetProcAddress: what works before there is a context; process start and end.
#include <pthread.h>

#include <cstdlib>
#include <cstring>

#include "state.h"

extern "C" {
__attribute__((visibility("default"))) CUresult CUDAAPI cuGetProcAddress(const char *symbol,
                                                                         void **function,
                                                                         int version,
                                                                         cuuint64_t flags);
}

namespace emulator {
namespace {

struct Entry {
  const char *name;
  int since;  // the first CUDA version with this ABI of the function
  void *address;
};

const Entry kEntries[] = {
#define VYRE_ROW(name, since) {#name, since, reinterpret_cast<void *>(&name)},
    VYC_DRIVER_TABLE(VYRE_ROW) VYC_DRIVER_OPTIONAL_TABLE(VYRE_ROW)
        VYRE_EMULATOR_EXTRA_TABLE(VYRE_ROW)
#undef VYRE_ROW
            {"cuGraphAddNode", 12020, reinterpret_cast<void *>(&graph_add_node)},
    {"cuStreamGetCaptureInfo", 11030, reinterpret_cast<void *>(&stream_get_capture_info)},
    {"cuStreamUpdateCaptureDependencies", 11030,
     reinterpret_cast<void *>(&stream_update_capture_dependencies)},
    {"cuGetProcAddress", 12000, reinterpret_cast<void *>(&cuGetProcAddress_v2)},
    {"cuGetProcAddress", 11030, reinterpret_cast<void *>(&cuGetProcAddress)},
};

// The newest ABI of the function that both the caller's version and the driver's version have.
// ABIs older than those of the table do not exist here, so too low a version finds nothing.
CUdriverProcAddressQueryResult look_up(const char *name, int version, void **function) {
  *function = nullptr;
  bool known = false;
  for (const Entry &entry : kEntries) {
    if (std::strcmp(entry.name, name) != 0 || entry.since > settings().driver_version) continue;
    known = true;
    if (entry.since > version) continue;
    *function = entry.address;
    return CU_GET_PROC_ADDRESS_SUCCESS;
  }
  return known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

// A caller that passes `status` learns there what was missing, with CUDA_SUCCESS and a null
// function.
CUresult proc_address(const char *symbol, void **function, int version, cuuint64_t flags,
                      CUdriverProcAddressQueryResult *status) {
  constexpr cuuint64_t known =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr || function == nullptr || (flags & ~known) != 0 || flags == known) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (version > settings().driver_version) return CUDA_ERROR_INVALID_VALUE;
  CUdriverProcAddressQueryResult result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  *function = nullptr;
  // Functions on the per-thread default stream are not emulated.
  if (flags != CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
    result = look_up(symbol, version, function);
  if (status != nullptr) {
    *status = result;
    return CUDA_SUCCESS;
  }
  return result == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

void after_fork_in_child() {
  if (process().initialized) process().forked = true;
}

void initialize() {
  static const bool once = [] {
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
    std::atexit(shut_down);
    return true;
  }();
  static_cast<void>(once);
  process().initialized = true;
}

}  // namespace

int64_t devices_of_environment() {
  const char *const text = std::getenv("VYRE_CUDA_EMULATOR_DEVICES");
  if (text == nullptr || *text == '\0') return 1;
  const bool valid = text[0] >= '1' && text[0] <= '0' + kMaxDevices && text[1] == '\0';
  return valid ? text[0] - '0' : -1;
}

State &state() {
  static auto *const instance = new State;
  return *instance;
}

void shut_down() {
  if (process().forked) return;
  State &s = state();
  Lock lock(s.mutex);
  process().stopped = true;
  s.engine.shut_down(lock);
}

}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuInit(unsigned int flags) {
  return call(Call::cuInit, Need::process, [&]() -> CUresult {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (settings().device_count < 0) return CUDA_ERROR_INVALID_VALUE;
    if (settings().device_count == 0) return CUDA_ERROR_NO_DEVICE;
    initialize();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDriverGetVersion(int *version) {
  return call(Call::cuDriverGetVersion, Need::process, [&]() -> CUresult {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *version = static_cast<int>(settings().driver_version);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                     cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
  return call(Call::get_proc_address, Need::nothing,
              [&] { return proc_address(symbol, function, version, flags, status); });
}

CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **function, int version,
                                  cuuint64_t flags) {
  return call(Call::get_proc_address_v1, Need::nothing,
              [&] { return proc_address(symbol, function, version, flags, nullptr); });
}

}  // extern "C"
