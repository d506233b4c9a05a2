// User objects: what graphs hold for those who made them, and the call that ends each.
//
// A graph, a clone of it, an exec made of it and a launch in flight hold the object each. The call
// comes on the thread that drops the last of them, also with State::mutex held: it may make no
// driver call, and each that it tries is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "call.h"

namespace emulator {

class UserObject {
 public:
  UserObject(void *argument, CUhostFn destroy);
  ~UserObject();
  UserObject(const UserObject &) = delete;
  UserObject &operator=(const UserObject &) = delete;

 private:
  void *argument_;
  CUhostFn destroy_;
};
using UserObjects = std::vector<std::shared_ptr<UserObject>>;

// The references that callers of the driver own.
struct OwnedObject {
  std::shared_ptr<UserObject> object;
  unsigned count = 0;
};

// Whether this thread is inside the call that ends a user object.
bool is_ending_user_object() noexcept;
// Those whose call has not returned.
uint64_t live_user_objects() noexcept;

}  // namespace emulator
