// Loading and calling a kernel; every failure is an exception with the text of the library.
#include "kernel.h"

#include <cstdint>
#include <stdexcept>

namespace {

vyc_error last_error() {
  vyc_error error{};
  error.struct_size = sizeof error;
  vyc_last_error(&error);
  return error;
}

std::string text_of(const vyc_error &error) {
  return std::string(error.operation) + ": " + error.message;
}

}  // namespace

void check(vyc_status status) {
  if (status != VYC_OK) throw std::runtime_error(text_of(last_error()));
}

void check_run(vyc_status status, const FindSite &find) {
  if (status != VYC_E_ASSERT) return check(status);
  const vyc_error error = last_error();
  vyc_site site{};
  site.struct_size = sizeof site;
  if (find(&site, error) != VYC_OK) throw std::runtime_error(text_of(error));
  const std::string thread = "thread " + std::to_string(error.report >> 20);
  if (site.kind == VYC_SITE_BOUNDS)
    throw std::runtime_error(thread + ": index " + std::to_string(error.report_index) + " of " +
                             site.buffer);
  throw std::runtime_error(thread + ": " + site.message);
}

void check_load(vyc_status status, const char *log) {
  if (status == VYC_E_COMPILE) throw std::runtime_error(text_of(last_error()) + "\n" + log);
  check(status);
}

Device::Device(const std::string &path, int ordinal) {
  vyc_driver *opened = nullptr;
  check(vyc_driver_open(&opened, path.empty() ? nullptr : path.c_str()));
  driver.reset(opened);
  vyc_context *made = nullptr;
  check(vyc_context_open(&made, opened, ordinal));
  context.reset(made);
  caps.struct_size = sizeof caps;
  check(vyc_context_caps(made, &caps));
}

Kernel::Kernel(vyc_context *context, vyc_bundle *bundle, const std::string &name)
    : bundle_(bundle) {
  vyc_bundled_kernel *loaded = nullptr;
  std::string log(16384, '\0');
  const vyc_status status =
      vyc_bundled_kernel_load(&loaded, log.data(), log.size(), context, bundle, name.c_str(), 0);
  check_load(status, log.c_str());
  kernel_.reset(loaded);
  check(vyc_bundle_kernel_find(bundle, &index_, name.c_str()));
  vyc_bundle_kernel facts{};
  facts.struct_size = sizeof facts;
  check(vyc_bundle_kernel_get(bundle, &facts, index_));
  needs_grid_ = facts.axes == 0;
  buffers_ = facts.buffer_count;
  scalars_ = facts.scalar_count;
  for (std::uint32_t i = 0; i < facts.parameter_count; i++) {
    vyc_bundle_parameter p{};
    p.struct_size = sizeof p;
    check(vyc_bundle_parameter_get(bundle, &p, index_, i));
    parameters_.push_back({p.name, p.role, p.type, p.slot, p.is_sized != 0});
  }
}

Call Kernel::call() const {
  Call call;
  call.inputs.resize(buffers_);
  call.results.resize(buffers_);
  call.counts.resize(buffers_);
  call.scalars.resize(scalars_);
  return call;
}

void Kernel::prepare(Call &call) const {
  std::vector<std::uint64_t> counts = call.counts;
  for (const Parameter &p : parameters_)
    if (p.is_in()) counts[p.slot] = call.inputs[p.slot].count();
  check(vyc_bundle_shape(bundle_, counts.data(), nullptr, index_, call.scalars.data()));
  for (const Parameter &p : parameters_)
    if (p.is_out()) call.results[p.slot] = {p.type, {}};
  for (const Parameter &p : parameters_)
    if (p.is_out()) call.results[p.slot].bytes.resize(counts[p.slot] * type_bytes(p.type));
}

void Kernel::run(Call &call, vyc_timing *timing) const {
  std::vector<vyc_argument> arguments(buffers_);
  for (const Parameter &p : parameters_) {
    if (p.is_scalar()) continue;
    vyc_argument &argument = arguments[p.slot];
    argument.kind = VYC_ARGUMENT_HOST;
    argument.count = (p.is_in() ? call.inputs : call.results)[p.slot].count();
    if (p.is_in()) argument.data = call.inputs[p.slot].bytes.data();
    if (p.is_out()) argument.result = call.results[p.slot].bytes.data();
  }
  vyc_run run{};
  run.struct_size = sizeof run;
  for (std::size_t axis = 0; axis < 3; axis++) run.grid[axis] = call.grid[axis];
  run.argument_count = static_cast<std::uint32_t>(arguments.size());
  run.scalar_count = static_cast<std::uint32_t>(call.scalars.size());
  run.arguments = arguments.data();
  run.scalars = call.scalars.data();
  run.timeout_ns = -1;
  run.timing_out = timing;
  check_run(vyc_bundled_kernel_run(kernel_.get(), nullptr, &run),
            [this](vyc_site *site, const vyc_error &error) {
              return vyc_bundled_kernel_site(kernel_.get(), site, error.report);
            });
}
