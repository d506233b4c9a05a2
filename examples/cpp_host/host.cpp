// A bundle from C++: saxpy on host arrays, and a recorded graph of three of them on device arrays.
//
//   vyre-cuda bundle ../saxpy.vir -o saxpy.vyre
//   c++ -std=c++17 host.cpp $(pkg-config --cflags --libs vyre_cuda) -o cpp_host
//   ./cpp_host saxpy.vyre x.bin y.bin 2.5 out.bin graph.bin [DRIVER]
//
// The files are arrays of f32. out.bin gets a x + y; graph.bin gets a (a (a x + y) + y) + y.
// DRIVER is a driver library, like the emulator's; without it, NVIDIA's.
#include <cstdint>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <vyre_cuda.hpp>

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

using Saxpy = vyre::Kernel<vyre::In<float>, vyre::In<float>, vyre::Out<float>, vyre::Scalar<float>>;

// Three times, as one graph: each step reads what the one before wrote, which the graph finds out.
Floats thrice(const vyre::Context &context, const Saxpy &saxpy, const Floats &x, const Floats &y,
              float a) {
  const auto stream = vyre::Stream::create(context);
  const auto graph = vyre::Graph::create(context);
  const auto addend = vyre::Array<float>::copy_of(context, y);
  std::vector<vyre::Array<float>> values;
  values.push_back(vyre::Array<float>::copy_of(context, x));
  for (int step = 0; step < 3; step++) {
    values.push_back(vyre::Array<float>::alloc(context, x.size()));
    saxpy.record(graph, values[values.size() - 2], addend, values.back(), a);
  }
  graph.finish();
  graph.launch(stream);
  Floats out(x.size());
  values.back().copy_out(out);
  return out;
}

} // namespace

int main(int count, char **words) {
  if (count != 7 && count != 8) {
    std::cerr << words[0] << " BUNDLE X Y A OUT GRAPH_OUT [DRIVER]\n";
    return 2;
  }
  try {
    const auto driver = vyre::Driver::open(count == 8 ? words[7] : nullptr);
    const auto context = vyre::Context::open(driver);
    const Saxpy saxpy(context, vyre::Bundle::open(words[1]), "saxpy", {"x", "y", "out", "a"});
    const Floats x = read(words[2]), y = read(words[3]);
    const float a = std::stof(words[4]);
    Floats out(x.size());
    saxpy(x, y, out, a);
    write(words[5], out);
    write(words[6], thrice(context, saxpy, x, y, a));
    std::cout << x.size() << " elements, twice\n";
    return 0;
  } catch (const std::exception &error) {
    std::cerr << words[0] << ": " << error.what() << '\n';
    return 1;
  }
}
