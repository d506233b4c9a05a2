// Graphs that a host records; vyre_cuda/replay.hpp has those of bundles.
// Part of vyre_cuda.hpp, whose head has the rules.
#ifndef VYRE_CUDA_GRAPH_HPP
#define VYRE_CUDA_GRAPH_HPP

#include "loaded.hpp"

namespace vyre {

// Many launches as one. Steps come from Kernel::record, copy and fill; finish makes it launchable.
class Graph : public Handle<vyc_graph> {
 public:
  using Handle::Handle;

  static Result<Graph> try_create(const Context &context) noexcept {
    return detail::make<Graph>(vyc_graph_create, context.get());
  }
  // A copy between device arrays; `to` and `from` have as many elements.
  template <class T>
  Result<std::uint32_t> try_copy(DeviceView<T> to, DeviceView<const T> from) const noexcept {
    if (to.size() != from.size()) return detail::outside("vyre::Graph::copy");
    vyc_graph_transfer transfer{};
    transfer.struct_size = sizeof transfer;
    transfer.bytes = to.bytes();
    transfer.to = to.buffer();
    transfer.to_offset = to.byte();
    transfer.from = from.buffer();
    transfer.from_offset = from.byte();
    return try_add(transfer);
  }
  // vyc_graph_add_transfer, for copies from and to page-locked memory, and fills.
  Result<std::uint32_t> try_add(const vyc_graph_transfer &transfer) const noexcept {
    std::uint32_t step = 0;
    const vyc_status status = vyc_graph_add_transfer(get(), &step, &transfer);
    if (status != VYC_OK) return Failure::of(status, detail::Nowhere{});
    return Result<std::uint32_t>(std::move(step));
  }
  // The steps up to repeat_end, so many times.
  Result<std::uint32_t> try_repeat_begin(std::uint64_t times) const noexcept {
    std::uint32_t step = 0;
    const vyc_status status = vyc_graph_repeat_begin(get(), &step, times, nullptr, 0, 0);
    if (status != VYC_OK) return Failure::of(status, detail::Nowhere{});
    return Result<std::uint32_t>(std::move(step));
  }
  Result<void> try_repeat_end() const noexcept { return try_check(vyc_graph_repeat_end(get())); }
  Result<void> try_finish() const noexcept { return try_check(vyc_graph_finish(get())); }
  Result<void> try_launch(const Stream &stream) const noexcept {
    return try_check(vyc_graph_launch(get(), nullptr, 0, stream.get()));
  }
#if VYRE_EXCEPTIONS
  static Graph create(const Context &context) { return try_create(context).value(); }
  template <class T>
  std::uint32_t copy(DeviceView<T> to, DeviceView<const T> from) const {
    return try_copy(to, from).value();
  }
  std::uint32_t add(const vyc_graph_transfer &transfer) const { return try_add(transfer).value(); }
  std::uint32_t repeat_begin(std::uint64_t times) const { return try_repeat_begin(times).value(); }
  void repeat_end() const { check(vyc_graph_repeat_end(get())); }
  void finish() const { check(vyc_graph_finish(get())); }
  void launch(const Stream &stream) const {
    check(vyc_graph_launch(get(), nullptr, 0, stream.get()));
  }
#endif
};

} // namespace vyre

#endif
