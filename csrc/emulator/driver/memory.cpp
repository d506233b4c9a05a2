// The heap: allocation with poison and guards, lookup by address, quarantine of freed blocks.
#include "memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace emulator {
namespace {

constexpr uint8_t kPoison = 0xA5;
constexpr uint64_t kPage = 4096;
// Device blocks from this size on are mapped, and the size of the file that they are mapped from.
constexpr uint64_t kMappedFrom = 256 << 20;
constexpr uint64_t kPoisonFile = 16 << 20;

// Device memory is aligned to 256 bytes and to no more, so that no caller comes to rely on more.
constexpr uint64_t alignment_of(Kind kind) { return kind == Kind::device ? 512 : kPage; }
constexpr uint64_t guard_of(Kind kind) { return kind == Kind::device ? 256 : kPage; }

#if defined(__SANITIZE_ADDRESS__)
void forbid(const uint8_t *begin, uint64_t size) { __asan_poison_memory_region(begin, size); }
void permit(const uint8_t *begin, uint64_t size) { __asan_unpoison_memory_region(begin, size); }
#else
void forbid(const uint8_t *, uint64_t) {}
void permit(const uint8_t *, uint64_t) {}
#endif

// A file of poison without a name, or -1. It lives as long as the process.
int poison_file() {
  static const int file = [] {
    const int made = memfd_create("vyre_emulator_poison", MFD_CLOEXEC);
    if (made < 0) return -1;
    const std::vector<uint8_t> poison(kPoisonFile, kPoison);
    const ssize_t written = write(made, poison.data(), poison.size());
    if (written == static_cast<ssize_t>(poison.size())) return made;
    close(made);
    return -1;
  }();
  return file;
}

// Poison over and over, each page shared until it is written; nullptr when the host refuses.
uint8_t *map_poison(uint64_t size) {
  const int file = poison_file();
  if (file < 0) return nullptr;
  void *range = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  auto *const storage = static_cast<uint8_t *>(range);
  for (uint64_t at = 0; at < size; at += kPoisonFile) {
    const int flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
    const uint64_t part = std::min(size - at, kPoisonFile);
    if (mmap(storage + at, part, PROT_READ | PROT_WRITE, flags, file, 0) == MAP_FAILED) {
      munmap(storage, size);
      return nullptr;
    }
  }
  return storage;
}

uint8_t *allocate_poison(uint64_t alignment, uint64_t size) {
  auto *storage = static_cast<uint8_t *>(std::aligned_alloc(alignment, size));
  if (storage != nullptr) std::memset(storage, kPoison, size);
  return storage;
}

void add(HeapCounts &counts, const Block &block) {
  const bool device = block.kind == Kind::device;
  (device ? counts.allocations : counts.pinned) += 1;
  (device ? counts.bytes : counts.pinned_bytes) += block.size;
}

}  // namespace

void FreeStorage::operator()(uint8_t *storage) const {
  if (mapped_bytes != 0) {
    permit(storage, mapped_bytes);
    munmap(storage, mapped_bytes);
  } else {
    permit(storage, malloc_usable_size(storage));
    std::free(storage);
  }
}

std::shared_ptr<Block> Heap::allocate(int device, Kind kind, uint64_t size, unsigned flags,
                                      int64_t limit) {
  const uint64_t guard = guard_of(kind);
  const uint64_t alignment = alignment_of(kind);
  if (limit < 0 || size > static_cast<uint64_t>(limit)) return nullptr;
  const bool mapped = kind == Kind::device && size >= kMappedFrom;
  const uint64_t unit = mapped ? kPage : alignment;
  const uint64_t total = (guard + size + guard + unit - 1) / unit * unit;

  std::unique_lock<std::mutex> lock(mutex_);
  uint64_t &live = used(device, kind);
  if (live + size > static_cast<uint64_t>(limit)) return nullptr;
  uint8_t *storage = mapped ? map_poison(total) : allocate_poison(alignment, total);
  if (storage == nullptr) return nullptr;
  forbid(storage, guard);
  forbid(storage + guard + size, total - guard - size);

  auto block = std::make_shared<Block>();
  block->begin = reinterpret_cast<uint64_t>(storage) + guard;
  block->size = size;
  block->kind = kind;
  block->device = device;
  block->flags = flags;
  block->id = next_id_++;
  block->storage = {storage, FreeStorage{mapped ? total : 0}};
  live += size;
  blocks_.emplace(block->begin, block);
  return block;
}

std::shared_ptr<Block> Heap::enter(int device, uint64_t begin, uint64_t size, unsigned flags) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto after = blocks_.lower_bound(begin);
  if (after != blocks_.end() && after->first < begin + size) return nullptr;
  if (after != blocks_.begin() && std::prev(after)->second->end() > begin) return nullptr;
  auto block = std::make_shared<Block>();
  block->begin = begin;
  block->size = size;
  block->kind = Kind::registered;
  block->device = device;
  block->flags = flags;
  block->id = next_id_++;
  used(device, Kind::registered) += size;
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

bool Heap::release(uint64_t begin, Kind kind, int64_t kept_bytes) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = blocks_.find(begin);
  if (found == blocks_.end() || found->second->kind != kind) return false;
  std::shared_ptr<Block> block = std::move(found->second);
  blocks_.erase(found);
  used(block->device, kind) -= block->size;
  if (kind != Kind::registered) quarantine(std::move(block), kept_bytes);
  return true;
}

void Heap::quarantine(std::shared_ptr<Block> block, int64_t kept_bytes) {
  quarantined_bytes_ += block->size;
  quarantine_.push_back(std::move(block));
  while (quarantined_bytes_ > static_cast<uint64_t>(kept_bytes)) {
    quarantined_bytes_ -= quarantine_.front()->size;
    quarantine_.pop_front();
  }
}

uint64_t &Heap::used(int device, Kind kind) {
  if (kind == Kind::device) return device_used_[device];
  return kind == Kind::pinned ? host_used_ : registered_used_;
}

void Heap::abandon(int device) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (auto at = blocks_.begin(); at != blocks_.end();) {
    const std::shared_ptr<Block> block = at->second;
    if (block->device != device) {
      ++at;
      continue;
    }
    add(leaked_, *block);
    used(device, block->kind) -= block->size;
    at = blocks_.erase(at);
  }
}

uint64_t Heap::device_bytes(int device) const {
  std::unique_lock<std::mutex> lock(mutex_);
  return device_used_[device];
}

HeapCounts Heap::counts() const {
  std::unique_lock<std::mutex> lock(mutex_);
  HeapCounts result = leaked_;
  for (const auto &[begin, block] : blocks_) add(result, *block);
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
  if (block == nullptr || !reaches(device_, *block)) return nullptr;
  *begin = block->begin;
  *end = block->end();
  void *host = block->at(address);
  held_.push_back(std::move(block));
  return host;
}

const char *LaunchMemory::refusal(uint64_t address) const {
  const std::shared_ptr<Block> block = heap_.find(address, 1);
  return block == nullptr || reaches(device_, *block)
             ? Memory::refusal(address)
             : "address in the memory of another device, without access to it";
}

}  // namespace emulator
