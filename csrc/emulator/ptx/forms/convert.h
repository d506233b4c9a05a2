// Float to integer, and integer results in registers wider than their type: what the conversions of
// all float types share.
#pragma once

#include <cfenv>
#include <cmath>

#include "float.h"
#include "forms.h"

namespace emulator {

template <class T, int Mode>
T to_integral(T a) {
  switch (Mode) {
  case FE_TONEAREST: return std::nearbyint(a);
  case FE_TOWARDZERO: return std::trunc(a);
  case FE_DOWNWARD: return std::floor(a);
  default: return std::ceil(a);
  }
}

// Rounds, then clamps to the range of the destination; a NaN gives 0, or 1 << (width - 1) where an
// f64 or a 64-bit integer takes part.
template <class D, class S, int Mode, bool Flush>
D float_to_integer(S a) {
  using Limit = std::numeric_limits<D>;
  if (a != a) {
    if (sizeof(S) == 4 && sizeof(D) < 8) return 0;
    return static_cast<D>(uint64_t(1) << (sizeof(D) * 8 - 1));
  }
  if (Flush) a = flush(a);
  a = to_integral<S, Mode>(a);
  const S end = std::ldexp(S(1), Limit::digits);
  if (a >= end) return Limit::max();
  if (a < S(Limit::min())) return Limit::min();
  return static_cast<D>(a);
}

// The handler that extends F's integer result to a register of type W.
template <auto F, class D, class S, class W>
const Instruction *run_widened(const Instruction *i, uint64_t *r, Machine &) {
  r[i->slot[0]] = put<W>(static_cast<W>(F(get<S>(r[i->slot[1]]))));
  return i + 1;
}

template <auto F, class D, class S>
void add_to_integer(Forms &f, const std::string &name) {
  const std::string source = std::is_integral_v<S> ? " ~" : " ";
  Form &form = f.add(name + "." + type_name<D>() + "." + type_name<S>(),
                     "=~" + type_name<D>() + source + type_name<S>(), nullptr);
  if constexpr (sizeof(D) <= 2) form.widened[0] = &run_widened<F, D, S, Register<D, 16>>;
  if constexpr (sizeof(D) <= 4) form.widened[1] = &run_widened<F, D, S, Register<D, 32>>;
  form.widened[2] = &run_widened<F, D, S, Register<D, 64>>;
}

} // namespace emulator
