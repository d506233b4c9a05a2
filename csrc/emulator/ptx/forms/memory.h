// Where an address of the PTX machine leads on the host: global memory through the ranges that the
// launch has met, shared memory of the running block, and the generic space that holds both.
// Each pointer is good for `size` bytes and aligned to them; nullptr means the thread has faulted.
#pragma once

#include "emulator/ptx/machine.h"

namespace emulator {

// Finds the range of an address that the instruction's own cache entry does not hold.
uint8_t *resolve_global(const Instruction *i, Machine &m, uint64_t address, uint64_t size);

struct Global {
  static uint8_t *at(const Instruction *i, Machine &m, uint64_t address, uint64_t size) {
    const Range &range = m.cache[reinterpret_cast<uintptr_t>(i) / sizeof *i % Machine::ranges];
    const uint64_t inside = address - range.begin;
    if (inside < range.size && size <= range.size - inside && address % size == 0)
      return range.host + inside;
    return resolve_global(i, m, address, size);
  }
};

struct Shared {
  static uint8_t *at(const Instruction *i, Machine &m, uint64_t address, uint64_t size) {
    const uint64_t inside = static_cast<uint32_t>(address);
    if (inside < m.shared_bytes && size <= m.shared_bytes - inside && inside % size == 0)
      return m.shared + inside;
    if (inside % size != 0)
      m.fault(i, Outcome::misaligned_address, inside, "misaligned shared address");
    else
      m.fault(i, Outcome::illegal_address, inside, "address outside the block's shared memory");
    return nullptr;
  }
};

// The variable of the running module that holds these bytes, nullptr if there is none.
uint8_t *find_static(Machine &m, uint64_t address, uint64_t size, bool constant);

struct Constant {
  static uint8_t *at(const Instruction *i, Machine &m, uint64_t address, uint64_t size) {
    uint8_t *host = address % size == 0 ? find_static(m, address, size, true) : nullptr;
    if (host == nullptr && address % size != 0)
      m.fault(i, Outcome::misaligned_address, address, "misaligned constant address");
    else if (host == nullptr)
      m.fault(i, Outcome::illegal_address, address, "address outside every constant variable");
    return host;
  }
};

struct Local {
  static uint8_t *at(const Instruction *i, Machine &m, uint64_t address, uint64_t size) {
    if (address < m.local_bytes && size <= m.local_bytes - address && address % size == 0)
      return m.local + address;
    if (address % size != 0)
      m.fault(i, Outcome::misaligned_address, address, "misaligned local address");
    else
      m.fault(i, Outcome::illegal_address, address, "address outside the thread's local memory");
    return nullptr;
  }
};

struct Generic {
  static uint8_t *at(const Instruction *i, Machine &m, uint64_t address, uint64_t size) {
    return in_shared_window(address) ? Shared::at(i, m, address - shared_window, size)
                                     : Global::at(i, m, address, size);
  }
};

}  // namespace emulator
