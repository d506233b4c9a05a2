// A recorded graph of a bundle on a device, with values for its symbols.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel.h"

struct Symbol {
  std::string name;
  std::uint32_t number = 0;
  std::uint32_t type = 0; // VYC_TYPE_...
  bool is_array = false;
  bool has_default = false;
  bool is_written = false;
};

class Graph {
 public:
  Graph(const Device &device, vyc_bundle *bundle, const std::string &name);

  const std::vector<Symbol> &symbols() const { return symbols_; }
  // A value for all launches from the next `apply` on.
  void set(const Symbol &symbol, const Array &array);
  void set(const Symbol &symbol, std::uint64_t bits);
  // All values at once, because their sizes must fit each other.
  void apply();
  // Launch and wait.
  void run() const;
  Array get(const Symbol &symbol) const;

 private:
  vyc_context *context_;
  Owned<vyc_replay> replay_;
  std::vector<Symbol> symbols_;
  std::vector<vyc_symbol_value> values_;
  std::vector<Owned<vyc_buffer>> buffers_;
};
