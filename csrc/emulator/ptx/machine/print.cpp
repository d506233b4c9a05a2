// vprintf: the line is formatted when the thread prints it, by the host's own printf.
#include "print.h"

#include <cstdio>
#include <cstring>

#include "emulator/ptx/forms/memory.h"
#include "emulator/ptx/forms/values.h"

namespace emulator {
namespace {

// One conversion: %d %i %u %x of 32 bits, with ll of 64, %e %f %g of a double, with a precision.
struct Conversion {
  std::string text;
  uint32_t bytes = 0;  // of the value; 0: %%
  bool real = false;
};

// Its end; nullptr if it is not one of these.
const char *read_conversion(const char *at, Conversion *out) {
  const char *begin = at++;
  if (*at == '%') {
    *out = Conversion{};
    return at + 1;
  }
  if (*at == '.')
    for (++at; *at >= '0' && *at <= '9';) ++at;
  if (at - begin > 4) return nullptr;
  const bool wide = at[0] == 'l' && at[1] == 'l';
  if (wide) at += 2;
  const bool real = *at != '\0' && std::strchr("efg", *at) != nullptr;
  const bool integer = *at != '\0' && std::strchr("diux", *at) != nullptr;
  if (!(integer || (real && !wide))) return nullptr;
  *out = Conversion{std::string(begin, at + 1), wide || real ? 8u : 4u, real};
  return at + 1;
}

std::string convert(const Conversion &conversion, const uint8_t *value) {
  char text[512];  // a double in %f has 309 digits before the point
  const char *format = conversion.text.c_str();
  uint64_t bits = 0;
  std::memcpy(&bits, value, conversion.bytes);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  if (conversion.real)
    std::snprintf(text, sizeof text, format, get<double>(bits));
  else if (conversion.bytes == 8)
    std::snprintf(text, sizeof text, format, static_cast<unsigned long long>(bits));
  else
    std::snprintf(text, sizeof text, format, static_cast<unsigned>(bits));
#pragma GCC diagnostic pop
  return text;
}

// The zero-terminated format in a variable of the module; nullptr: there is none.
const char *find_format(Machine &m, uint64_t address) {
  for (const StaticVariable &variable : *m.code->variables) {
    const uint64_t inside = address - variable.address();
    if (inside >= variable.bytes.size()) continue;
    const uint8_t *begin = variable.bytes.data() + inside;
    if (std::memchr(begin, 0, variable.bytes.size() - inside) == nullptr) return nullptr;
    return reinterpret_cast<const char *>(begin);
  }
  return nullptr;
}

}  // namespace

const Instruction *run_print(const Instruction *i, uint64_t *r, Machine &m) {
  const uint64_t format = r[i->slot[0]], values = r[i->slot[1]] - local_window;
  const char *at = find_format(m, format);
  if (at == nullptr)
    return m.fault(i, Outcome::illegal_address, format, "the format is not a text of the module");
  std::string text;
  uint64_t offset = 0;
  uint32_t count = 0;
  while (*at != '\0') {
    if (*at != '%') {
      text += *at++;
      continue;
    }
    Conversion conversion;
    at = read_conversion(at, &conversion);
    if (at == nullptr)
      return m.fault(i, Outcome::illegal_instruction, format, "unknown conversion in a format");
    if (conversion.bytes == 0) {
      text += '%';
      continue;
    }
    offset = (offset + conversion.bytes - 1) / conversion.bytes * conversion.bytes;
    const uint8_t *value = Local::at(i, m, values + offset, conversion.bytes);
    if (value == nullptr) return nullptr;
    text += convert(conversion, value);
    offset += conversion.bytes;
    ++count;
  }
  if (m.printer != nullptr) m.printer->print(std::move(text));
  r[i->slot[2]] = count;
  return i + 1;
}

}  // namespace emulator
