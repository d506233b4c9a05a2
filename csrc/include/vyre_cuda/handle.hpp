// Owners of the objects of the C interface.
// Part of vyre_cuda.hpp, whose head has the rules.
#ifndef VYRE_CUDA_HANDLE_HPP
#define VYRE_CUDA_HANDLE_HPP

#include "error.hpp"

namespace vyre {

namespace detail {

#define VYRE_RELEASE(name)                                                                         \
  inline void release(vyc_##name *handle) noexcept { vyc_##name##_release(handle); }
VYRE_RELEASE(driver)
VYRE_RELEASE(context)
VYRE_RELEASE(stream)
VYRE_RELEASE(event)
VYRE_RELEASE(fence)
VYRE_RELEASE(buffer)
VYRE_RELEASE(pinned)
VYRE_RELEASE(module)
VYRE_RELEASE(prepared)
VYRE_RELEASE(call)
VYRE_RELEASE(ticket)
VYRE_RELEASE(graph)
VYRE_RELEASE(bundle)
VYRE_RELEASE(bundled_kernel)
VYRE_RELEASE(replay)
VYRE_RELEASE(worker)
VYRE_RELEASE(communicator)
#undef VYRE_RELEASE

} // namespace detail

// Owns one reference to a C object, or nothing. What uses an object that was moved from is refused
// by the C interface, with VYC_E_INVALID.
template <class T>
class Handle {
 public:
  Handle() noexcept = default;
  explicit Handle(T *owned) noexcept : handle_(owned) {}
  Handle(Handle &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle(const Handle &) = delete;
  Handle &operator=(Handle &&other) noexcept {
    reset(std::exchange(other.handle_, nullptr));
    return *this;
  }
  Handle &operator=(const Handle &) = delete;

  T *get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  // Releases the object, and owns another.
  void reset(T *owned = nullptr) noexcept {
    if (T *old = std::exchange(handle_, owned); old != nullptr) detail::release(old);
  }
  // Gives the reference to the caller.
  [[nodiscard]] T *release() noexcept { return std::exchange(handle_, nullptr); }

 protected:
  ~Handle() { reset(); }

 private:
  T *handle_ = nullptr;
};

namespace detail {

// The object that a C function returns through its first parameter.
template <class Owner, class T, class... Parameters, class... Arguments>
Result<Owner> make(vyc_status (*function)(T **, Parameters...), Arguments... arguments) noexcept {
  T *made = nullptr;
  const vyc_status status = function(&made, arguments...);
  if (status != VYC_OK) return Failure::of(status, Nowhere{});
  return Owner(made);
}

} // namespace detail

// A time limit, from nanoseconds or a std::chrono::duration; negative: none.
class Timeout {
 public:
  constexpr Timeout(std::int64_t nanoseconds) noexcept : ns_(nanoseconds) {}
  template <class D, class P = typename D::period>
  constexpr Timeout(const D &duration) noexcept
      : ns_(static_cast<std::int64_t>(duration.count() * (P::num * 1'000'000'000 / P::den))) {
    static_assert(P::num * 1'000'000'000 % P::den == 0, "not a whole number of nanoseconds");
  }
  constexpr std::int64_t ns() const noexcept { return ns_; }

 private:
  std::int64_t ns_;
};
inline constexpr Timeout no_timeout{-1};

} // namespace vyre

#endif
