// A kernel of a bundle on a device, called with arrays of the host.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arrays.h"

struct Release {
  void operator()(vyc_driver *p) const { vyc_driver_release(p); }
  void operator()(vyc_context *p) const { vyc_context_release(p); }
  void operator()(vyc_bundle *p) const { vyc_bundle_release(p); }
  void operator()(vyc_bundled_kernel *p) const { vyc_bundled_kernel_release(p); }
  void operator()(vyc_replay *p) const { vyc_replay_release(p); }
  void operator()(vyc_buffer *p) const { vyc_buffer_release(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, Release>;

// Throws std::runtime_error with the text of the failure.
void check(vyc_status status);
// The same, with where a failed assertion stands in the program, which `find` looks up.
using FindSite = std::function<vyc_status(vyc_site *site, const vyc_error &error)>;
void check_run(vyc_status status, const FindSite &find);
// The same, with what the driver's compiler said.
void check_load(vyc_status status, const char *log);

// A device of a driver library; an empty path is NVIDIA's.
struct Device {
  Owned<vyc_driver> driver;
  Owned<vyc_context> context;
  vyc_caps caps{};

  Device(const std::string &path, int ordinal);
};

struct Parameter {
  std::string name;
  std::uint32_t role = 0; // VYC_ROLE_...
  std::uint32_t type = 0; // VYC_TYPE_...
  std::uint32_t slot = 0; // its number among the buffers or among the scalars
  bool is_sized = false;  // an out whose size follows from the other arguments

  bool is_in() const { return role == VYC_ROLE_IN || role == VYC_ROLE_INOUT; }
  bool is_out() const { return role == VYC_ROLE_OUT || role == VYC_ROLE_INOUT; }
  bool is_scalar() const { return role == VYC_ROLE_SCALAR; }
};

// The arguments of a call, by slot, and after it the results, by slot too.
struct Call {
  std::vector<Array> inputs, results;
  std::vector<std::uint64_t> counts; // of outs that are not sized: elements
  std::vector<std::uint64_t> scalars;
  std::array<std::uint32_t, 3> grid{}; // blocks; zeros: what the work takes
};

class Kernel {
 public:
  Kernel(vyc_context *context, vyc_bundle *bundle, const std::string &name);

  const std::vector<Parameter> &parameters() const { return parameters_; }
  // Whether each call brings a grid.
  bool needs_grid() const { return needs_grid_; }
  // A call with room for every argument.
  Call call() const;
  // Make room for the results. Throws when sizes do not fit each other.
  void prepare(Call &call) const;
  // Dispatch and wait; `timing`, unless null, has where the time went.
  void run(Call &call, vyc_timing *timing) const;

 private:
  Owned<vyc_bundled_kernel> kernel_;
  vyc_bundle *bundle_;
  std::uint32_t index_ = 0;
  std::size_t buffers_ = 0, scalars_ = 0;
  bool needs_grid_ = false;
  std::vector<Parameter> parameters_;
};
