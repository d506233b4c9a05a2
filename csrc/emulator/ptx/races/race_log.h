// The races that launches found last, by number, for readers of a report that names one.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/machine.h"

namespace emulator {

struct Race {
  uint64_t address = 0; // of the element; in shared memory from its start
  uint32_t bytes = 0; // of the element
  bool shared = false;
  uint32_t line[2] = {}; // in the PTX text; first, second access
  std::array<uint32_t, 3> block[2] = {}, thread[2] = {};
  SharedPlace symbol; // the array of shared memory
  std::vector<uint8_t> parameters; // of the launch
};

// Keeps it; its number.
uint64_t remember(Race race);

} // namespace emulator
