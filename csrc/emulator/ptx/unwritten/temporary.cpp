// See temporary.h.
#include "temporary.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <new>

#pragma GCC visibility push(default)
#include "emulator/control.h"
#pragma GCC visibility pop

namespace emulator {
namespace {

constexpr uint32_t unspecified_byte = 0xA5;

struct Known {
  std::mutex mutex;
  std::atomic<size_t> count{0}; // so that without any nothing is locked
  std::map<uint64_t, std::shared_ptr<Temporary>> by_address;
};

Known &known() {
  static auto *const instance = new Known;
  return *instance;
}

// Those that these bytes are in, or in part.
std::vector<std::shared_ptr<Temporary>> in(uint64_t address, uint64_t bytes) {
  std::vector<std::shared_ptr<Temporary>> found;
  if (known().count == 0) return found;
  std::lock_guard<std::mutex> lock(known().mutex);
  for (const auto &[begin, one] : known().by_address)
    if (address < one->end() && begin < address + bytes) found.push_back(one);
  return found;
}

} // namespace

bool Temporary::unwritten(uint64_t address, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto first = written_.begin() + static_cast<std::ptrdiff_t>(address - begin);
  const auto last = first + static_cast<std::ptrdiff_t>(std::min(bytes, end() - address));
  return std::find(first, last, uint8_t{1}) == last;
}

void Temporary::write(uint64_t address, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t from = std::max(address, begin), to = std::min(address + bytes, end());
  if (from < to)
    std::fill_n(written_.begin() + static_cast<std::ptrdiff_t>(from - begin), to - from, 1);
}

void Temporary::forget() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::fill(written_.begin(), written_.end(), 0);
}

std::shared_ptr<Temporary> temporary_at(uint64_t address) {
  if (known().count == 0) return nullptr;
  std::lock_guard<std::mutex> lock(known().mutex);
  auto behind = known().by_address.upper_bound(address);
  if (behind == known().by_address.begin()) return nullptr;
  const auto &one = std::prev(behind)->second;
  return one->has(address) ? one : nullptr;
}

void temporary_written(uint64_t address, uint64_t bytes) {
  for (const auto &one : in(address, bytes)) one->write(address, bytes);
}

void temporary_filled(uint64_t address, uint64_t bytes, uint32_t value) {
  for (const auto &one : in(address, bytes)) {
    if (address == one->begin && address + bytes == one->end() && value == unspecified_byte)
      one->forget();
    else
      one->write(address, bytes);
  }
}

void temporaries_given(const Kernel &kernel, const Launch &launch) {
  if (known().count == 0) return;
  for (const Parameter &parameter : kernel.parameters) {
    uint64_t value = 0;
    if (parameter.size != sizeof value) continue;
    std::memcpy(&value, launch.parameters + parameter.offset, sizeof value);
    if (const auto one = temporary_at(value)) one->write(value, one->end() - value);
  }
}

} // namespace emulator

extern "C" int vyre_emulator_temporary(uint64_t address, uint64_t bytes) {
  emulator::Known &all = emulator::known();
  std::lock_guard<std::mutex> lock(all.mutex);
  try {
    if (bytes == 0)
      all.by_address.erase(address);
    else
      all.by_address[address] = std::make_shared<emulator::Temporary>(address, bytes);
  } catch (const std::bad_alloc &) {
    return -1;
  }
  all.count = all.by_address.size();
  return 0;
}

extern "C" void vyre_emulator_temporary_like(uint64_t of, uint64_t address) {
  if (of == 0) {
    vyre_emulator_temporary(address, 0);
  } else if (const auto one = emulator::temporary_at(of)) {
    if (one->begin == of) vyre_emulator_temporary(address, one->end() - of);
  }
}
