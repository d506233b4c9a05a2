// Memory of a graph alone, whose contents are unspecified from each fill of all of it on, until
// something writes there. Kernels that ask for the check (see unwritten.h) are told where they read
// nothing that was written; a copy from there counts as none of it. What others may have written
// counts as written.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "emulator/ptx/machine.h"

namespace emulator {

class Temporary {
 public:
  Temporary(uint64_t address, uint64_t bytes) : begin(address), written_(bytes, 1) {}

  const uint64_t begin;
  uint64_t end() const { return begin + written_.size(); }
  bool has(uint64_t address) const { return address - begin < written_.size(); }
  // Whether no byte of these, which begin in it, is written.
  bool unwritten(uint64_t address, uint64_t bytes);
  void write(uint64_t address, uint64_t bytes);
  void forget();

 private:
  std::mutex mutex_;
  std::vector<uint8_t> written_; // a byte for each byte
};

// What contains the address; nullptr: none.
std::shared_ptr<Temporary> temporary_at(uint64_t address);
// A launch of a kernel that does not ask for the check.
void temporaries_given(const Kernel &kernel, const Launch &launch);

} // namespace emulator
