// The gate of every driver function, and control.h: counts, settings, injected failures.
#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "call.h"
#include "state.h"

#pragma GCC visibility push(default)
#include "emulator/control.h"
#pragma GCC visibility pop

namespace emulator {
namespace {

constexpr std::array<const char *, kCalls> kNames = {
#define VYRE_ROW(name, since) #name,
    VYC_DRIVER_TABLE(VYRE_ROW) VYC_DRIVER_OPTIONAL_TABLE(VYRE_ROW)
        VYRE_EMULATOR_EXTRA_TABLE(VYRE_ROW)
#undef VYRE_ROW
#define VYRE_ROW(name, since, type) #name,
            VYC_DRIVER_VERSIONED_TABLE(VYRE_ROW)
#undef VYRE_ROW
                "cuGetProcAddress",
    "cuGetProcAddress_v1"};

struct Fault {
  uint64_t remaining;  // calls that still pass
  CUresult result;
  bool repeat;
};

struct Faults {
  std::mutex mutex;
  std::array<std::vector<Fault>, kCalls> planned;
};

Faults &faults() {
  static auto *const instance = new Faults;
  return *instance;
}

std::array<std::atomic<uint64_t>, kCalls> call_counts;
std::atomic<uint64_t> all_calls;
std::atomic<bool> any_fault;  // lets an undisturbed call pass without the lock

int index_of(const char *name) {
  for (size_t i = 0; i < kCalls; ++i) {
    if (std::strcmp(kNames[i], name) == 0) return static_cast<int>(i);
  }
  return -1;
}

CUresult injected(Call id) {
  if (!any_fault) return CUDA_SUCCESS;
  std::lock_guard<std::mutex> lock(faults().mutex);
  std::vector<Fault> &planned = faults().planned[static_cast<size_t>(id)];
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < planned.size();) {
    Fault &fault = planned[i];
    const bool due = fault.remaining == 0;
    if (due && result == CUDA_SUCCESS) result = fault.result;
    if (due && !fault.repeat) {
      planned.erase(planned.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (!due) --fault.remaining;
    ++i;
  }
  return result;
}

Verdict refuse(CUresult result) { return {result, false}; }

}  // namespace

Settings &settings() {
  static Settings instance;
  return instance;
}

Process &process() {
  static Process instance;
  return instance;
}

Verdict gate(Call id, Need need) noexcept {
  if (need != Need::nothing && process().forked) return refuse(CUDA_ERROR_NOT_INITIALIZED);
  ++call_counts[static_cast<size_t>(id)];
  ++all_calls;
  if (is_ending_user_object()) return refuse(CUDA_ERROR_NOT_PERMITTED);
  if (const CUresult result = injected(id)) return refuse(result);
  if (need == Need::nothing) return {CUDA_SUCCESS, true};
  if (process().stopped) return refuse(CUDA_ERROR_DEINITIALIZED);
  if (need >= Need::driver && !process().initialized) return refuse(CUDA_ERROR_NOT_INITIALIZED);
  if (need < Need::context) return {CUDA_SUCCESS, true};
  const int device = current_device();
  if (device < 0) return refuse(CUDA_ERROR_INVALID_CONTEXT);
  const auto lost = static_cast<CUresult>(process().lost[device].load());
  if (lost != CUDA_SUCCESS) return {lost, need == Need::release};
  const CUresult current = check_current_context();
  if (current != CUDA_SUCCESS) return refuse(current);
  if (open_captures != 0) {
    const CUresult captured = capture_verdict(id);
    if (captured != CUDA_SUCCESS) return refuse(captured);
  }
  return {CUDA_SUCCESS, true};
}

void lose_device(int device, CUresult result, const char *message) noexcept {
  std::lock_guard<std::mutex> lock(state().mutex);
  int well = CUDA_SUCCESS;
  if (!process().lost[device].compare_exchange_strong(well, result)) return;
  if (!state().fault_message.empty()) return;
  try {
    state().fault_message = message;
  } catch (const std::bad_alloc &) {
    state().fault_message.clear();
  }
}

CUresult outcome(int device) noexcept {
  if (process().stopped) return CUDA_ERROR_DEINITIALIZED;
  return static_cast<CUresult>(process().lost[device].load());
}

namespace {

int set_stream_mode(int64_t value) {
  if (value < 0 || value > 2) return -1;
  std::lock_guard<std::mutex> lock(state().mutex);
  settings().stream_mode = value;
  state().engine.mode_changed();
  return 0;
}

int set_held(int64_t value) {
  if (value < 0 || value > 1) return -1;
  std::lock_guard<std::mutex> lock(state().mutex);
  settings().held = value;
  state().engine.hold_changed();
  return 0;
}

void set_lost(bool lost) {
  std::lock_guard<std::mutex> lock(state().mutex);
  for (std::atomic<int> &device : process().lost)
    device = lost ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
  state().fault_message = lost ? "lost on demand" : "";
}

int set(const std::string &key, int64_t value) {
  if (key == "stream_mode") return set_stream_mode(value);
  if (key == "held") return set_held(value);
  if (key == "lost") return set_lost(value != 0), 0;
  std::atomic<int64_t> *const setting = key == "memory_limit"       ? &settings().memory_limit
                                        : key == "host_limit"       ? &settings().host_limit
                                        : key == "quarantine_bytes" ? &settings().quarantine_bytes
                                        : key == "delay_us"         ? &settings().delay_us
                                        : key == "driver_version"   ? &settings().driver_version
                                        : key == "device_count"     ? &settings().device_count
                                        : key == "peer_access"      ? &settings().peer_access
                                        : key == "queue_depth"      ? &settings().queue_depth
                                        : key == "refuse_line"      ? &settings().refuse_line
                                                                    : nullptr;
  if (setting == nullptr || value < 0) return -1;
  if (setting == &settings().device_count && value > kMaxDevices) return -1;
  *setting = value;
  return 0;
}

void reset() {
  {
    std::lock_guard<std::mutex> lock(faults().mutex);
    for (auto &planned : faults().planned) planned.clear();
    any_fault = false;
  }
  const Settings defaults;
  settings().memory_limit = defaults.memory_limit.load();
  settings().host_limit = defaults.host_limit.load();
  settings().quarantine_bytes = defaults.quarantine_bytes.load();
  settings().delay_us = defaults.delay_us.load();
  settings().driver_version = defaults.driver_version.load();
  settings().device_count = defaults.device_count.load();
  settings().peer_access = defaults.peer_access.load();
  settings().queue_depth = defaults.queue_depth.load();
  settings().refuse_line = defaults.refuse_line.load();
  set_held(defaults.held.load());
  set_lost(false);
  set_stream_mode(defaults.stream_mode.load());
}

int count_objects(const std::string &key, uint64_t *value) {
  State &s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const HeapCounts heap = s.heap.counts();
  uint64_t contexts = 0;
  for (const PrimaryContext &context : s.contexts) contexts += context.references != 0 ? 1 : 0;
  const std::pair<const char *, uint64_t> rows[] = {
      {"allocations", heap.allocations},
      {"bytes", heap.bytes},
      {"pinned", heap.pinned},
      {"pinned_bytes", heap.pinned_bytes},
      {"modules", s.modules.count()},
      {"streams", s.streams.count()},
      {"events", s.events.count()},
      {"graphs", s.graphs.count() - s.bodies},
      {"execs", s.execs.count()},
      {"links", s.links.count()},
      {"user_objects", live_user_objects()},
      {"contexts", contexts},
  };
  for (const auto &[name, count] : rows) {
    if (key == name) return *value = count, 0;
  }
  return -1;
}

int count(const std::string &key, uint64_t *value) {
  if (key == "calls") return *value = all_calls, 0;
  if (key == "instructions") return *value = process().instructions, 0;
  if (key == "launches") return *value = process().launches, 0;
  const int index = index_of(key.c_str());
  if (index >= 0) return *value = call_counts[static_cast<size_t>(index)], 0;
  if (process().forked) return -1;  // the lock may be held by a thread that does not exist here
  return count_objects(key, value);
}

}  // namespace
}  // namespace emulator

extern "C" {

int vyre_emulator_set(const char *key, int64_t value) {
  if (key == nullptr || emulator::process().forked) return -1;
  return emulator::set(key, value);
}

int vyre_emulator_fail(const char *function, uint64_t nth, int32_t result, int32_t repeat) {
  const int index = function == nullptr ? -1 : emulator::index_of(function);
  if (index < 0 || nth == 0) return -1;
  emulator::Faults &faults = emulator::faults();
  std::lock_guard<std::mutex> lock(faults.mutex);
  faults.planned[static_cast<size_t>(index)].push_back(
      {nth - 1, static_cast<CUresult>(result), repeat != 0});
  emulator::any_fault = true;
  return 0;
}

int vyre_emulator_reset(void) {
  if (emulator::process().forked) return -1;
  emulator::reset();
  return 0;
}

int vyre_emulator_count(const char *key, uint64_t *value) {
  if (key == nullptr || value == nullptr) return -1;
  return emulator::count(key, value);
}

const char *vyre_emulator_function(uint64_t index) {
  return index < emulator::kCalls ? emulator::kNames[index] : nullptr;
}

int vyre_emulator_fault_message(char *buffer, uint64_t size) {
  if (buffer == nullptr || size == 0 || emulator::process().forked) return -1;
  std::lock_guard<std::mutex> lock(emulator::state().mutex);
  const std::string &message = emulator::state().fault_message;
  const size_t length = std::min<size_t>(message.size(), size - 1);
  std::memcpy(buffer, message.data(), length);
  buffer[length] = '\0';
  return 0;
}

}  // extern "C"
