// Races by number, the last few of the process; vyre_emulator_race reads them.
#include "race_log.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>

#pragma GCC visibility push(default)
#include "emulator/control.h"
#pragma GCC visibility pop

namespace emulator {
namespace {

constexpr size_t kept = 1024;

struct Races {
  std::mutex mutex;
  std::deque<Race> last;
  uint64_t first = 1; // number of last[0]
};

Races &races() {
  static auto *const instance = new Races;
  return *instance;
}

} // namespace

uint64_t remember(Race race) {
  Races &all = races();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.last.push_back(std::move(race));
  if (all.last.size() > kept) {
    all.last.pop_front();
    ++all.first;
  }
  return all.first + all.last.size() - 1;
}

} // namespace emulator

extern "C" int vyre_emulator_race(uint64_t number, struct vyre_emulator_race_info *info,
                                  uint8_t *parameters, uint64_t size) {
  if (info == nullptr || (parameters == nullptr && size != 0)) return -1;
  emulator::Races &all = emulator::races();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (number - all.first >= all.last.size()) return -1;
  const emulator::Race &race = all.last[number - all.first];
  *info = {};
  info->address = race.address;
  info->bytes = race.bytes;
  info->shared = race.shared ? 1 : 0;
  for (int k = 0; k < 2; ++k) {
    info->line[k] = race.line[k];
    std::copy(race.block[k].begin(), race.block[k].end(), info->block[k]);
    std::copy(race.thread[k].begin(), race.thread[k].end(), info->thread[k]);
  }
  info->symbol_address = race.symbol.address;
  const size_t length = std::min(race.symbol.name.size(), sizeof info->symbol - 1);
  std::memcpy(info->symbol, race.symbol.name.data(), length);
  std::copy_n(race.parameters.begin(), std::min<size_t>(size, race.parameters.size()), parameters);
  return 0;
}
