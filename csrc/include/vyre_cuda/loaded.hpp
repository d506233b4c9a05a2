// Bundles, and their kernels on a device without types: what vyre::Kernel is made of.
// Part of vyre_cuda.hpp, whose head has the rules.
#ifndef VYRE_CUDA_LOADED_HPP
#define VYRE_CUDA_LOADED_HPP

#include "memory.hpp"

namespace vyre {

class Bundle : public Handle<vyc_bundle> {
 public:
  using Handle::Handle;

  static Result<Bundle> try_open(const char *path) noexcept {
    return detail::make<Bundle>(vyc_bundle_open, path, nullptr, std::size_t{0});
  }
  // From memory, which is copied.
  static Result<Bundle> try_read(const void *data, std::size_t bytes) noexcept {
    return detail::make<Bundle>(vyc_bundle_open, nullptr, data, bytes);
  }
#if VYRE_EXCEPTIONS
  static Bundle open(const char *path) { return try_open(path).value(); }
  static Bundle read(const void *data, std::size_t bytes) { return try_read(data, bytes).value(); }
#endif
};

class Module : public Handle<vyc_module> {
 public:
  using Handle::Handle;
};
class Prepared : public Handle<vyc_prepared> {
 public:
  using Handle::Handle;
};
class BundledKernel : public Handle<vyc_bundled_kernel> {
 public:
  using Handle::Handle;
};
class Worker : public Handle<vyc_worker> {
 public:
  using Handle::Handle;
};
class Communicator : public Handle<vyc_communicator> {
 public:
  using Handle::Handle;
};
class Call : public Handle<vyc_call> {
 public:
  using Handle::Handle;
};

// A run that has been submitted.
class Ticket : public Handle<vyc_ticket> {
 public:
  using Handle::Handle;

  // True: the results are in place.
  Result<bool> try_query() const noexcept { return try_ready(vyc_ticket_query(get())); }
  Result<void> try_wait() const noexcept { return try_check(vyc_ticket_wait(get(), -1)); }
  Result<bool> try_wait_for(Timeout timeout) const noexcept {
    const vyc_status status = vyc_ticket_wait(get(), timeout.ns());
    return try_ready(status == VYC_E_TIMEOUT ? VYC_NOT_READY : status);
  }
#if VYRE_EXCEPTIONS
  bool query() const { return try_query().value(); }
  void wait() const { check(vyc_ticket_wait(get(), -1)); }
  bool wait_for(Timeout timeout) const { return try_wait_for(timeout).value(); }
#endif
};

namespace detail {

// What vyc_error.tag says about kernels and graphs that are loaded here: no two have the same, so
// the check that failed is looked up in the bundle that it is of. Tags of the host's own are small.
inline std::uint64_t next_tag() noexcept {
  static std::uint64_t next = std::uint64_t{1} << 63;
  return __atomic_fetch_add(&next, std::uint64_t{1}, __ATOMIC_RELAXED);
}

// A kernel on a device, shared by its copies and bound calls.
class Loaded {
 public:
  Loaded() noexcept = default;
  Loaded(const Loaded &other) noexcept : held_(other.held_) {
    if (held_ != nullptr) __atomic_fetch_add(&held_->references, 1u, __ATOMIC_RELAXED);
  }
  Loaded(Loaded &&other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  Loaded &operator=(Loaded other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~Loaded() {
    if (held_ != nullptr && __atomic_fetch_sub(&held_->references, 1u, __ATOMIC_ACQ_REL) == 1)
      delete held_;
  }

  VYRE_COLD static Result<Loaded> load(const Context &context, const Bundle &bundle,
                                       const char *name, char *log_out,
                                       std::size_t log_bytes) noexcept {
    vyc_bundled_kernel *kernel = nullptr;
    vyc_prepared *prepared = nullptr;
    const std::uint64_t tag = next_tag();
    vyc_status status = vyc_bundled_kernel_load(&kernel, log_out, log_bytes, context.get(),
                                                bundle.get(), name, tag);
    if (status != VYC_OK) return Failure::of(status, Nowhere{});
    BundledKernel owned(kernel);
    status = vyc_bundled_kernel_prepared(kernel, &prepared);
    if (status != VYC_OK) return Failure::of(status, Nowhere{});
    Loaded made;
    made.held_ = new (std::nothrow) Held(std::move(owned), Prepared(prepared), tag);
    if (made.held_ == nullptr) return Failure::of(VYC_E_MEMORY, name, "out of host memory");
    return made;
  }

  vyc_bundled_kernel *kernel() const noexcept { return held_ ? held_->kernel.get() : nullptr; }
  vyc_prepared *prepared() const noexcept { return held_ ? held_->prepared.get() : nullptr; }
  std::uint64_t tag() const noexcept { return held_ ? held_->tag : 0; }

  // Finds the site of a failed check, if it is one of this kernel's.
  vyc_status operator()(vyc_site *site_out, const vyc_error &record) const noexcept {
    if (held_ == nullptr || record.tag != held_->tag) return VYC_E_INVALID;
    return vyc_bundled_kernel_site(held_->kernel.get(), site_out, record.report);
  }

 private:
  struct Held {
    Held(BundledKernel &&loaded, Prepared &&made, std::uint64_t number) noexcept
        : kernel(std::move(loaded)), prepared(std::move(made)), tag(number) {}
    BundledKernel kernel;
    Prepared prepared;
    std::uint64_t tag;
    std::size_t references = 1; // atomic: in C++20 <atomic> includes <string>
  };
  Held *held_ = nullptr;
};

// What a wrapper was compiled for, to be compared with the bundle.
struct Declared {
  std::uint32_t role, type;
  std::uint32_t axes; // 0: a scalar
};

inline const char *role_name(std::uint32_t role) noexcept {
  return role == VYC_ROLE_IN      ? "in"
         : role == VYC_ROLE_INOUT ? "inout"
         : role == VYC_ROLE_OUT   ? "out"
                                  : "scalar";
}

template <class... A>
VYRE_COLD Failure mismatch(const char *kernel, const char *format, A... arguments) noexcept {
  char text[256];
  static_cast<void>(std::snprintf(text, sizeof text, format, arguments...));
  return Failure::of(VYC_E_INVALID, kernel, text);
}

inline bool is_same_text(const char *a, const char *b) noexcept {
  while (*a != '\0' && *a == *b) a++, b++;
  return *a == *b;
}

// A parameter of a kernel of a bundle; its name is NULL behind the last.
inline vyc_bundle_parameter parameter_of(const Bundle &bundle, std::uint32_t kernel,
                                         std::uint32_t index, std::uint32_t count) noexcept {
  vyc_bundle_parameter found{};
  found.struct_size = sizeof found;
  if (index < count)
    static_cast<void>(vyc_bundle_parameter_get(bundle.get(), &found, kernel, index));
  return found;
}

// Whether the extents of the arrays with several axes, and nothing else, follow the parameters.
VYRE_COLD inline Result<void> check_extents(const Bundle &bundle, const vyc_bundle_kernel &row,
                                            std::uint32_t kernel, const Declared *declared,
                                            std::uint32_t count) noexcept {
  std::uint32_t at = count;
  for (std::uint32_t i = 0; i < count; i++)
    for (std::uint32_t axis = 0; declared[i].axes > 1 && axis < declared[i].axes; axis++) {
      const char *array = parameter_of(bundle, kernel, i, count).name;
      const vyc_bundle_parameter found = parameter_of(bundle, kernel, at++, row.parameter_count);
      char wanted[512];
      static_cast<void>(std::snprintf(wanted, sizeof wanted, "%s.%u", array, axis));
      if (found.name == nullptr || !is_same_text(found.name, wanted))
        return mismatch(row.name, "parameter %s does not have %u axes in the bundle", array,
                        declared[i].axes);
    }
  const vyc_bundle_parameter more = parameter_of(bundle, kernel, at, row.parameter_count);
  if (more.name != nullptr)
    return mismatch(row.name, "parameter %s of the bundle is missing in the program", more.name);
  return {};
}

// Whether a kernel of a bundle has these parameters; `names` is NULL, or their names.
VYRE_COLD inline Result<void> check_parameters(const Bundle &bundle, const char *name,
                                               const Declared *declared, std::uint32_t count,
                                               const char *const *names) noexcept {
  std::uint32_t kernel = 0;
  vyc_bundle_kernel row{};
  row.struct_size = sizeof row;
  vyc_status status = vyc_bundle_kernel_find(bundle.get(), &kernel, name);
  if (status == VYC_OK) status = vyc_bundle_kernel_get(bundle.get(), &row, kernel);
  if (status != VYC_OK) return Failure::of(status, Nowhere{});
  for (std::uint32_t i = 0; i < count; i++) {
    const vyc_bundle_parameter found = parameter_of(bundle, kernel, i, row.parameter_count);
    const Declared &wanted = declared[i];
    if (found.name == nullptr)
      return mismatch(name, "the number of parameters is %u in the bundle, and %u in the program",
                      i, count);
    if (names != nullptr && !is_same_text(found.name, names[i]))
      return mismatch(name, "parameter %u is %s in the bundle, and %s in the program", i,
                      found.name, names[i]);
    if (found.role != wanted.role || found.type != wanted.type)
      return mismatch(name, "parameter %s is %s %s in the bundle, and %s %s in the program",
                      found.name, role_name(found.role), type_name(found.type),
                      role_name(wanted.role), type_name(wanted.type));
  }
  return check_extents(bundle, row, kernel, declared, count);
}

} // namespace detail

} // namespace vyre

#endif
