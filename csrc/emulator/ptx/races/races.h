// Data races of one launch: accesses of one place by two threads, one of them a store, that neither
// atomicity nor a barrier orders. Exists for modules that ask for it alone, with a module-level
// `.pragma "vyre_races SITE REPORT [BARRIER]"`: number of the site that a race is reported as,
// offsets of the parameters that point to the report and to the state of the grid barrier.
//
// Never a false alarm: threads of a block are ordered by any barrier of it that opened in between,
// lanes of a warp also by any warp-synchronous instruction, and all threads by a release that
// another thread's acquire at its place followed. Atomics whose scopes hold both threads do not
// race, nor do stores of equal values (racecheck's "informational" hazards). The first race of a
// launch ends its check, as does a failure that a thread reports, since outputs are unspecified
// from there on.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/machine.h"

namespace emulator {

// What one thread did, and when: equal counts mean that nothing came in between.
struct Access {
  uint32_t block = 0;
  uint32_t thread = 0;
  uint32_t instruction = 0;
  uint32_t barriers = 0; // of the block
  uint32_t warp_steps = 0; // warp-synchronous instructions of the warp
  uint32_t orders = 0; // grid barriers of the block, and releases with an acquire
  bool known = false;
  bool atomic = false;
  bool block_scope = false;
};

// Accesses of one kind to one place: enough of them to find a conflict with any later access.
// a and b are of one block, `other` of another.
struct Accesses {
  Access a, b, other;

  void add(const Access &access);
  const Access *conflicting(const Access &access) const;
};

struct Cell {
  uint32_t value = 0; // of the stores
  Accesses stores, loads, updates;
};

// By address and width: buffers are typed, so one place is accessed in one width.
using Shadow = std::unordered_map<uint64_t, Cell>;

// Of one block while it runs.
struct BlockRaces {
  uint32_t index = 0;
  uint32_t barriers = 0;
  uint32_t grid_barriers = 0;
  std::vector<uint32_t> warp_steps;
  Shadow shared;

  void begin(uint32_t block_index, size_t warps);
};

class RaceCheck {
 public:
  RaceCheck(const Kernel &kernel, const Launch &launch);

  // The thread that runs from now on.
  void enter(BlockRaces &block, uint32_t thread);
  // The access that an instruction is about to make.
  void access(size_t instruction, const uint64_t *r);
  // Keeps the race, if there was one, and says so in the report of the launch.
  void finish(Memory &memory) const;

 private:
  struct Found {
    Access first, second;
    uint64_t address;
    uint32_t bytes;
    bool shared;
  };

  void acquire(uint64_t place);
  void release(uint64_t place);
  bool is_hidden(uint64_t address, const AccessForm &form);
  void touch_swapped_byte(bool shared, uint64_t address, const AccessForm &form, uint64_t changed,
                          const Access &now);
  void touch(Shadow &shadow, uint64_t address, uint32_t bytes, const AccessForm &form,
             uint64_t value, Access now);
  const Access *conflict(Cell &cell, const AccessForm &form, uint32_t value, const Access &now);
  static void keep(Cell &cell, const AccessForm &form, uint32_t value, const Access &now);

  const Kernel &kernel_;
  const Launch &launch_;
  uint64_t report_ = 0, barrier_ = 0; // addresses, 0: none
  Shadow global_;
  BlockRaces *block_ = nullptr;
  uint32_t thread_ = 0;
  uint32_t orders_ = 0;
  // By place, since orders_ last grew: who released there (block << 32 | thread), or several.
  std::unordered_map<uint64_t, uint64_t> releases_;
  bool over_ = false;
  std::unique_ptr<Found> found_;
};

// Runs an access of a checked kernel.
const Instruction *run_checked(const Instruction *i, uint64_t *r, Machine &m);

} // namespace emulator
