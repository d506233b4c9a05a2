// Failures: vyre::Error, which is thrown or held by a vyre::Result.
// Part of vyre_cuda.hpp, whose head has the rules.
#ifndef VYRE_CUDA_ERROR_HPP
#define VYRE_CUDA_ERROR_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include "../vyre_cuda.h"

// 1 where the compiler throws; with 0, only the forms that begin with try_ are declared.
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define VYRE_EXCEPTIONS 1
#else
#define VYRE_EXCEPTIONS 0
#endif

// Functions of failures, and those that open: never inlined and compiled for size, so that they
// cost neither the code that calls them nor the time to compile it.
#define VYRE_COLD [[gnu::noinline, gnu::cold]]

namespace vyre {

// The check of a program that failed. Copied, so it outlives the bundle; longer texts are cut.
struct Site {
  std::uint32_t kind = 0;      // VYC_SITE_ASSERT or VYC_SITE_BOUNDS; 0: not known
  std::uint32_t line = 0;      // 0: not known
  std::uint32_t statement = 0; // its number in the program, in pre-order from 0
  char message[256] = {};
  char buffer[64] = {}; // of a bounds check
  char file[256] = {};
};

namespace detail {

template <std::size_t N>
void copy_text(char (&to)[N], const char *from) noexcept {
  std::size_t i = 0;
  for (; from != nullptr && i + 1 < N && from[i] != '\0'; i++) to[i] = from[i];
  to[i] = '\0';
}

struct Nowhere {}; // a call that no kernel belongs to: there is no site to look for

} // namespace detail

// What the library says about a call that failed.
class Error : public std::exception {
 public:
  vyc_status status = VYC_E_INTERNAL;
  Site site{};        // of VYC_E_ASSERT, where the kernel is known; see Kernel::site
  vyc_error record{}; // everything else; see vyc_error for what belongs to which status

  Error() noexcept = default;
  // Copies the calling thread's record.
  VYRE_COLD Error(vyc_status failed, detail::Nowhere) noexcept : status(failed) {
    record.struct_size = sizeof record;
    static_cast<void>(vyc_last_error(&record));
    describe();
  }
  // The same; `find` looks a site up: vyc_status(vyc_site *, record).
  template <class Find>
  Error(vyc_status failed, const Find &find) noexcept : Error(failed, detail::Nowhere{}) {
    if (failed == VYC_E_ASSERT) locate(find);
  }
  // A failure that the header itself finds, with the name of what was asked for.
  VYRE_COLD Error(vyc_status failed, const char *operation, const char *message) noexcept
      : status(failed) {
    record.struct_size = sizeof record;
    record.status = failed;
    detail::copy_text(record.operation, operation);
    detail::copy_text(record.message, message);
    describe();
  }

  // "kernel or driver call: message", with the place of a check that failed.
  const char *what() const noexcept override { return text_; }
  // The linear number of the thread that failed a check.
  std::uint64_t thread() const noexcept { return record.report >> 20; }

  // Looks the site up again, with the site function of a kernel or replay.
  template <class Find>
  void locate(const Find &find) noexcept {
    vyc_site found{};
    found.struct_size = sizeof found;
    if (find(&found, record) == VYC_OK) place(found);
  }

 private:
  VYRE_COLD void place(const vyc_site &found) noexcept {
    site.kind = found.kind;
    site.line = found.line;
    site.statement = found.statement;
    detail::copy_text(site.message, found.message);
    detail::copy_text(site.buffer, found.buffer);
    detail::copy_text(site.file, found.file);
    describe();
  }
  VYRE_COLD void describe() noexcept {
    const auto number = static_cast<unsigned long long>(thread());
    const auto index = static_cast<unsigned long long>(record.report_index);
    int n = 0;
    if (site.kind == VYC_SITE_BOUNDS)
      n = std::snprintf(text_, sizeof text_, "%s: thread %llu: index %llu of %s", record.operation,
                        number, index, site.buffer);
    else if (site.kind == VYC_SITE_ASSERT)
      n = std::snprintf(text_, sizeof text_, "%s: thread %llu: %s", record.operation, number,
                        site.message);
    else
      n = std::snprintf(text_, sizeof text_, "%s: %s", record.operation, record.message);
    if (site.line != 0 && n > 0 && static_cast<std::size_t>(n) < sizeof text_)
      static_cast<void>(std::snprintf(text_ + n, sizeof text_ - static_cast<std::size_t>(n),
                                      " (%s:%u)", site.file, site.line));
  }

  char text_[768] = {};
};

// A failure, or none: one pointer, and no code but a comparison where nothing failed.
class Failure {
 public:
  Failure() noexcept = default;
  explicit Failure(const Error *error) noexcept : error_(error) {}
  Failure(Failure &&other) noexcept : error_(std::exchange(other.error_, nullptr)) {}
  Failure(const Failure &) = delete;
  Failure &operator=(Failure &&other) noexcept {
    std::swap(error_, other.error_);
    return *this;
  }
  Failure &operator=(const Failure &) = delete;
  ~Failure() {
    if (error_ != nullptr) drop(error_);
  }

  bool failed() const noexcept { return error_ != nullptr; }
  const Error &error() const noexcept { return *error_; }

  // As the constructors of Error.
  VYRE_COLD static Failure of(vyc_status failed, detail::Nowhere nowhere) noexcept {
    return held(new (std::nothrow) Error(failed, nowhere));
  }
  template <class Find>
  VYRE_COLD static Failure of(vyc_status failed, const Find &find) noexcept {
    return held(new (std::nothrow) Error(failed, find));
  }
  VYRE_COLD static Failure of(vyc_status failed, const char *operation,
                              const char *message) noexcept {
    return held(new (std::nothrow) Error(failed, operation, message));
  }

 private:
  VYRE_COLD static Failure held(const Error *error) noexcept {
    return Failure(error != nullptr ? error : exhausted());
  }
  VYRE_COLD static void drop(const Error *error) noexcept {
    if (error != exhausted()) delete error;
  }
  // Stands for any failure that finds no memory to be described in.
  static const Error *exhausted() noexcept {
    static const Error error(VYC_E_MEMORY, "vyre::Error", "out of host memory");
    return &error;
  }

  const Error *error_ = nullptr;
};

#if VYRE_EXCEPTIONS
namespace detail {
[[noreturn]] VYRE_COLD inline void raise(const Error &error) { throw Error(error); }
[[noreturn]] VYRE_COLD inline void raise(vyc_status status, Nowhere nowhere) {
  throw Error(status, nowhere);
}
template <class Find>
[[noreturn]] VYRE_COLD void raise(vyc_status status, const Find &find) {
  throw Error(status, find);
}
} // namespace detail
#endif

// A value, or the Error because of which there is none. Reading the value of a failure is
// undefined, except by value(), which throws.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T &&value) noexcept : value_(std::move(value)) {}
  Result(Failure &&failure) noexcept : failure_(std::move(failure)) {}

  explicit operator bool() const noexcept { return !failure_.failed(); }
  bool ok() const noexcept { return !failure_.failed(); }
  vyc_status status() const noexcept { return ok() ? VYC_OK : failure_.error().status; }
  const Error &error() const noexcept { return failure_.error(); }
  Failure failure() && noexcept { return std::move(failure_); }
  T &operator*() noexcept { return value_; }
  const T &operator*() const noexcept { return value_; }
  T *operator->() noexcept { return &value_; }
  const T *operator->() const noexcept { return &value_; }
#if VYRE_EXCEPTIONS
  T value() && {
    if (!ok()) detail::raise(error());
    return std::move(value_);
  }
#endif

 private:
  Failure failure_{};
  T value_{};
};

// The Result of what returns nothing.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() noexcept = default;
  Result(Failure &&failure) noexcept : failure_(std::move(failure)) {}

  explicit operator bool() const noexcept { return !failure_.failed(); }
  bool ok() const noexcept { return !failure_.failed(); }
  vyc_status status() const noexcept { return ok() ? VYC_OK : failure_.error().status; }
  const Error &error() const noexcept { return failure_.error(); }
  Failure failure() && noexcept { return std::move(failure_); }
#if VYRE_EXCEPTIONS
  void value() && {
    if (!ok()) detail::raise(error());
  }
#endif

 private:
  Failure failure_{};
};

// The Result of a call of the C interface, for those that this header does not wrap.
inline Result<void> try_check(vyc_status status) noexcept {
  if (status == VYC_OK) return {};
  return Failure::of(status, detail::Nowhere{});
}

#if VYRE_EXCEPTIONS
// Throws the Error of a call of the C interface that failed.
inline void check(vyc_status status) {
  if (status != VYC_OK) detail::raise(status, detail::Nowhere{});
}
#endif

// VYC_OK is true and VYC_NOT_READY false; all else is a failure.
inline Result<bool> try_ready(vyc_status status) noexcept {
  if (status == VYC_OK || status == VYC_NOT_READY) return Result<bool>(status == VYC_OK);
  return Failure::of(status, detail::Nowhere{});
}

} // namespace vyre

#endif
