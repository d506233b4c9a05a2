// Notices of the end of work, and, in C++20, co_await of runs, events and streams.
// Part of vyre_cuda.hpp, whose head has the rules.
#ifndef VYRE_CUDA_NOTICE_HPP
#define VYRE_CUDA_NOTICE_HPP

#include "loaded.hpp"
#if defined(__cpp_impl_coroutine)
#include <coroutine>
#endif

namespace vyre {

// How an end is reported: see vyc_notice. The call cannot throw, by its type.
struct Notice {
  int fd = -1; // an eventfd
  void (*call)(void *user, vyc_status status) noexcept = nullptr;
  void *user = nullptr;
};

namespace detail {

inline vyc_status notify(vyc_ticket *ticket, const vyc_notice *notice) noexcept {
  return vyc_ticket_notify(ticket, notice);
}
inline vyc_status notify(vyc_event *event, const vyc_notice *notice) noexcept {
  return vyc_event_notify(event, notice);
}
inline vyc_status notify(vyc_stream *stream, const vyc_notice *notice) noexcept {
  return vyc_stream_notify(stream, notice);
}

} // namespace detail

// Report the end of a Ticket, an Event, or the work that a Stream has been given so far.
template <class T>
Result<void> try_notify(const Handle<T> &of, const Notice &notice) noexcept {
  vyc_notice given{};
  given.struct_size = sizeof given;
  given.fd = notice.fd;
  given.call = notice.call;
  given.user = notice.user;
  return try_check(detail::notify(of.get(), &given));
}
#if VYRE_EXCEPTIONS
template <class T>
void notify(const Handle<T> &of, const Notice &notice) {
  try_notify(of, notice).value();
}
#endif

#if defined(__cpp_impl_coroutine)

// What try_done returns, to be awaited.
template <class T>
class Done {
 public:
  explicit Done(const Handle<T> &of) noexcept : of_(&of) {}
  Done(const Done &) = delete;
  Done &operator=(const Done &) = delete;
  ~Done() = default;

  bool await_ready() const noexcept { return false; }
  // Where the end cannot be watched for, the coroutine goes on at once, with the failure.
  bool await_suspend(std::coroutine_handle<> awaiting) noexcept {
    awaiting_ = awaiting;
    Notice notice;
    notice.user = this;
    notice.call = [](void *user, vyc_status status) noexcept {
      auto *const self = static_cast<Done *>(user);
      if (status != VYC_OK) self->failure_ = Failure::of(status, detail::Nowhere{});
      self->awaiting_.resume();
    };
    Result<void> asked = try_notify(*of_, notice);
    if (asked) return true; // from here on *this may be gone
    failure_ = std::move(asked).failure();
    return false;
  }
  Result<void> await_resume() noexcept { return std::move(failure_); }

 private:
  const Handle<T> *of_;
  std::coroutine_handle<> awaiting_{};
  Failure failure_{};
};

// co_await try_done(ticket): a Result<void>, once the run has ended and its results are in place.
// Also of an Event, or a Stream with the work that it has been given so far. The coroutine goes on
// in the context's watching thread: it should be short there, or pass its work on.
template <class T>
Done<T> try_done(const Handle<T> &of) noexcept {
  return Done<T>(of);
}

#if VYRE_EXCEPTIONS
// co_await ticket: the same, and throws the Error of a run that failed.
class TicketAwaiter {
 public:
  explicit TicketAwaiter(const Ticket &ticket) noexcept : done_(ticket) {}
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> awaiting) noexcept {
    return done_.await_suspend(awaiting);
  }
  void await_resume() { done_.await_resume().value(); }

 private:
  Done<vyc_ticket> done_;
};
inline TicketAwaiter operator co_await(const Ticket &ticket) noexcept {
  return TicketAwaiter(ticket);
}
#endif

#endif // coroutines

} // namespace vyre

#endif
