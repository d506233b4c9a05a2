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
// Device blocks from this size on are mapped, so that processes can share them; and the size of the
// file that they are mapped from.
constexpr uint64_t kMappedFrom = 2 << 20;
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

uint64_t total_of(Kind kind, uint64_t size, uint64_t unit) {
  return (guard_of(kind) + size + guard_of(kind) + unit - 1) / unit * unit;
}

void forbid_around(const uint8_t *storage, uint64_t guard, uint64_t size, uint64_t total) {
  forbid(storage, guard);
  forbid(storage + guard + size, total - guard - size);
}

void forbid_guards(const uint8_t *storage, uint64_t size, uint64_t total) {
  forbid_around(storage, guard_of(Kind::device), size, total);
}

bool write_all(int file, const uint8_t *data, uint64_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(file, data, bytes);
    if (written <= 0) return false;
    data += written;
    bytes -= static_cast<uint64_t>(written);
  }
  return true;
}

void add(HeapCounts &counts, const Block &block) {
  const bool device = block.kind == Kind::device;
  (device ? counts.allocations : counts.pinned) += 1;
  (device ? counts.bytes : counts.pinned_bytes) += block.size;
}

}  // namespace

std::string shared_name(uint64_t nonce) { return "vyre_emulator_" + std::to_string(nonce); }

void FreeStorage::operator()(uint8_t *storage) const {
  if (mapped_bytes != 0) {
    permit(storage, mapped_bytes);
    munmap(storage, mapped_bytes);
    if (file >= 0) close(file);
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
  const uint64_t total = total_of(kind, size, unit);

  std::unique_lock<std::mutex> lock(mutex_);
  uint64_t &live = used(device, kind);
  if (live + size > static_cast<uint64_t>(limit)) return nullptr;
  uint8_t *storage = mapped ? map_poison(total) : allocate_poison(alignment, total);
  if (storage == nullptr) return nullptr;
  forbid_around(storage, guard, size, total);

  auto block = std::make_shared<Block>();
  block->begin = reinterpret_cast<uint64_t>(storage) + guard;
  block->size = size;
  block->kind = kind;
  block->device = device;
  block->flags = flags;
  block->id = next_id_++;
  block->storage = {storage, FreeStorage{mapped ? total : 0, -1}};
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
  if (found->second->importer >= 0) return false;
  std::shared_ptr<Block> block = std::move(found->second);
  blocks_.erase(found);
  used(block->device, kind) -= block->size;
  if (kind != Kind::registered) quarantine(std::move(block), kept_bytes);
  return true;
}

bool Heap::share(Block &block, uint64_t nonce) {
  FreeStorage &how = block.storage.get_deleter();
  if (how.mapped_bytes == 0) return false;
  if (how.file >= 0) return true;
  const int file = memfd_create(shared_name(nonce).c_str(), MFD_CLOEXEC);
  if (file < 0) return false;
  uint8_t *const storage = block.storage.get();
  permit(storage, how.mapped_bytes);
  const bool is_copied = ftruncate(file, static_cast<off_t>(how.mapped_bytes)) == 0 &&
                         write_all(file, storage, how.mapped_bytes);
  const bool is_shared = is_copied && mmap(storage, how.mapped_bytes, PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
  forbid_guards(storage, block.size, how.mapped_bytes);
  if (is_shared)
    how.file = file;
  else
    close(file);
  return is_shared;
}

std::shared_ptr<Block> Heap::import(int device, int importer, int file, uint64_t size) {
  const uint64_t total = total_of(Kind::device, size, kPage);
  void *const range = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (range == MAP_FAILED) return nullptr;
  auto *const storage = static_cast<uint8_t *>(range);
  forbid_guards(storage, size, total);
  auto block = std::make_shared<Block>();
  block->begin = reinterpret_cast<uint64_t>(storage) + guard_of(Kind::device);
  block->size = size;
  block->device = device;
  block->importer = importer;
  block->storage = {storage, FreeStorage{total, -1}};
  std::unique_lock<std::mutex> lock(mutex_);
  block->id = next_id_++;
  blocks_.emplace(block->begin, block);
  return block;
}

bool Heap::close_import(int importer, uint64_t begin) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = blocks_.find(begin);
  if (found == blocks_.end() || found->second->importer != importer) return false;
  blocks_.erase(found);
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
    if ((block->importer >= 0 ? block->importer : block->device) != device) {
      ++at;
      continue;
    }
    add(leaked_, *block);
    if (block->importer < 0) used(device, block->kind) -= block->size;
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
