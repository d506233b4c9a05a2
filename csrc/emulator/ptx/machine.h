// The types inside the PTX machine: a decoded instruction, what its handler sees, and the code of
// one kernel. A thread's registers, the constants of its kernel and the special registers share one
// file of 64-bit slots. Invariant: a slot that stands for an N-bit register is zero above bit N -
// 1; a predicate is 0 or 1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/ptx/ptx.h"

namespace emulator {

struct Instruction;
struct Machine;
struct Group;
class RaceCheck;
class UnwrittenCheck;

// Runs one instruction on the registers `r` and returns the next one, or nullptr when the thread
// cannot go on; Machine::stop then says why.
using Handler = const Instruction *(*)(const Instruction *, uint64_t *r, Machine &);

struct Instruction {
  Handler run;
  uint32_t slot[5]; // operands in the order of the text
  int32_t offset; // bytes added to an address, distance of a branch, or a sixth slot
};

// Slots that every kernel has. The constants follow, then the registers.
enum Slot : uint32_t {
  slot_sink, // results that the text throws away
  slot_carry, // CC.CF
  slot_tid,
  slot_ntid = slot_tid + 3,
  slot_ctaid = slot_ntid + 3,
  slot_nctaid = slot_ctaid + 3,
  slot_laneid = slot_nctaid + 3,
  slot_warpid,
  slot_nwarpid,
  slot_smid,
  slot_nsmid,
  slot_lanemask_eq,
  slot_lanemask_le,
  slot_lanemask_lt,
  slot_lanemask_ge,
  slot_lanemask_gt,
  slot_dynamic_shared,
  slot_total_shared,
  slot_fixed_count
};

struct Location {
  uint32_t line;
  uint32_t begin, end; // of the instruction in Code::text
};

// How an instruction accesses memory that threads share.
struct AccessForm {
  enum class Kind : uint8_t { load, store, update };
  enum class Space : uint8_t { global, shared, generic };
  uint8_t bytes = 0; // of an element; 0: the instruction is no such access
  uint8_t count = 1; // elements
  uint8_t address_slot = 0;
  Kind kind = Kind::load;
  Space space = Space::global;
  bool atomic = false, block_scope = false;
  bool acquire = false, release = false;
};

// What a module asks for that wants its races found; offsets in bytes, -1: no such parameter.
struct RaceRequest {
  int64_t site = -1; // -1: no check
  int64_t report = -1, barrier = -1;
};

// The same for elements that are read or returned before they are written.
struct UnwrittenRequest {
  int64_t site = -1; // -1: no check
  int64_t report = -1;
};

// An initialized variable of a module. Its address is that on the host.
struct StaticVariable {
  std::string name;
  bool constant = false; // .const, otherwise .global
  std::vector<uint8_t> bytes;

  uint64_t address() const { return reinterpret_cast<uint64_t>(bytes.data()); }
};
using StaticVariables = std::vector<StaticVariable>;

// An array of static shared memory.
struct SharedPlace {
  std::string name;
  uint64_t address = 0;
  uint64_t bytes = 0;
};

struct Code {
  std::vector<Instruction> instructions;
  std::vector<Location> locations; // one an instruction
  std::vector<uint64_t> constants; // slots slot_fixed_count and up
  uint32_t slots = slot_fixed_count;
  std::shared_ptr<const std::string> text;
  RaceRequest races;
  UnwrittenRequest unwritten;
  // Only where accesses are checked, one an instruction; `plain`: the handlers of accesses.
  std::vector<AccessForm> accesses;
  std::vector<Handler> plain;
  std::vector<SharedPlace> shared_places;
  std::shared_ptr<const StaticVariables> variables; // of the module
  uint32_t local_bytes = 0; // of a thread
};

// gather: the thread continues once all lanes of its warp have had their turn
enum class Stop : uint8_t { exited, barrier, collective, gather, yield, fault };

// Does a warp-synchronous instruction for all lanes that take part.
using Collective = void (*)(Group &);

struct Group {
  static constexpr uint32_t lanes = 32;
  uint32_t members = 0; // lanes that take part
  const Instruction *instruction[lanes];
  uint64_t *r[lanes];
};

// A barrier that a thread waits at or has passed with bar.arrive.
struct Arrival {
  uint32_t id = 0;
  uint32_t threads = 0; // 0: all of the block
  bool wait = true;
  bool aligned = true;
  enum class Reduce : uint8_t { none, popc, all, any } reduce = Reduce::none;
  bool value = false;
  uint32_t result_slot = slot_sink;
};

// Whether a thread only looks: at an address that it loaded with an order before, again and again,
// while nothing of its launch changes. The others then have the rest of its time slice.
struct Looks {
  static constexpr uint32_t enough = 4; // at one address

  // Before a load with an order.
  bool add(uint64_t address, uint64_t changes) {
    if (changes != since) {
      *this = Looks{};
      at = address;
      since = changes;
    } else if (address == at) {
      others = 0;
      ++again;
    } else if (++others == most_others) { // what is looked at again is another address
      at = address;
      again = others = 0;
      most_others *= 2;
    }
    return waits(changes);
  }
  bool waits(uint64_t changes) const { return again >= enough && since == changes; }

  uint64_t at = 0, since = 0;
  uint32_t again = 0, others = 0, most_others = 64;
};

struct Range {
  uint64_t begin = 0, size = 0;
  uint8_t *host = nullptr;
};

// What handlers see besides registers: the memory of the launch and of the running block, and the
// place where they leave why a thread stopped.
struct Machine {
  static constexpr uint32_t ranges = 16;
  Range cache[ranges]; // allocations met in this launch; each instruction has its own entry
  Memory *memory = nullptr;
  uint8_t *shared = nullptr;
  uint64_t shared_bytes = 0;
  uint8_t *local = nullptr; // of the running thread
  uint64_t local_bytes = 0;
  const uint8_t *parameters = nullptr;
  Conditionals *conditionals = nullptr;
  Printer *printer = nullptr;
  const Code *code = nullptr;
  RaceCheck *races = nullptr; // nullptr: not looked for
  UnwrittenCheck *unwritten = nullptr;

  Looks *looks = nullptr; // of the threads of the running block
  uint64_t changes = 0; // stores, atomic operations, arrivals at barriers and exits of the launch
  uint64_t waited = ~uint64_t{0}; // `changes` when a thread waited last
  bool worked = false; // a thread has done something other than waiting or a change

  Stop stop = Stop::exited;
  const Instruction *at = nullptr;
  Collective collective = nullptr;
  uint32_t mask = 0;
  Arrival arrival;
  Outcome outcome = Outcome::ok;
  uint64_t address = 0;
  const char *what = "";

  const Instruction *halt(Stop why, const Instruction *i) {
    stop = why;
    at = i;
    return nullptr;
  }
  const Instruction *fault(const Instruction *i, Outcome why, uint64_t where, const char *text) {
    outcome = why;
    address = where;
    what = text;
    return halt(Stop::fault, i);
  }
};

// Shared memory in the generic address space: outside of what a host process can map.
constexpr uint64_t shared_window = 0xffff500000000000u;
constexpr uint64_t shared_window_bytes = 1u << 24;

// Local memory there; of its addresses only vprintf takes generic ones.
constexpr uint64_t local_window = 0xffff510000000000u;

inline bool in_shared_window(uint64_t address) {
  return address - shared_window < shared_window_bytes;
}

} // namespace emulator
