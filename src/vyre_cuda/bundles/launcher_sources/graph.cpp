// Loading and launching a bundled graph; arrays of symbols are uploaded once and stay on the
// device.
#include "graph.h"

#include <cstdint>

Graph::Graph(const Device &device, vyc_bundle *bundle, const std::string &name)
    : context_(device.context.get()) {
  std::uint32_t index = 0;
  check(vyc_bundle_graph_find(bundle, &index, name.c_str()));
  vyc_bundle_graph facts{};
  facts.struct_size = sizeof facts;
  check(vyc_bundle_graph_get(bundle, &facts, index));
  for (std::uint32_t i = 0; i < facts.symbol_count; i++) {
    vyc_bundle_symbol s{};
    s.struct_size = sizeof s;
    check(vyc_bundle_symbol_get(bundle, &s, index, i));
    symbols_.push_back({s.name, i, s.type, s.kind == VYC_SYMBOL_ARRAY,
                        (s.flags & VYC_SYMBOL_HAS_DEFAULT) != 0,
                        (s.flags & VYC_SYMBOL_WRITTEN) != 0});
  }
  vyc_replay *loaded = nullptr;
  std::string log(16384, '\0');
  const auto status =
      vyc_replay_load(&loaded, log.data(), log.size(), context_, bundle, name.c_str(), 0);
  check_load(status, log.c_str());
  replay_.reset(loaded);
}

void Graph::set(const Symbol &symbol, const Array &array) {
  vyc_buffer *made = nullptr;
  check(vyc_buffer_alloc(&made, context_, array.bytes.size()));
  buffers_.emplace_back(made);
  check(vyc_copy_in(made, 0, array.bytes.data(), array.bytes.size()));
  vyc_symbol_value value{};
  value.symbol = symbol.number;
  value.buffer = made;
  value.count = array.count();
  values_.push_back(value);
}

void Graph::set(const Symbol &symbol, std::uint64_t bits) {
  vyc_symbol_value value{};
  value.symbol = symbol.number;
  value.bits = bits;
  values_.push_back(value);
}

void Graph::apply() {
  if (values_.empty()) return;
  check(vyc_replay_set(replay_.get(), values_.data(), static_cast<std::uint32_t>(values_.size())));
  values_.clear();
}

void Graph::run() const {
  check(vyc_replay_launch(replay_.get(), nullptr, 0, nullptr));
  check_run(vyc_context_synchronize(context_), [this](vyc_site *site, const vyc_error &error) {
    return vyc_replay_site(replay_.get(), site, error.operation, error.report);
  });
}

Array Graph::get(const Symbol &symbol) const {
  vyc_symbol_value value{};
  check(vyc_replay_get(replay_.get(), &value, symbol.number));
  const Owned<vyc_buffer> buffer(value.buffer);
  Array array{symbol.type, {}};
  array.bytes.resize(value.count * type_bytes(symbol.type));
  check(vyc_copy_out(buffer.get(), value.offset, array.bytes.data(), array.bytes.size()));
  return array;
}
