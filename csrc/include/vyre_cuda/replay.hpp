// Graphs that were recorded in Python and loaded from a bundle.
// Part of vyre_cuda.hpp, whose head has the rules.
#ifndef VYRE_CUDA_REPLAY_HPP
#define VYRE_CUDA_REPLAY_HPP

#include "loaded.hpp"

namespace vyre {

class ReplayHandle : public Handle<vyc_replay> {
 public:
  using Handle::Handle;
};

// A symbol of a graph of a bundle, to be compared with the bundle.
struct SymbolRow {
  const char *name;
  std::uint32_t kind; // VYC_SYMBOL_...
  std::uint32_t type; // VYC_TYPE_...
  bool is_written;    // an array
};

namespace detail {

inline const char *kind_name(std::uint32_t kind) noexcept {
  return kind == VYC_SYMBOL_ARRAY ? "an array of" : "a scalar of";
}

// The numbers of the symbols of a graph, which must be those of the rows.
VYRE_COLD inline Result<void> find_symbols(std::uint32_t *numbers, const Bundle &bundle,
                                           const char *name, const SymbolRow *rows,
                                           std::uint32_t count) noexcept {
  std::uint32_t graph = 0;
  vyc_bundle_graph row{};
  row.struct_size = sizeof row;
  vyc_status status = vyc_bundle_graph_find(bundle.get(), &graph, name);
  if (status == VYC_OK) status = vyc_bundle_graph_get(bundle.get(), &row, graph);
  if (status != VYC_OK) return Failure::of(status, Nowhere{});
  if (row.symbol_count != count)
    return mismatch(name, "the number of symbols is %u in the bundle, and %u in the program",
                    row.symbol_count, count);
  for (std::uint32_t i = 0; i < count; i++) {
    vyc_bundle_symbol found{};
    found.struct_size = sizeof found;
    status = vyc_bundle_symbol_find(bundle.get(), &numbers[i], graph, rows[i].name);
    if (status == VYC_OK) status = vyc_bundle_symbol_get(bundle.get(), &found, graph, numbers[i]);
    if (status != VYC_OK) return Failure::of(status, Nowhere{});
    const bool is_written = (found.flags & VYC_SYMBOL_WRITTEN) != 0;
    if (found.kind != rows[i].kind || found.type != rows[i].type ||
        is_written != rows[i].is_written)
      return mismatch(name, "symbol %s is %s %s%s in the bundle, and %s %s%s in the program",
                      rows[i].name, kind_name(found.kind), type_name(found.type),
                      is_written ? ", written" : "", kind_name(rows[i].kind),
                      type_name(rows[i].type), rows[i].is_written ? ", written" : "");
  }
  return {};
}

} // namespace detail

// A graph of a bundle on a device, with N symbols: what `vyre-cuda bundle --cpp` derives a class
// with a function for each symbol from. Values hold for the next launch; a symbol that gets none
// has its default. One thread at a time may use it: each thread loads its own.
template <std::size_t N>
class Replay {
 public:
  // Launch with the values that were given since the last launch.
  Result<void> try_launch(const Stream &stream) noexcept {
    const vyc_status status = start(stream);
    if (status == VYC_OK) return {};
    return Failure::of(status, detail::Nowhere{});
  }
#if VYRE_EXCEPTIONS
  void launch(const Stream &stream) {
    if (const vyc_status status = start(stream); status != VYC_OK)
      detail::raise(status, detail::Nowhere{});
  }
#endif
  // Whether an error is a failed check of this graph; if so, its site is filled in.
  bool locate(Error &error) const noexcept {
    if (error.status != VYC_E_ASSERT || error.record.tag != tag_) return false;
    error.locate([this](vyc_site *site_out, const vyc_error &record) noexcept {
      return vyc_replay_site(handle_.get(), site_out, record.operation, record.report);
    });
    return true;
  }
  vyc_replay *get() const noexcept { return handle_.get(); }
  std::uint64_t tag() const noexcept { return tag_; }

 protected:
  Replay() noexcept = default;
  Replay(Replay &&) noexcept = default;
  Replay &operator=(Replay &&) noexcept = default;
  ~Replay() = default;

  Result<void> try_open(const Context &context, const Bundle &bundle, const char *name,
                        const SymbolRow (&rows)[N == 0 ? 1 : N]) noexcept {
    tag_ = detail::next_tag();
    if (Result<void> same = detail::find_symbols(numbers_, bundle, name, rows, N); !same)
      return same;
    Result<ReplayHandle> loaded = detail::make<ReplayHandle>(
        vyc_replay_load, nullptr, std::size_t{0}, context.get(), bundle.get(), name, tag_);
    if (!loaded) return std::move(loaded).failure();
    handle_ = std::move(*loaded);
    return {};
  }
  template <class T>
  void put(std::uint32_t row, DeviceView<T> array) noexcept {
    vyc_symbol_value &value = value_of(row);
    value.buffer = array.buffer();
    value.offset = array.byte();
    value.count = array.size();
  }
  void put_bits(std::uint32_t row, std::uint64_t bits) noexcept { value_of(row).bits = bits; }

 private:
  vyc_symbol_value &value_of(std::uint32_t row) noexcept {
    std::uint32_t at = 0;
    while (at < count_ && values_[at].symbol != numbers_[row]) at++;
    if (at == count_) count_++;
    values_[at] = vyc_symbol_value{};
    values_[at].symbol = numbers_[row];
    return values_[at];
  }
  vyc_status start(const Stream &stream) noexcept {
    return vyc_replay_launch(handle_.get(), values_, std::exchange(count_, 0u), stream.get());
  }

  ReplayHandle handle_{};
  std::uint64_t tag_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t numbers_[N + 1] = {};
  vyc_symbol_value values_[N + 1] = {};
};

} // namespace vyre

#endif
