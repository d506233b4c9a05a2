// Drivers, contexts, streams, events and fences.
// Part of vyre_cuda.hpp, whose head has the rules.
#ifndef VYRE_CUDA_DEVICE_HPP
#define VYRE_CUDA_DEVICE_HPP

#include "handle.hpp"

namespace vyre {

class Driver : public Handle<vyc_driver> {
 public:
  using Handle::Handle;

  // vyc_driver_open: NULL is NVIDIA's driver.
  static Result<Driver> try_open(const char *path = nullptr) noexcept {
    return detail::make<Driver>(vyc_driver_open, path);
  }
#if VYRE_EXCEPTIONS
  static Driver open(const char *path = nullptr) { return try_open(path).value(); }
#endif
};

// vyc_allocator, with functions that cannot throw by their type.
struct Allocator {
  std::int32_t (*alloc)(void *user, std::uint64_t *address_out,
                        std::uint64_t bytes) noexcept = nullptr;
  void (*free)(void *user, std::uint64_t address) noexcept = nullptr;
  void *user = nullptr;
};

// vyc_context_options, likewise.
struct ContextOptions {
  std::uint64_t handle = 0; // a CUcontext; 0: the primary context of the device
  Allocator device_memory{};
  Allocator pinned_memory{};
  void (*log)(void *user, std::int32_t level, const char *message) noexcept = nullptr;
  void *log_user = nullptr;
};

// A counter of vyc_stats_row, with its value.
struct Statistic {
  const char *name;
  const char *help;
  std::uint32_t kind; // VYC_STATS_...
  std::uint64_t value;
};

class Context : public Handle<vyc_context> {
 public:
  using Handle::Handle;

  static Result<Context> try_open(const Driver &driver, std::int32_t ordinal = 0) noexcept {
    return detail::make<Context>(vyc_context_open, driver.get(), ordinal);
  }
  static Result<Context> try_open(const Driver &driver, std::int32_t ordinal,
                                  const ContextOptions &options) noexcept {
    vyc_context_options given{};
    given.struct_size = sizeof given;
    given.handle = options.handle;
    const auto as_c = [](const Allocator &a) { return vyc_allocator{a.alloc, a.free, a.user}; };
    given.device_memory = as_c(options.device_memory);
    given.pinned_memory = as_c(options.pinned_memory);
    given.log = options.log;
    given.log_user = options.log_user;
    return detail::make<Context>(vyc_context_open_with, driver.get(), ordinal,
                                 static_cast<const vyc_context_options *>(&given));
  }
  // Ends the context, also for its children. A release does the same, but cannot say how it went.
  Result<void> try_close(Timeout timeout = no_timeout) noexcept {
    return try_check(vyc_context_close_for(get(), timeout.ns()));
  }
  Result<void> try_synchronize() const noexcept {
    return try_check(vyc_context_synchronize(get()));
  }
  // False if the time was over first.
  Result<bool> try_synchronize_for(Timeout timeout) const noexcept {
    return try_ready(vyc_context_synchronize_for(get(), timeout.ns()));
  }
  Result<void> try_trim() const noexcept { return try_check(vyc_context_trim(get())); }
  Result<vyc_caps> try_caps() const noexcept {
    vyc_caps caps{};
    caps.struct_size = sizeof caps;
    if (const vyc_status status = vyc_context_caps(get(), &caps); status != VYC_OK)
      return Failure::of(status, detail::Nowhere{});
    return caps;
  }
  // Calls visit(const Statistic &) for each counter.
  template <class Visit>
  Result<void> try_statistics(Visit &&visit) const noexcept {
    constexpr std::uint32_t rows = 0
#define VYRE_ROW(name, kind, help) +1
        VYC_STATS_TABLE(VYRE_ROW)
#undef VYRE_ROW
        ;
    std::uint64_t values[rows];
    if (const vyc_status status = vyc_context_stats(get(), values, rows); status != VYC_OK)
      return Failure::of(status, detail::Nowhere{});
    for (std::uint32_t row = 0; row < rows; row++) {
      Statistic each{nullptr, nullptr, 0, values[row]};
      if (vyc_stats_row(&each.name, &each.help, &each.kind, row) == VYC_OK) visit(each);
    }
    return {};
  }
#if VYRE_EXCEPTIONS
  static Context open(const Driver &driver, std::int32_t ordinal = 0) {
    return try_open(driver, ordinal).value();
  }
  static Context open(const Driver &driver, std::int32_t ordinal, const ContextOptions &options) {
    return try_open(driver, ordinal, options).value();
  }
  void close(Timeout timeout = no_timeout) { try_close(timeout).value(); }
  void synchronize() const { check(vyc_context_synchronize(get())); }
  bool synchronize_for(Timeout timeout) const { return try_synchronize_for(timeout).value(); }
  void trim() const { check(vyc_context_trim(get())); }
  vyc_caps caps() const { return try_caps().value(); }
  template <class Visit>
  void statistics(Visit &&visit) const {
    try_statistics(std::forward<Visit>(visit)).value();
  }
#endif
};

// For its life a context is the thread's current one: its calls need not switch to it and back.
// Made and destroyed by one thread, in the reverse order of others; the context must outlive it.
class Current {
 public:
  Current() noexcept = default; // of no context
  static Result<Current> try_make(const Context &context) noexcept {
    std::uint64_t before = 0;
    const vyc_status status = vyc_context_enter(context.get(), &before);
    if (status != VYC_OK) return Failure::of(status, detail::Nowhere{});
    return Current(context.get(), before);
  }
#if VYRE_EXCEPTIONS
  explicit Current(const Context &context) : Current(try_make(context).value()) {}
#endif
  Current(Current &&other) noexcept
      : context_(std::exchange(other.context_, nullptr)), before_(other.before_) {}
  Current(const Current &) = delete;
  Current &operator=(const Current &) = delete;
  ~Current() {
    if (context_ != nullptr) static_cast<void>(vyc_context_leave(context_, before_));
  }

 private:
  Current(vyc_context *context, std::uint64_t before) noexcept
      : context_(context), before_(before) {}
  vyc_context *context_ = nullptr;
  std::uint64_t before_ = 0;
};

class Event : public Handle<vyc_event> {
 public:
  using Handle::Handle;

  Result<void> try_synchronize() const noexcept { return try_check(vyc_event_synchronize(get())); }
  Result<bool> try_synchronize_for(Timeout timeout) const noexcept {
    return try_ready(vyc_event_synchronize_for(get(), timeout.ns()));
  }
  Result<bool> try_query() const noexcept { return try_ready(vyc_event_query(get())); }
  // Milliseconds since `start`; both have been reached.
  Result<float> try_elapsed_since(const Event &start) const noexcept {
    float milliseconds = 0;
    const vyc_status status = vyc_event_elapsed(get(), &milliseconds, start.get());
    if (status != VYC_OK) return Failure::of(status, detail::Nowhere{});
    return Result<float>(std::move(milliseconds));
  }
#if VYRE_EXCEPTIONS
  void synchronize() const { check(vyc_event_synchronize(get())); }
  bool synchronize_for(Timeout timeout) const { return try_synchronize_for(timeout).value(); }
  bool query() const { return try_query().value(); }
  float elapsed_since(const Event &start) const { return try_elapsed_since(start).value(); }
#endif
};

class Stream : public Handle<vyc_stream> {
 public:
  using Handle::Handle;

  static Result<Stream> try_create(const Context &context) noexcept {
    return detail::make<Stream>(vyc_stream_create, context.get());
  }
  // vyc_stream_adopt: a CUstream of another library.
  static Result<Stream> try_adopt(const Context &context, std::uint64_t handle) noexcept {
    return detail::make<Stream>(vyc_stream_adopt, context.get(), handle);
  }
  Result<void> try_synchronize() const noexcept { return try_check(vyc_stream_synchronize(get())); }
  Result<bool> try_synchronize_for(Timeout timeout) const noexcept {
    return try_ready(vyc_stream_synchronize_for(get(), timeout.ns()));
  }
  Result<bool> try_query() const noexcept { return try_ready(vyc_stream_query(get())); }
  Result<Event> try_record() const noexcept {
    vyc_event *event = nullptr;
    const vyc_status status = vyc_stream_record(get(), &event);
    if (status != VYC_OK) return Failure::of(status, detail::Nowhere{});
    return Event(event);
  }
  Result<void> try_wait(const Event &event) const noexcept {
    return try_check(vyc_stream_wait(get(), event.get()));
  }
#if VYRE_EXCEPTIONS
  static Stream create(const Context &context) { return try_create(context).value(); }
  static Stream adopt(const Context &context, std::uint64_t handle) {
    return try_adopt(context, handle).value();
  }
  void synchronize() const { check(vyc_stream_synchronize(get())); }
  bool synchronize_for(Timeout timeout) const { return try_synchronize_for(timeout).value(); }
  bool query() const { return try_query().value(); }
  Event record() const { return try_record().value(); }
  void wait(const Event &event) const { check(vyc_stream_wait(get(), event.get())); }
#endif
};

// A point after all work of a context so far.
class Fence : public Handle<vyc_fence> {
 public:
  using Handle::Handle;

  static Result<Fence> try_create(const Context &context) noexcept {
    return detail::make<Fence>(vyc_fence_create, context.get());
  }
  Result<bool> try_wait(Timeout timeout) const noexcept {
    return try_ready(vyc_fence_wait(get(), timeout.ns()));
  }
#if VYRE_EXCEPTIONS
  static Fence create(const Context &context) { return try_create(context).value(); }
  bool wait(Timeout timeout) const { return try_wait(timeout).value(); }
#endif
};

} // namespace vyre

#endif
