// Arrays: .npy files, numbers as text, and rounding to the types that C++ lacks.
#include "arrays.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace {

struct TypeFacts {
  std::uint32_t type;
  const char *name;
  const char *numpy;  // as a .npy file says it
  std::size_t bytes;
};

const TypeFacts TYPES[] = {
    {VYC_TYPE_BOOL, "bool_", "|b1", 1}, {VYC_TYPE_U8, "u8", "|u1", 1},
    {VYC_TYPE_I8, "i8", "|i1", 1},      {VYC_TYPE_U16, "u16", "<u2", 2},
    {VYC_TYPE_I16, "i16", "<i2", 2},    {VYC_TYPE_U32, "u32", "<u4", 4},
    {VYC_TYPE_I32, "i32", "<i4", 4},    {VYC_TYPE_U64, "u64", "<u8", 8},
    {VYC_TYPE_I64, "i64", "<i8", 8},    {VYC_TYPE_F16, "f16", "<f2", 2},
    {VYC_TYPE_BF16, "bf16", "<u2", 2},  {VYC_TYPE_F32, "f32", "<f4", 4},
    {VYC_TYPE_F64, "f64", "<f8", 8},
};

const TypeFacts &facts(std::uint32_t type) {
  for (const TypeFacts &each : TYPES)
    if (each.type == type) return each;
  throw std::runtime_error("type " + std::to_string(type) + " belongs to a newer version");
}

bool is_float(std::uint32_t type) {
  return type == VYC_TYPE_F16 || type == VYC_TYPE_BF16 || type == VYC_TYPE_F32 ||
         type == VYC_TYPE_F64;
}

bool is_signed(std::uint32_t type) {
  return type == VYC_TYPE_I8 || type == VYC_TYPE_I16 || type == VYC_TYPE_I32 ||
         type == VYC_TYPE_I64;
}

// ---- numbers of 16 bits ------------------------------------------------------------------------

// A format with this many bits of fraction and of exponent, in 16 bits.
struct Narrow {
  int fraction, exponent;

  int bias() const { return (1 << (exponent - 1)) - 1; }
};

Narrow narrow(std::uint32_t type) { return type == VYC_TYPE_F16 ? Narrow{10, 5} : Narrow{7, 8}; }

// Rounded to nearest, ties to even.
std::uint64_t to_narrow(double value, Narrow format) {
  const std::uint64_t sign = std::signbit(value) ? 0x8000u : 0u;
  const std::uint64_t infinity = ((1ull << format.exponent) - 1) << format.fraction;
  if (std::isnan(value)) return sign | infinity | (1ull << (format.fraction - 1));
  const double size = std::fabs(value);
  if (size == 0) return sign;
  if (std::isinf(value)) return sign | infinity;
  const int least = 1 - format.bias();
  const int exponent = std::max(std::ilogb(size), least);
  // The carry of a fraction that is rounded up goes to the exponent, as it should.
  const auto scaled =
      static_cast<std::uint64_t>(std::nearbyint(std::ldexp(size, format.fraction - exponent)));
  const std::uint64_t bits =
      (static_cast<std::uint64_t>(exponent - least) << format.fraction) + scaled;
  return sign | std::min(bits, infinity);
}

double from_narrow(std::uint64_t bits, Narrow format) {
  const int exponent = static_cast<int>(bits >> format.fraction) & ((1 << format.exponent) - 1);
  const auto fraction = static_cast<double>(bits & ((1ull << format.fraction) - 1));
  const double one = std::ldexp(1, format.fraction);
  double size = 0;
  if (exponent == (1 << format.exponent) - 1)
    size = fraction == 0 ? std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    size = std::ldexp(fraction / one, 1 - format.bias());
  else
    size = std::ldexp(1 + fraction / one, exponent - format.bias());
  return (bits & 0x8000u) != 0 ? -size : size;
}

// ---- text --------------------------------------------------------------------------------------

[[noreturn]] void no_number(const std::string &text, std::uint32_t type) {
  throw std::runtime_error("\"" + text + "\" is not a value of type " + type_name(type));
}

double parse_float(const std::string &text, std::uint32_t type) {
  char *end = nullptr;
  const double value =
      type == VYC_TYPE_F32 ? std::strtof(text.c_str(), &end) : std::strtod(text.c_str(), &end);
  if (text.empty() || *end != 0) no_number(text, type);
  return value;
}

std::uint64_t parse_integer(const std::string &text, std::uint32_t type) {
  const bool negative = !text.empty() && text[0] == '-';
  const char *begin = text.data() + negative, *end = text.data() + text.size();
  std::uint64_t size = 0;
  const auto [stop, error] = std::from_chars(begin, end, size);
  const auto bits = static_cast<unsigned>(8 * type_bytes(type));
  std::uint64_t most = type == VYC_TYPE_BOOL ? 1 : ~0ull >> (64 - bits);
  if (is_signed(type)) most = (most >> 1) + negative;
  if (error != std::errc() || stop != end || begin == end || size > most ||
      (negative && !is_signed(type)))
    no_number(text, type);
  return negative ? ~size + 1 : size;
}

std::string number_text(std::uint64_t bits, std::uint32_t type) {
  std::ostringstream out;
  if (type == VYC_TYPE_F32) {
    float value;
    const auto word = static_cast<std::uint32_t>(bits);
    std::memcpy(&value, &word, sizeof value);
    out.precision(std::numeric_limits<float>::max_digits10);
    out << value;
  } else if (type == VYC_TYPE_F64) {
    double value;
    std::memcpy(&value, &bits, sizeof value);
    out.precision(std::numeric_limits<double>::max_digits10);
    out << value;
  } else if (is_float(type)) {
    out << from_narrow(bits, narrow(type));
  } else if (is_signed(type)) {
    const auto shift = static_cast<unsigned>(64 - 8 * type_bytes(type));
    out << (static_cast<std::int64_t>(bits << shift) >> shift);
  } else {
    out << bits;
  }
  return out.str();
}

// ---- .npy --------------------------------------------------------------------------------------

const std::string MAGIC = "\x93NUMPY";

// What follows 'KEY': in the header, up to the comma or parenthesis that ends it.
std::string header_value(const std::string &header, const std::string &key) {
  const std::size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) throw std::runtime_error("its header has no " + key);
  const std::size_t begin = header.find_first_not_of(' ', at + key.size() + 3);
  if (begin == std::string::npos) throw std::runtime_error("its header is truncated");
  const char end = header[begin] == '(' ? ')' : ',';
  return header.substr(begin, header.find(end, begin) - begin);
}

std::uint64_t parse_axis(const std::string &text) {
  const std::size_t last = text.find_last_not_of(' ');
  std::uint64_t size = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + last + 1, size);
  if (error != std::errc() || stop != text.data() + last + 1)
    throw std::runtime_error("its shape is not understood: " + text);
  return size;
}

std::uint64_t count_elements(const std::string &shape) {
  if (shape.empty() || shape[0] != '(')
    throw std::runtime_error("its shape is not understood: " + shape);
  std::uint64_t count = 1;
  std::istringstream axes(shape.substr(1));
  for (std::string axis; std::getline(axes, axis, ',');) {
    const std::size_t first = axis.find_first_not_of(' ');
    if (first == std::string::npos) continue;
    const std::uint64_t size = parse_axis(axis.substr(first));
    if (size != 0 && count > ~0ull / size) throw std::runtime_error("its shape is too large");
    count *= size;
  }
  return count;
}

Array parse_npy(const std::string &content, std::uint32_t type) {
  if (content.size() < 12) throw std::runtime_error("its header is truncated");
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(content[at]); };
  const bool is_old = byte(6) == 1;
  const std::size_t begin = is_old ? 10 : 12;
  std::size_t length = byte(8) | static_cast<std::size_t>(byte(9)) << 8;
  if (!is_old) length |= static_cast<std::size_t>(byte(10)) << 16 | std::size_t{byte(11)} << 24;
  if (content.size() - begin < length) throw std::runtime_error("its header is truncated");
  const std::string header = content.substr(begin, length);
  std::string kind = header_value(header, "descr");
  if (kind.size() > 2) kind = kind.substr(1, kind.size() - 2);  // without quotes
  if (kind != facts(type).numpy)
    throw std::runtime_error("it has " + kind + ", which is not " + type_name(type));
  const std::string shape = header_value(header, "shape");
  if (header_value(header, "fortran_order") != "False" && shape.find(',') + 1 < shape.size())
    throw std::runtime_error("it is in Fortran order");
  const std::uint64_t count = count_elements(shape);
  const std::size_t bytes = content.size() - begin - length;
  if (count > bytes || count * type_bytes(type) != bytes)
    throw std::runtime_error("it has " + std::to_string(bytes) + " bytes for " +
                             std::to_string(count) + " elements");
  Array array{type, {}};
  array.bytes.assign(content.end() - static_cast<std::ptrdiff_t>(bytes), content.end());
  return array;
}

bool ends_with(const std::string &text, const std::string &end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

const char *type_name(std::uint32_t type) { return facts(type).name; }
std::size_t type_bytes(std::uint32_t type) { return facts(type).bytes; }
std::uint64_t Array::count() const { return bytes.size() / type_bytes(type); }

std::uint64_t parse_number(const std::string &text, std::uint32_t type) {
  if (!is_float(type)) return parse_integer(text, type);
  const double value = parse_float(text, type);
  std::uint64_t bits = 0;
  if (type == VYC_TYPE_F64) {
    std::memcpy(&bits, &value, sizeof value);
  } else if (type == VYC_TYPE_F32) {
    const auto single = static_cast<float>(value);
    std::memcpy(&bits, &single, sizeof single);
  } else {
    bits = to_narrow(value, narrow(type));
  }
  return bits;
}

Array parse_array(const std::string &text, std::uint32_t type) {
  Array array{type, {}};
  std::istringstream numbers(text);
  for (std::string number; std::getline(numbers, number, ',');) {
    const std::uint64_t bits = parse_number(number, type);
    unsigned char bytes[sizeof bits];
    std::memcpy(bytes, &bits, sizeof bits);  // little-endian, as every GPU and its hosts are
    array.bytes.insert(array.bytes.end(), bytes, bytes + type_bytes(type));
  }
  return array;
}

Array read_array(const std::string &path, std::uint32_t type) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": " + std::strerror(errno));
  const std::string content((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
  try {
    if (content.compare(0, MAGIC.size(), MAGIC) == 0) return parse_npy(content, type);
    if (ends_with(path, ".npy")) throw std::runtime_error("it is not a .npy file");
    if (content.size() % type_bytes(type) != 0)
      throw std::runtime_error(std::to_string(content.size()) +
                               " bytes are not a whole number of " + type_name(type));
    return Array{type, {content.begin(), content.end()}};
  } catch (const std::exception &error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

void write_array(const std::string &path, const Array &array) {
  std::string header = std::string("{'descr': '") + facts(array.type).numpy +
                       "', 'fortran_order': False, 'shape': (" + std::to_string(array.count()) +
                       ",), }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << MAGIC << '\x01' << '\0' << static_cast<char>(header.size() & 0xff)
       << static_cast<char>(header.size() >> 8) << header;
  file.write(reinterpret_cast<const char *>(array.bytes.data()),
             static_cast<std::streamsize>(array.bytes.size()));
  file.close();
  if (!file) throw std::runtime_error(path + " was not written");
}

std::string to_text(const Array &array, std::size_t most) {
  const std::size_t width = type_bytes(array.type);
  std::string text;
  for (std::uint64_t i = 0; i < array.count(); i++) {
    if (i == most) return text + ", ...";
    std::uint64_t bits = 0;
    std::memcpy(&bits, array.bytes.data() + i * width, width);
    text += (i == 0 ? "" : ", ") + number_text(bits, array.type);
  }
  return text;
}
