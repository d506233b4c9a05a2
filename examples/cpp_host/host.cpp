// A bundle from C++: saxpy on host arrays, and a recorded graph of three of them on device arrays.
//
//   vyre-cuda bundle ../saxpy.vir -o saxpy.vyre
//   c++ -std=c++17 host.cpp $(pkg-config --cflags --libs vyre_cuda) -o cpp_host
//   ./cpp_host saxpy.vyre x.bin y.bin 2.5 out.bin graph.bin [DRIVER]
//
// The files are arrays of f32. out.bin gets a x + y; graph.bin gets a (a (a x + y) + y) + y.
// DRIVER is a driver library, like the emulator's; without it, NVIDIA's.
#include <array>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <vector>

#include "vyre.h"

namespace {

using Floats = std::vector<float>;

Floats read(const std::string &path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  Floats values(file ? static_cast<std::size_t>(file.tellg()) / sizeof(float) : 0);
  file.seekg(0);
  file.read(reinterpret_cast<char *>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
  if (!file) throw std::runtime_error(path + " cannot be read");
  return values;
}

void write(const std::string &path, const Floats &values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(float)));
  if (!file.flush()) throw std::runtime_error(path + " cannot be written");
}

class Saxpy {
 public:
  Saxpy(const char *driver, const std::string &bundle)
      : driver_(vyre::make(vyc_driver_open, driver)),
        context_(vyre::make(vyc_context_open, driver_.get(), 0)),
        bundle_(vyre::make(vyc_bundle_open, bundle.c_str(), nullptr, std::size_t{0})),
        kernel_(load(context_.get(), bundle_.get())) {}

  // a x + y
  Floats operator()(const Floats &x, const Floats &y, float a) const {
    Floats out(x.size());
    std::array<vyc_argument, 3> arguments{};
    for (vyc_argument &argument : arguments) argument.kind = VYC_ARGUMENT_HOST;
    arguments[0].data = x.data();
    arguments[0].count = x.size();
    arguments[1].data = y.data();
    arguments[1].count = y.size();
    arguments[2].result = out.data();
    arguments[2].count = out.size();
    const std::uint64_t scalar = vyc_bits_f32(a);
    const vyc_run run = run_of(arguments, scalar);
    vyre::check(vyc_bundled_kernel_run(kernel_.get(), nullptr, &run));
    return out;
  }

  // Three times, as one graph: each step reads what the one before wrote, which the graph finds
  // out.
  Floats thrice(const Floats &x, const Floats &y, float a) const {
    const std::uint64_t scalar = vyc_bits_f32(a);
    vyc_prepared *held = nullptr;
    vyre::check(vyc_bundled_kernel_prepared(kernel_.get(), &held));
    const vyre::Owned<vyc_prepared> prepared(held);
    const auto graph = vyre::make(vyc_graph_create, context_.get());
    const auto addend = buffer(y);
    std::vector<vyre::Owned<vyc_buffer>> values;
    values.push_back(buffer(x));
    for (int step = 0; step < 3; step++) {
      values.push_back(buffer(x));
      const std::array<vyc_buffer *, 3> buffers{values[values.size() - 2].get(), addend.get(),
                                                values.back().get()};
      std::array<vyc_argument, 3> arguments{};
      for (std::size_t i = 0; i < 3; i++) {
        arguments[i].kind = VYC_ARGUMENT_BUFFER;
        arguments[i].buffer = buffers[i];
        arguments[i].count = x.size();
      }
      vyc_run run = run_of(arguments, scalar);
      std::uint32_t number = 0;
      vyre::check(vyc_bundled_kernel_resolve(kernel_.get(), &run));
      vyre::check(vyc_graph_add_launch(graph.get(), &number, prepared.get(), &run));
    }
    vyre::check(vyc_graph_finish(graph.get()));
    vyre::check(vyc_graph_launch(graph.get(), nullptr, 0, nullptr));
    Floats out(x.size());
    vyre::check(vyc_copy_out(values.back().get(), 0, out.data(), out.size() * sizeof(float)));
    return out;
  }

 private:
  static vyre::Owned<vyc_bundled_kernel> load(vyc_context *context, vyc_bundle *bundle) {
    return vyre::make(vyc_bundled_kernel_load, nullptr, std::size_t{0}, context, bundle, "saxpy",
                      std::uint64_t{0});
  }

  // Refers to its arguments; the grid is left to the kernel.
  static vyc_run run_of(const std::array<vyc_argument, 3> &arguments, const std::uint64_t &scalar) {
    vyc_run run{};
    run.struct_size = sizeof run;
    run.argument_count = 3;
    run.arguments = arguments.data();
    run.scalar_count = 1;
    run.scalars = &scalar;
    run.timeout_ns = -1;
    return run;
  }

  vyre::Owned<vyc_buffer> buffer(const Floats &values) const {
    const std::uint64_t bytes = values.size() * sizeof(float);
    auto made = vyre::make(vyc_buffer_alloc, context_.get(), bytes);
    vyre::check(vyc_copy_in(made.get(), 0, values.data(), bytes));
    return made;
  }

  vyre::Owned<vyc_driver> driver_;
  vyre::Owned<vyc_context> context_;
  vyre::Owned<vyc_bundle> bundle_;
  vyre::Owned<vyc_bundled_kernel> kernel_;
};

} // namespace

int main(int count, char **words) {
  if (count != 7 && count != 8) {
    std::cerr << words[0] << " BUNDLE X Y A OUT GRAPH_OUT [DRIVER]\n";
    return 2;
  }
  try {
    const Saxpy saxpy(count == 8 ? words[7] : nullptr, words[1]);
    const Floats x = read(words[2]), y = read(words[3]);
    const float a = std::stof(words[4]);
    write(words[5], saxpy(x, y, a));
    write(words[6], saxpy.thrice(x, y, a));
    std::cout << x.size() << " elements, twice\n";
    return 0;
  } catch (const std::exception &error) {
    std::cerr << words[0] << ": " << error.what() << '\n';
    return 1;
  }
}
