// Live handles of one type. A handle is a number that is never reused and points nowhere, so a
// stale one is always recognized and never dereferenced.
//
// Not locked: State::mutex guards every registry.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

namespace emulator {

// The first byte makes a handle a non-canonical address: code that dereferences it faults at once.
constexpr uintptr_t kHandleBase = uintptr_t{0x7e} << 56;

template <class Handle, class Object>
class Registry {
 public:
  explicit Registry(uint8_t kind) : next_(kHandleBase | (uintptr_t{kind} << 48)) {}

  Handle add(std::shared_ptr<Object> object) {
    next_ += 16;
    live_.emplace(next_, std::move(object));
    return reinterpret_cast<Handle>(next_);
  }

  std::shared_ptr<Object> find(Handle handle) const {
    const auto found = live_.find(reinterpret_cast<uintptr_t>(handle));
    return found == live_.end() ? nullptr : found->second;
  }

  std::shared_ptr<Object> remove(Handle handle) {
    const auto found = live_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == live_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    live_.erase(found);
    return object;
  }

  // The context of a device died with objects in it: they are invalid from now on but were never
  // released, so they stay in the count.
  void abandon(int device) {
    for (auto at = live_.begin(); at != live_.end();) {
      if (at->second->device != device) {
        ++at;
        continue;
      }
      at = live_.erase(at);
      ++leaked_;
    }
  }

  uint64_t count() const { return live_.size() + leaked_; }

 private:
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> live_;
  uintptr_t next_;
  uint64_t leaked_ = 0;
};

}  // namespace emulator
