// Calls the classes of models.hpp, which test_cpp_wrappers.py has the command write: wrapped DRIVER
// BUNDLE. Arrays come from NAME.bin and go to NAME.out.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <models.hpp>
#include <string>
#include <vector>

namespace {

// The elements of a file.
template <class T>
class Elements {
 public:
  explicit Elements(const std::string &name) {
    std::ifstream file(name + ".bin", std::ios::binary | std::ios::ate);
    bytes_.resize(static_cast<std::size_t>(file.tellg()));
    file.seekg(0);
    file.read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
  }
  const T *data() const { return reinterpret_cast<const T *>(bytes_.data()); }
  std::size_t size() const { return bytes_.size() / sizeof(T); }

 private:
  std::vector<char> bytes_{};
};

template <class T>
void write(const std::string &name, const T *values, std::size_t count) {
  std::ofstream file(name + ".out", std::ios::binary);
  file.write(reinterpret_cast<const char *>(values),
             static_cast<std::streamsize>(count * sizeof(T)));
}

template <class T>
void write(const std::string &name, const vyre::Array<T> &array) {
  std::vector<char> bytes(array.size() * sizeof(T));
  array.copy_out(vyre::View<T>(reinterpret_cast<T *>(bytes.data()), array.size()));
  write(name, bytes.data(), bytes.size());
}

// The last element of the file is the scalar.
template <class T, class Blend>
void blend(const vyre::Context &context, const Blend &kernel, const std::string &name) {
  const Elements<T> x(name);
  const std::size_t count = x.size() - 1;
  const Elements<bool> mask("mask");
  const auto in_place = vyre::Array<T>::copy_of(context, vyre::View<const T>(x.data(), count));
  kernel(mask, in_place, x.data()[count]);
  write(name, in_place);
}

void graphs(const vyre::Context &context, const vyre::Bundle &bundle) {
  const auto stream = vyre::Stream::create(context);
  models::Twice twice(context, bundle);
  const Elements<float> x("x");
  const auto dx = vyre::Array<float>::copy_of(context, x);
  const auto out = vyre::Array<float>::alloc(context, x.size());
  twice.x(dx).a(3.0f).a(2.5f).out(out).launch(stream);
  stream.synchronize();
  write("given", out);
  twice.x(dx).out(out).launch(stream);
  stream.synchronize();
  write("defaults", out);

  models::Held held(context, bundle);
  const std::vector<std::int32_t> bad{1, 2, -3};
  const auto dbad = vyre::Array<std::int32_t>::copy_of(context, bad);
  const auto dout = vyre::Array<std::int32_t>::alloc(context, 3);
  held.x(dbad).out(dout).launch(stream);
  try {
    stream.synchronize();
    std::puts("no check failed");
  } catch (vyre::Error &error) {
    if (!twice.locate(error) && held.locate(error)) std::puts(error.what());
  }
  try {
    held.x(dbad).launch(stream);
  } catch (const vyre::Error &error) {
    std::puts(error.what());
  }
}

} // namespace

int main(int, char **words) {
  const auto driver = vyre::Driver::open(words[1]);
  const auto context = vyre::Context::open(driver);
  const auto bundle = vyre::Bundle::open(words[2]);
  try {
    const Elements<float> x("x"), y("y"), matrix("matrix");
    std::vector<float> out(x.size()), turned(matrix.size());
    models::Saxpy(context, bundle)(x, y, out, 2.5f);
    write("saxpy", out.data(), out.size());
    const models::TransposeInBlocks transpose(context, bundle);
    transpose(vyre::View<const float, 2>(matrix.data(), 30, 50),
              vyre::View<float, 2>(turned.data(), 50, 30));
    write("turned", turned.data(), turned.size());
    try {
      transpose(vyre::View<const float, 2>(matrix.data(), 30, 50),
                vyre::View<float, 2>(turned.data(), 30, 50));
    } catch (const vyre::Error &error) {
      std::puts(error.what());
    }
    blend<bool>(context, models::BlendBool(context, bundle), "bool");
    blend<std::uint8_t>(context, models::BlendU8(context, bundle), "u8");
    blend<std::int8_t>(context, models::BlendI8(context, bundle), "i8");
    blend<std::uint16_t>(context, models::BlendU16(context, bundle), "u16");
    blend<std::int16_t>(context, models::BlendI16(context, bundle), "i16");
    blend<std::uint32_t>(context, models::BlendU32(context, bundle), "u32");
    blend<std::int32_t>(context, models::BlendI32(context, bundle), "i32");
    blend<std::uint64_t>(context, models::BlendU64(context, bundle), "u64");
    blend<std::int64_t>(context, models::BlendI64(context, bundle), "i64");
    blend<vyre::half>(context, models::BlendF16(context, bundle), "f16");
    blend<vyre::bfloat16>(context, models::BlendBf16(context, bundle), "bf16");
    blend<float>(context, models::BlendF32(context, bundle), "f32");
    blend<double>(context, models::BlendF64(context, bundle), "f64");
    graphs(context, bundle);
  } catch (const vyre::Error &error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
