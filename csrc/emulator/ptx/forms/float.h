// Rounding, flushing, saturation and canonical NaNs: what arithmetic, conversion and atomics share.
#pragma once

#include <cfenv>
#include <cmath>
#include <limits>

#include "values.h"

namespace emulator {

template <class T>
inline bool is_subnormal(T a) {
  return a != 0 && std::fabs(a) < std::numeric_limits<T>::min();
}

// Subnormals become zero of the same sign.
template <class T>
inline T flush(T a) {
  return is_subnormal(a) ? std::copysign(T(0), a) : a;
}

// The NaN that arithmetic on NVIDIA hardware gives, whatever the payloads of its operands.
template <class T>
inline T canonical_nan() {
  if constexpr (sizeof(T) == 4)
    return bits_as<float>(0x7fffffffu);
  else
    return bits_as<double>(uint64_t{0xfff8000000000000u});
}

// To [+0, 1]; NaN and -0 give +0.
template <class T>
inline T saturate(T a) {
  if (!(a > 0)) return 0;
  return a < 1 ? a : T(1);
}

// Op::apply(a...) to T, rounded in the mode. The volatile copies keep the operation between the
// two changes of mode.
template <class Op, int Mode, class T, class... A>
inline T rounded(A... a) {
  if constexpr (Mode == FE_TONEAREST) {
    return static_cast<T>(Op::apply(a...));
  } else {
    struct Guard {
      Guard() { std::fesetround(Mode); }
      ~Guard() { std::fesetround(FE_TONEAREST); }
    };
    const auto barrier = [](auto value) {
      volatile auto copy = value;
      return decltype(value)(copy);
    };
    const Guard guard;
    volatile T result = static_cast<T>(Op::apply(barrier(a)...));
    return result;
  }
}

constexpr float magnifier = 0x1p32f;

template <class Op>
struct Magnified {
  template <class... A>
  static float apply(A... a) {
    return Op::magnified(a...);
  }
};

// `value` is Op of `a` in the mode, no subnormal. Where only the rounding to the coarse steps of
// subnormals has made it the least normal number, the result is subnormal: zero of the same sign.
template <class Op, int Mode, class... A>
inline float flush_rounded_up(float value, A... a) {
  constexpr float least = std::numeric_limits<float>::min();
  if (std::fabs(value) != least) return value;
  const float exact = rounded<Magnified<Op>, Mode, float>(a...);
  return std::fabs(exact) < least * magnifier ? std::copysign(0.0f, value) : value;
}

} // namespace emulator
