// The 16-bit floats of the PTX machine: f16 (IEEE binary16) and bf16 (the upper half of binary32).
// Both are exact in a double; every operation computes in doubles, exactly or rounded to odd, so
// that half_from() rounds once. Subnormals are kept unless .ftz.
#pragma once

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>

#include "float.h"

namespace emulator {

struct Half {
  uint16_t bits;
  static constexpr int precision = 11, least_exponent = -14;
  static constexpr uint16_t infinity = 0x7c00;
};

struct Bfloat {
  uint16_t bits;
  static constexpr int precision = 8, least_exponent = -126;
  static constexpr uint16_t infinity = 0x7f80;
};

template <class T>
constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>;

constexpr uint16_t half_nan = 0x7fff;  // what arithmetic on hardware gives, for both

template <>
inline Half get<Half>(uint64_t slot) {
  return Half{static_cast<uint16_t>(slot)};
}
template <>
inline Bfloat get<Bfloat>(uint64_t slot) {
  return Bfloat{static_cast<uint16_t>(slot)};
}
template <>
inline uint64_t put<Half>(Half value) {
  return value.bits;
}
template <>
inline uint64_t put<Bfloat>(Bfloat value) {
  return value.bits;
}

// The words of signatures; opcodes spell h16 as bf16.
template <>
inline std::string type_name<Half>(char) {
  return "f16";
}
template <>
inline std::string type_name<Bfloat>(char) {
  return "h16";
}

template <class T>
double to_double(T a) {
  const int magnitude = a.bits & 0x7fff, field = magnitude >> (T::precision - 1);
  const int hidden = 1 << (T::precision - 1), fraction = magnitude & (hidden - 1);
  double value = 0;
  if (magnitude > T::infinity)
    value = std::numeric_limits<double>::quiet_NaN();
  else if (magnitude == T::infinity)
    value = std::numeric_limits<double>::infinity();
  else
    value = std::ldexp(field == 0 ? fraction : fraction + hidden,
                       T::least_exponent + (field == 0 ? 0 : field - 1) - (T::precision - 1));
  return a.bits & 0x8000 ? -value : value;
}

// The integer next to `a` >= 0 in the mode; `negative` is the sign that was taken off.
template <int Mode>
uint32_t round_magnitude(double a, bool negative) {
  const auto low = static_cast<uint32_t>(a);
  const double rest = a - low;
  bool up = false;
  if (Mode == FE_TONEAREST) up = rest > 0.5 || (rest == 0.5 && (low & 1) != 0);
  if (Mode == FE_DOWNWARD) up = rest > 0 && negative;
  if (Mode == FE_UPWARD) up = rest > 0 && !negative;
  return low + (up ? 1 : 0);
}

// `a` rounded to T. With Flush a result is zero when it is below the least normal number after
// rounding with an unbounded exponent, as for f32.
template <class T, int Mode, bool Flush = false>
T half_from(double a) {
  const bool negative = std::signbit(a);
  const auto make = [negative](uint32_t magnitude) {
    return T{static_cast<uint16_t>(magnitude | (negative ? 0x8000 : 0))};
  };
  if (a != a) return T{half_nan};
  if (a == 0) return make(0);
  if (std::isinf(a)) return make(T::infinity);
  constexpr uint32_t hidden = 1u << (T::precision - 1);
  int exponent = std::ilogb(a);
  if (Flush && exponent < T::least_exponent) {
    const double scaled = std::ldexp(std::fabs(a), T::precision - 1 - exponent);
    const bool least =
        exponent + 1 == T::least_exponent && round_magnitude<Mode>(scaled, negative) == 2 * hidden;
    return make(least ? hidden : 0);
  }
  exponent = std::max(exponent, T::least_exponent);
  const double scaled = std::ldexp(std::fabs(a), T::precision - 1 - exponent);
  if (exponent > 1 - T::least_exponent)
    exponent = 2 - T::least_exponent;  // infinity or the largest number below
  const uint32_t bits = (static_cast<uint32_t>(exponent - T::least_exponent) * hidden) +
                        round_magnitude<Mode>(scaled, negative);
  if (bits < T::infinity) return make(bits);
  const bool outward = Mode == FE_TONEAREST || Mode == (negative ? FE_DOWNWARD : FE_UPWARD);
  return make(outward ? T::infinity : T::infinity - 1u);
}

// x + y rounded to odd: a later rounding to fewer bits is the only one that counts.
inline double add_to_odd(double x, double y) {
  const double sum = x + y;
  if (!std::isfinite(sum)) return sum;
  const double part = sum - x, error = (x - (sum - part)) + (y - part);
  if (error == 0 || (bits_as<uint64_t>(sum) & 1) != 0) return sum;
  const double infinity = std::numeric_limits<double>::infinity();
  return std::nextafter(sum, error > 0 ? infinity : -infinity);
}

// An integer rounded to odd.
template <class I>
double odd_from(I a) {
  const bool negative = a < 0;
  uint64_t magnitude = static_cast<uint64_t>(a);
  if (negative) magnitude = 0 - magnitude;
  if (magnitude >> 53 != 0) {
    const uint64_t lost = magnitude & 0x7ff;
    magnitude = (magnitude - lost) | (lost != 0 ? 0x800 : 0);
  }
  return negative ? -static_cast<double>(magnitude) : static_cast<double>(magnitude);
}

template <class T>
T flush_half(T a) {
  const int magnitude = a.bits & 0x7fff;
  return magnitude < 1 << (T::precision - 1) ? T{static_cast<uint16_t>(a.bits & 0x8000)} : a;
}

}  // namespace emulator
