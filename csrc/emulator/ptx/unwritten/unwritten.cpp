// See unwritten/unwritten.h. What runs announce is kept by the address of their report until the
// next launch with it; findings by number, the last few of the process.
#include "unwritten.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <new>

#pragma GCC visibility push(default)
#include "emulator/control.h"
#pragma GCC visibility pop

namespace emulator {
namespace {

constexpr uint64_t report_bytes = 32;
constexpr size_t kept = 1024;

struct Range {
  uint64_t address = 0, bytes = 0;
};

struct Announced {
  std::mutex mutex;
  std::map<uint64_t, std::map<uint32_t, Range>> by_report; // and by binding
};

Announced &announced() {
  static auto *const instance = new Announced;
  return *instance;
}

struct Findings {
  std::mutex mutex;
  std::deque<vyre_emulator_unwritten_info> last;
  uint64_t first = 1; // number of last[0]
};

Findings &findings() {
  static auto *const instance = new Findings;
  return *instance;
}

uint64_t remember(const vyre_emulator_unwritten_info &info) {
  Findings &all = findings();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.last.push_back(info);
  if (all.last.size() > kept) {
    all.last.pop_front();
    ++all.first;
  }
  return all.first + all.last.size() - 1;
}

void place_of(uint32_t linear, const std::array<uint32_t, 3> &extent, uint32_t place[3]) {
  place[0] = linear % extent[0];
  place[1] = linear / extent[0] % extent[1];
  place[2] = linear / extent[0] / extent[1];
}

// Whether the launch has this address as a parameter: an announcement whose launch failed stays.
bool is_given(const Kernel &kernel, const Launch &launch, uint64_t address) {
  for (const Parameter &parameter : kernel.parameters) {
    uint64_t value = 0;
    if (parameter.size != sizeof value) continue;
    std::memcpy(&value, launch.parameters + parameter.offset, sizeof value);
    if (value == address) return true;
  }
  return false;
}

} // namespace

UnwrittenCheck::UnwrittenCheck(const Kernel &kernel, const Launch &launch)
    : kernel_(kernel), launch_(launch) {
  std::memcpy(&report_, launch.parameters + kernel.code->unwritten.report, sizeof report_);
  watch_temporaries();
  Announced &all = announced();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.by_report.find(report_);
  if (found == all.by_report.end()) return;
  for (const auto &[binding, range] : found->second)
    if (is_given(kernel, launch, range.address))
      ranges_.push_back({binding, range.address, std::vector<bool>(range.bytes)});
  all.by_report.erase(found);
}

void UnwrittenCheck::watch_temporaries() {
  for (uint32_t i = 0; i < kernel_.parameters.size(); ++i) {
    const Parameter &parameter = kernel_.parameters[i];
    uint64_t value = 0;
    if (parameter.size != sizeof value) continue;
    std::memcpy(&value, launch_.parameters + parameter.offset, sizeof value);
    if (auto one = temporary_at(value)) pointers_.push_back({i, value, std::move(one)});
  }
}

void UnwrittenCheck::enter(uint32_t block, uint32_t thread) {
  block_ = block;
  thread_ = thread;
}

UnwrittenCheck::Watched *UnwrittenCheck::watched(uint64_t address, uint64_t bytes) {
  for (Watched &range : ranges_) {
    const uint64_t offset = address - range.begin, size = range.written.size();
    if (offset < size && bytes <= size - offset) return &range;
  }
  return nullptr;
}

void UnwrittenCheck::access(size_t instruction, const uint64_t *r) {
  if (over_) return;
  const AccessForm &form = kernel_.code->accesses[instruction];
  const Instruction &i = kernel_.code->instructions[instruction];
  const uint64_t address = r[i.slot[form.address_slot]] + static_cast<uint64_t>(int64_t{i.offset});
  if (form.space == AccessForm::Space::shared || in_shared_window(address)) return;
  if (address - report_ < report_bytes) {
    over_ |= form.kind != AccessForm::Kind::load;
    return;
  }
  for (uint32_t k = 0; k < form.count && !over_; ++k) {
    const uint64_t element = address + uint64_t{k} * form.bytes;
    if (!pointers_.empty()) touch_temporary(element, form, instruction);
    if (Watched *range = watched(element, form.bytes))
      touch(*range, element - range->begin, form, instruction);
  }
}

// It reads what is there before it writes: an atomic on two bytes, too, only writes.
static bool reads_from(const AccessForm &form) {
  return form.kind != AccessForm::Kind::store && !(form.atomic && form.bytes == sizeof(uint16_t));
}

void UnwrittenCheck::touch_temporary(uint64_t address, const AccessForm &form, size_t instruction) {
  const Pointer *nearest = nullptr;
  for (const Pointer &each : pointers_)
    if (each.address <= address && each.of->has(address) &&
        (nearest == nullptr || nearest->address < each.address))
      nearest = &each;
  if (nearest == nullptr) return;
  if (reads_from(form) && nearest->of->unwritten(address, form.bytes))
    found(VYRE_EMULATOR_PARAMETER | nearest->parameter, address - nearest->address, instruction);
  else if (form.kind != AccessForm::Kind::load)
    nearest->of->write(address, form.bytes);
}

void UnwrittenCheck::found(uint32_t binding, uint64_t offset, size_t instruction) {
  vyre_emulator_unwritten_info info = {};
  info.binding = binding;
  info.offset = offset;
  info.line = static_cast<uint32_t>(kernel_.code->locations[instruction].line);
  place_of(block_, launch_.grid, info.block);
  place_of(thread_, launch_.block, info.thread);
  const uint64_t threads = uint64_t{launch_.block[0]} * launch_.block[1] * launch_.block[2];
  by_ = block_ * threads + thread_;
  found_ = remember(info);
  over_ = true;
}

void UnwrittenCheck::touch(Watched &range, uint64_t offset, const AccessForm &form,
                           size_t instruction) {
  const auto begin = range.written.begin() + static_cast<std::ptrdiff_t>(offset);
  const auto end = begin + form.bytes;
  if (reads_from(form) && std::find(begin, end, true) == end)
    return found(range.binding, offset, instruction);
  if (form.kind != AccessForm::Kind::load) std::fill(begin, end, true);
}

void UnwrittenCheck::look_at_results() {
  for (const Watched &range : ranges_) {
    const auto first = std::find(range.written.begin(), range.written.end(), false);
    if (first == range.written.end()) continue;
    vyre_emulator_unwritten_info info = {};
    info.binding = range.binding;
    info.offset = static_cast<uint64_t>(first - range.written.begin());
    info.bytes = static_cast<uint64_t>(std::count(first, range.written.end(), false));
    found_ = remember(info);
    return;
  }
}

void UnwrittenCheck::finish(Memory &memory) {
  if (!over_) look_at_results();
  // What was not looked at may have been written.
  if (over_)
    for (const Pointer &each : pointers_)
      each.of->write(each.address, each.of->end() - each.address);
  if (found_ == 0) return;
  uint64_t begin = 0, end = 0;
  auto *const words = static_cast<uint64_t *>(memory.resolve(report_, report_bytes, &begin, &end));
  if (words == nullptr || __atomic_load_n(words, __ATOMIC_ACQUIRE) != ~uint64_t{0}) return;
  __atomic_store_n(words + 1, found_, __ATOMIC_RELAXED);
  const auto site = static_cast<uint64_t>(kernel_.code->unwritten.site);
  __atomic_store_n(words, by_ << 20 | site, __ATOMIC_RELEASE);
}

} // namespace emulator

extern "C" int vyre_emulator_unspecified(uint64_t report, uint32_t binding, uint64_t address,
                                         uint64_t bytes) {
  emulator::Announced &all = emulator::announced();
  std::lock_guard<std::mutex> lock(all.mutex);
  try {
    all.by_report[report][binding] = {address, bytes};
  } catch (const std::bad_alloc &) {
    return -1; // csrc is C; the launch is not checked
  }
  return 0;
}

extern "C" int vyre_emulator_unwritten(uint64_t number, struct vyre_emulator_unwritten_info *info) {
  if (info == nullptr) return -1;
  emulator::Findings &all = emulator::findings();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (number - all.first >= all.last.size()) return -1;
  *info = all.last[number - all.first];
  return 0;
}
