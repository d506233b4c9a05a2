// The heap: allocation with poison and guards, lookup by address, quarantine of freed blocks.
#include "memory.h"

#include <malloc.h>

#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace emulator {
namespace {

constexpr uint8_t kPoison = 0xA5;
constexpr uint64_t kQuarantineBytes = 64 << 20;
constexpr uint64_t kPage = 4096;

// Device memory is aligned to 256 bytes and to no more, so that nobody comes to rely on more.
constexpr uint64_t alignment_of(Kind kind) { return kind == Kind::device ? 512 : kPage; }
constexpr uint64_t guard_of(Kind kind) { return kind == Kind::device ? 256 : kPage; }

#if defined(__SANITIZE_ADDRESS__)
void forbid(const uint8_t *begin, uint64_t size) { __asan_poison_memory_region(begin, size); }
void free_storage(uint8_t *storage) {
  __asan_unpoison_memory_region(storage, malloc_usable_size(storage));
  std::free(storage);
}
#else
void forbid(const uint8_t *, uint64_t) {}
void free_storage(uint8_t *storage) { std::free(storage); }
#endif

}  // namespace

std::shared_ptr<Block> Heap::allocate(Kind kind, uint64_t size, unsigned flags, int64_t limit) {
  const uint64_t guard = guard_of(kind);
  const uint64_t alignment = alignment_of(kind);
  if (limit < 0 || size > static_cast<uint64_t>(limit)) return nullptr;
  const uint64_t total = (guard + size + guard + alignment - 1) / alignment * alignment;

  std::unique_lock<std::mutex> lock(mutex_);
  uint64_t &used = used_[static_cast<int>(kind)];
  if (used + size > static_cast<uint64_t>(limit)) return nullptr;
  auto *storage = static_cast<uint8_t *>(std::aligned_alloc(alignment, total));
  if (storage == nullptr) return nullptr;
  std::memset(storage + guard, kPoison, size);
  forbid(storage, guard);
  forbid(storage + guard + size, total - guard - size);

  auto block = std::make_shared<Block>();
  block->begin = reinterpret_cast<uint64_t>(storage) + guard;
  block->size = size;
  block->kind = kind;
  block->flags = flags;
  block->id = next_id_++;
  block->storage = {storage, free_storage};
  used += size;
  blocks_.emplace(block->begin, block);
  return block;
}

std::shared_ptr<Block> Heap::enter(uint64_t begin, uint64_t size, unsigned flags) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto after = blocks_.lower_bound(begin);
  if (after != blocks_.end() && after->first < begin + size) return nullptr;
  if (after != blocks_.begin() && std::prev(after)->second->end() > begin) return nullptr;
  auto block = std::make_shared<Block>();
  block->begin = begin;
  block->size = size;
  block->kind = Kind::registered;
  block->flags = flags;
  block->id = next_id_++;
  used_[static_cast<int>(Kind::registered)] += size;
  blocks_.emplace(begin, block);
  return block;
}

std::shared_ptr<Block> Heap::find(uint64_t address, uint64_t size) const {
  std::unique_lock<std::mutex> lock(mutex_);
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return nullptr;
  const std::shared_ptr<Block> &block = std::prev(after)->second;
  return block->contains(address, size) ? block : nullptr;
}

std::shared_ptr<Block> Heap::starting(uint64_t begin) const {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = blocks_.find(begin);
  return found == blocks_.end() ? nullptr : found->second;
}

bool Heap::release(uint64_t begin, Kind kind) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = blocks_.find(begin);
  if (found == blocks_.end() || found->second->kind != kind) return false;
  std::shared_ptr<Block> block = std::move(found->second);
  blocks_.erase(found);
  used_[static_cast<int>(kind)] -= block->size;
  if (kind != Kind::registered) quarantine(std::move(block));
  return true;
}

void Heap::quarantine(std::shared_ptr<Block> block) {
  quarantined_bytes_ += block->size;
  quarantine_.push_back(std::move(block));
  while (quarantined_bytes_ > kQuarantineBytes) {
    quarantined_bytes_ -= quarantine_.front()->size;
    quarantine_.pop_front();
  }
}

void Heap::abandon() {
  const HeapCounts all = counts();
  std::unique_lock<std::mutex> lock(mutex_);
  leaked_ = all;
  blocks_.clear();
  for (uint64_t &used : used_) used = 0;
}

uint64_t Heap::device_bytes() const {
  std::unique_lock<std::mutex> lock(mutex_);
  return used_[static_cast<int>(Kind::device)];
}

HeapCounts Heap::counts() const {
  std::unique_lock<std::mutex> lock(mutex_);
  HeapCounts result = leaked_;
  for (const auto &[begin, block] : blocks_) {
    const bool device = block->kind == Kind::device;
    (device ? result.allocations : result.pinned) += 1;
    (device ? result.bytes : result.pinned_bytes) += block->size;
  }
  return result;
}

void *LaunchMemory::resolve(uint64_t address, uint64_t size, uint64_t *begin, uint64_t *end) {
  for (const std::shared_ptr<Block> &block : held_) {
    if (!block->contains(address, size)) continue;
    *begin = block->begin;
    *end = block->end();
    return block->at(address);
  }
  std::shared_ptr<Block> block = heap_.find(address, size);
  if (block == nullptr) return nullptr;
  *begin = block->begin;
  *end = block->end();
  void *host = block->at(address);
  held_.push_back(std::move(block));
  return host;
}

}  // namespace emulator
