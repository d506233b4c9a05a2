// Owning handles and checked calls: what a C++ program needs around the C interface, and no more.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vyre_cuda.h>

namespace vyre {

struct Error : std::runtime_error {
  vyc_status status;

  Error(vyc_status failed, const std::string &text) : std::runtime_error(text), status(failed) {}
};

// Throws the library's message if a call failed.
inline void check(vyc_status status) {
  if (status == VYC_OK) return;
  vyc_error error{};
  error.struct_size = sizeof error;
  vyc_last_error(&error);
  throw Error(status, std::string(error.operation) + ": " + error.message);
}

struct Release {
  void operator()(vyc_driver *p) const { vyc_driver_release(p); }
  void operator()(vyc_context *p) const { vyc_context_release(p); }
  void operator()(vyc_bundle *p) const { vyc_bundle_release(p); }
  void operator()(vyc_bundled_kernel *p) const { vyc_bundled_kernel_release(p); }
  void operator()(vyc_prepared *p) const { vyc_prepared_release(p); }
  void operator()(vyc_graph *p) const { vyc_graph_release(p); }
  void operator()(vyc_buffer *p) const { vyc_buffer_release(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, Release>;

// make(vyc_buffer_alloc, context, bytes): what a function returns through its first parameter.
template <typename T, typename... Parameters, typename... Arguments>
Owned<T> make(vyc_status (*function)(T **, Parameters...), Arguments &&...arguments) {
  T *made = nullptr;
  check(function(&made, std::forward<Arguments>(arguments)...));
  return Owned<T>(made);
}

} // namespace vyre
