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
#include <string>

#include "call.h"
#include "emulator/ptx/ptx.h"

namespace emulator {

enum class Kind { device, pinned, registered };

// How storage is returned: as mapped_bytes of a mapping, or to the allocator if that is 0.
struct FreeStorage {
  uint64_t mapped_bytes = 0;
  int file = -1;  // that other processes may map too, which is closed then
  void operator()(uint8_t *storage) const;
};

struct Block {
  uint64_t begin = 0;
  uint64_t size = 0;
  Kind kind = Kind::device;
  int device = 0;  // whose it is, or whose context page-locked it
  unsigned flags = 0;  // of cuMemHostAlloc or cuMemHostRegister
  uint64_t nonce = 0;  // of the file that other processes map; 0: they do not
  int importer = -1;  // of another process's memory: the device whose context has opened it
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
  // nullptr: over the limit (bytes of this kind, of this device if they are device memory), or the
  // host has no more.
  std::shared_ptr<Block> allocate(int device, Kind kind, uint64_t size, unsigned flags,
                                  int64_t limit);
  // Enters memory that the caller owns; nullptr when it meets a live block.
  std::shared_ptr<Block> enter(int device, uint64_t begin, uint64_t size, unsigned flags);
  std::shared_ptr<Block> find(uint64_t address, uint64_t size) const;
  // The live block that begins here, whatever its kind.
  std::shared_ptr<Block> starting(uint64_t begin) const;
  // False when no block of this kind begins here. Of what is freed at most kept_bytes stay aside.
  bool release(uint64_t begin, Kind kind, int64_t kept_bytes);
  // A file that other processes can map as the block, which keeps its address and what is in it;
  // false: only blocks from 1 MiB on are mapped, or the host refuses.
  bool share(Block &block, uint64_t nonce);
  // Another process's block of `device`, from the file that it shares; nullptr: the host refuses.
  std::shared_ptr<Block> import(int device, int importer, int file, uint64_t size);
  // False when no block begins here that this device has imported.
  bool close_import(int importer, uint64_t begin);
  // All blocks of a device's context.
  void abandon(int device);

  uint64_t device_bytes(int device) const;
  HeapCounts counts() const;

 private:
  void quarantine(std::shared_ptr<Block> block, int64_t kept_bytes);
  uint64_t &used(int device, Kind kind);

  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Block>> blocks_;
  std::deque<std::shared_ptr<Block>> quarantine_;
  uint64_t quarantined_bytes_ = 0;
  uint64_t next_id_ = 1;
  uint64_t device_used_[kMaxDevices] = {}; // live bytes
  uint64_t host_used_ = 0; // page-locked live bytes
  uint64_t registered_used_ = 0;
  HeapCounts leaked_{0, 0, 0, 0};
};

// The name of a file that `share` makes.
std::string shared_name(uint64_t nonce);

// Whether work of a device may touch a block: its own memory, page-locked memory (registered memory
// only if it is portable), and memory of a device that its context was given access to.
bool reaches(int device, const Block &block);

// What one kernel launch sees. Blocks it has touched stay allocated until it ends.
class LaunchMemory final : public Memory {
 public:
  LaunchMemory(const Heap &heap, int device) : heap_(heap), device_(device) {}
  void *resolve(uint64_t address, uint64_t size, uint64_t *begin, uint64_t *end) override;
  const char *refusal(uint64_t address) const override;

 private:
  const Heap &heap_;
  const int device_;
  std::deque<std::shared_ptr<Block>> held_;
};

} // namespace emulator
