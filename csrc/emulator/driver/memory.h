// Device and pinned memory: real host memory between guards, found by address in one ordered map.
//
// An address is good when its whole range lies inside one live block. A device pointer equals the
// host address of its bytes. Freed blocks wait in a quarantine so that stale addresses are not
// soon given out again. A large block takes host memory for the pages that are written and for no
// others. Heap has its own lock, the innermost one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "emulator/ptx/ptx.h"

namespace emulator {

enum class Kind { device, pinned, registered };

// How storage is returned: as mapped_bytes of a mapping, or to the allocator if that is 0.
struct FreeStorage {
  uint64_t mapped_bytes = 0;
  void operator()(uint8_t *storage) const;
};

struct Block {
  uint64_t begin = 0;
  uint64_t size = 0;
  Kind kind = Kind::device;
  unsigned flags = 0;  // of cuMemHostAlloc or cuMemHostRegister
  uint64_t id = 0;
  std::unique_ptr<uint8_t, FreeStorage> storage; // empty when registered

  uint64_t end() const { return begin + size; }
  bool contains(uint64_t address, uint64_t bytes) const {
    return address >= begin && address <= end() && bytes <= end() - address;
  }
  void *at(uint64_t address) const { return reinterpret_cast<void *>(address); }
};

struct HeapCounts {
  uint64_t allocations, bytes, pinned, pinned_bytes;
};

class Heap {
 public:
  // nullptr: over the limit (bytes of this kind), or the host has no more.
  std::shared_ptr<Block> allocate(Kind kind, uint64_t size, unsigned flags, int64_t limit);
  // Enters memory that the caller owns; nullptr when it meets a live block.
  std::shared_ptr<Block> enter(uint64_t begin, uint64_t size, unsigned flags);
  std::shared_ptr<Block> find(uint64_t address, uint64_t size) const;
  // The live block that begins here, whatever its kind.
  std::shared_ptr<Block> starting(uint64_t begin) const;
  // False when no block of this kind begins here. Of what is freed at most kept_bytes stay aside.
  bool release(uint64_t begin, Kind kind, int64_t kept_bytes);
  void abandon();

  uint64_t device_bytes() const;
  HeapCounts counts() const;

 private:
  void quarantine(std::shared_ptr<Block> block, int64_t kept_bytes);

  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Block>> blocks_;
  std::deque<std::shared_ptr<Block>> quarantine_;
  uint64_t quarantined_bytes_ = 0;
  uint64_t next_id_ = 1;
  uint64_t used_[3] = {0, 0, 0}; // live bytes by Kind
  HeapCounts leaked_{0, 0, 0, 0};
};

// What one kernel launch sees. Blocks it has touched stay allocated until it ends.
class LaunchMemory final : public Memory {
 public:
  explicit LaunchMemory(const Heap &heap) : heap_(heap) {}
  void *resolve(uint64_t address, uint64_t size, uint64_t *begin, uint64_t *end) override;

 private:
  const Heap &heap_;
  std::deque<std::shared_ptr<Block>> held_;
};

} // namespace emulator
