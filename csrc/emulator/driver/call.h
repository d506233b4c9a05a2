// The gate that every driver function passes first, and the settings that tests steer it with.
//
// gate() counts the call, then refuses it when the process was forked, shut down or not
// initialized, when a test asked for a failure, when the device is lost, or when the thread has no
// context. call() runs a body behind the gate and lets no exception out of an extern "C" function.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>

#define VYC_CUDA_IS_EXPORTED 1 // the driver functions are what this library exports
#include "base/driver.h"

// Functions that VYC_DRIVER_TABLE does not name yet; a row moves there and leaves this list.
/* clang-format off */
#define VYRE_EMULATOR_EXTRA_TABLE(X)         \
  X(cuPointerGetAttributes, 7000)            \
  X(cuMemcpyHtoD, 3020)                      \
  X(cuMemcpyDtoH, 3020)                      \
  X(cuModuleLoadData, 2000)                  \
  X(cuStreamCreateWithPriority, 5050)        \
  X(cuEventRecordWithFlags, 11010)           \
  X(cuStreamBeginCapture, 10010)             \
  X(cuLaunchHostFunc, 10000)                 \
  X(cuGraphClone, 10000)                     \
  X(cuEventSynchronize, 2000)                \
  X(cuCtxSynchronize, 2000)                  \
  X(cuCtxPushCurrent, 4000)                  \
  X(cuCtxPopCurrent, 4000)                   \
  X(cuCtxDisablePeerAccess, 4000)
/* clang-format on */

namespace emulator {

// One name for each driver function, spelled as in the source: cuda.h's macros rename both sides.
enum class Call : uint16_t {
#define VYRE_ROW(name, since) name,
  VYC_DRIVER_TABLE(VYRE_ROW) VYC_DRIVER_OPTIONAL_TABLE(VYRE_ROW) VYRE_EMULATOR_EXTRA_TABLE(VYRE_ROW)
#undef VYRE_ROW
#define VYRE_ROW(name, since, type) name,
      VYC_DRIVER_VERSIONED_TABLE(VYRE_ROW)
#undef VYRE_ROW
          get_proc_address,
  get_proc_address_v1,
  count_
};
constexpr size_t kCalls = static_cast<size_t>(Call::count_);

// What must hold before the body runs.
enum class Need {
  nothing, // a table lookup: answers in a forked child and after shutdown too
  process, // not forked, not shut down
  driver, // cuInit was called
  context, // and the thread has a current, live context, whose device is not lost
  release, // as context, but on a lost device the body runs too; the sticky error is returned
};

struct Verdict {
  CUresult result;
  bool run; // the body runs although result is an error: a release on a lost device
};
Verdict gate(Call id, Need need) noexcept;

template <class Body>
CUresult call(Call id, Need need, Body &&body) noexcept {
  const Verdict verdict = gate(id, need);
  if (!verdict.run) return verdict.result;
  try {
    const CUresult result = std::forward<Body>(body)();
    return verdict.result != CUDA_SUCCESS ? verdict.result : result;
  } catch (const std::bad_alloc &) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::system_error &) { // no thread could be started
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
}

// Enums come from C, where any value may be passed: the number, without reading it as the enum.
template <class Enum>
int64_t number(const Enum &value) {
  std::underlying_type_t<Enum> plain;
  std::memcpy(&plain, &value, sizeof plain);
  return plain;
}

enum class StreamMode : int64_t { eager = 0, threaded = 1, lazy = 2 };

constexpr int64_t kDefaultMemoryLimit = int64_t{2} << 30;
constexpr int64_t kDefaultQuarantineBytes = int64_t{64} << 20;
constexpr int kDefaultDriverVersion = 13000;
constexpr int kComputeCapability = 90;
constexpr int kMaxDevices = 8;

// VYRE_CUDA_EMULATOR_DEVICES; 1 if it is not set, -1 if it is not a number from 1 to 8.
int64_t devices_of_environment();

// Read by every thread, written by vyre_emulator_set: see control.h for the meaning of each.
struct Settings {
  std::atomic<int64_t> stream_mode{static_cast<int64_t>(StreamMode::threaded)};
  std::atomic<int64_t> memory_limit{kDefaultMemoryLimit};
  std::atomic<int64_t> host_limit{kDefaultMemoryLimit};
  std::atomic<int64_t> quarantine_bytes{kDefaultQuarantineBytes};
  std::atomic<int64_t> delay_us{0};
  std::atomic<int64_t> held{0};
  std::atomic<int64_t> driver_version{kDefaultDriverVersion};
  std::atomic<int64_t> device_count{devices_of_environment()};
  std::atomic<int64_t> peer_access{1};
  std::atomic<int64_t> refuse_line{0};
  std::atomic<int64_t> queue_depth{0};

  StreamMode mode() const { return static_cast<StreamMode>(stream_mode.load()); }
};
Settings &settings();

// What the whole process went through.
struct Process {
  std::atomic<bool> initialized{false};
  std::atomic<bool> forked{false};
  std::atomic<bool> stopped{false};
  std::atomic<uint64_t> instructions{0};
  std::atomic<uint64_t> launches{0};
  std::atomic<int> lost[kMaxDevices]{}; // the sticky CUresult of each device, 0 while it is well
};
Process &process();

// The first fault stays; `message` is what vyre_emulator_fault_message answers.
void lose_device(int device, CUresult result, const char *message) noexcept;

// What a call that waited answers: the sticky error if the work it waited for brought one.
CUresult outcome(int device) noexcept;

} // namespace emulator
