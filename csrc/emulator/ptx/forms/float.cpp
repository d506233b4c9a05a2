// Floating-point arithmetic (PTX ISA 9.7.3). Every result is the exact one rounded once in the
// stated mode; NaN results are the hardware's canonical NaN. .ftz flushes subnormal inputs and
// results to zero of the same sign; .sat clamps to [+0, 1] and turns NaN into +0. A result is
// subnormal when it is below the least normal number after rounding to 24 bits with an unbounded
// exponent: an H200 gives 0x00800000 * 0x3f7fffff = 0, but the fused 2^-126 - 2^-190 = 2^-126.
// The thread runs with the default floating-point environment: execute() sees to that.
#include <cfenv>
#include <cmath>

#include "float.h"
#include "forms.h"

namespace emulator {
namespace {

// Operations whose results below the least normal number may be inexact have magnified(): the
// result times `magnifier` for results near that number, where nothing overflows.
struct Exact {
  static constexpr bool tiny_is_exact = true;
};
struct Inexact {
  static constexpr bool tiny_is_exact = false;
};

struct Add : Exact {
  template <class T>
  static T apply(T a, T b) {
    return a + b;
  }
};
struct Sub : Exact {
  template <class T>
  static T apply(T a, T b) {
    return a - b;
  }
};
struct Mul : Inexact {
  template <class T>
  static T apply(T a, T b) {
    return a * b;
  }
  static float magnified(float a, float b) {
    return std::fabs(a) < std::fabs(b) ? a * magnifier * b : a * (b * magnifier);
  }
};
struct Div : Inexact {
  template <class T>
  static T apply(T a, T b) {
    return a / b;
  }
  static float magnified(float a, float b) { return a * magnifier / b; }
};
struct Fma : Inexact {
  template <class T>
  static T apply(T a, T b, T c) {
    return std::fma(a, b, c);
  }
  static float magnified(float a, float b, float c) {
    return std::fabs(a) < std::fabs(b) ? std::fma(a * magnifier, b, c * magnifier)
                                       : std::fma(a, b * magnifier, c * magnifier);
  }
};
struct Rcp : Inexact {
  template <class T>
  static T apply(T a) {
    return T(1) / a;
  }
  static float magnified(float a) { return magnifier / a; }
};
struct Sqrt : Exact {
  template <class T>
  static T apply(T a) {
    return std::sqrt(a);
  }
};

template <class Op, int Mode, bool Flush, bool Saturate, class T, class... A>
T evaluate(A... a) {
  T value = rounded<Op, Mode, T>((Flush ? flush(a) : a)...);
  if (value != value) value = canonical_nan<T>();
  if constexpr (Flush) {
    value = flush(value);
    if constexpr (!Op::tiny_is_exact) value = flush_rounded_up<Op, Mode>(value, flush(a)...);
  }
  return Saturate ? saturate(value) : value;
}

template <class Op, int Mode, class... A>
void add_single(Forms &f, const std::string &name, bool can_saturate) {
  f.pure<&evaluate<Op, Mode, false, false, float, A...>>(name + ".f32");
  f.pure<&evaluate<Op, Mode, true, false, float, A...>>(name + ".ftz.f32");
  if (!can_saturate) return;
  f.pure<&evaluate<Op, Mode, false, true, float, A...>>(name + ".sat.f32");
  f.pure<&evaluate<Op, Mode, true, true, float, A...>>(name + ".ftz.sat.f32");
}

template <class Op, int Mode, class... A>
void add_double(Forms &f, const std::string &name) {
  f.pure<&evaluate<Op, Mode, false, false, double, A...>>(name + ".f64");
}

// All rounding modes of one operation; Single and Double are its operands.
template <class Op, class Single, class Double>
struct Modes;
template <class Op, class... S, class... D>
struct Modes<Op, void(S...), void(D...)> {
  static void add(Forms &f, const std::string &name, bool can_saturate) {
    add_single<Op, FE_TONEAREST, S...>(f, name + ".rn", can_saturate);
    add_single<Op, FE_TOWARDZERO, S...>(f, name + ".rz", can_saturate);
    add_single<Op, FE_DOWNWARD, S...>(f, name + ".rm", can_saturate);
    add_single<Op, FE_UPWARD, S...>(f, name + ".rp", can_saturate);
    add_double<Op, FE_TONEAREST, D...>(f, name + ".rn");
    add_double<Op, FE_TOWARDZERO, D...>(f, name + ".rz");
    add_double<Op, FE_DOWNWARD, D...>(f, name + ".rm");
    add_double<Op, FE_UPWARD, D...>(f, name + ".rp");
  }
};

template <class Op>
void add_unary(Forms &f, const std::string &name) {
  Modes<Op, void(float), void(double)>::add(f, name, false);
}
template <class Op>
void add_binary(Forms &f, const std::string &name, bool can_saturate) {
  Modes<Op, void(float, float), void(double, double)>::add(f, name, can_saturate);
}
template <class Op>
void add_ternary(Forms &f, const std::string &name) {
  Modes<Op, void(float, float, float), void(double, double, double)>::add(f, name, true);
}

// Without a mode the text allows contraction with a neighbor; alone it rounds to nearest even.
template <class Op>
void add_default_mode(Forms &f, const std::string &name) {
  add_single<Op, FE_TONEAREST, float, float>(f, name, true);
  add_double<Op, FE_TONEAREST, double, double>(f, name);
}

// Results that the ISA only bounds: correctly rounded ones are within every bound, but are not the
// bits of any silicon.
template <class Op, class... A>
void add_bounded(Forms &f, const std::string &name) {
  f.pure<&evaluate<Op, FE_TONEAREST, false, false, float, A...>>(name + ".f32");
  f.pure<&evaluate<Op, FE_TONEAREST, true, false, float, A...>>(name + ".ftz.f32");
}

// Functions that the ISA only bounds, in double and rounded to float.
double exponential(double a) { return std::exp2(a); }
double inverse_root(double a) { return 1 / std::sqrt(a); }
double tangent(double a) { return std::tanh(a); }

template <double (*F)(double), bool Flush>
float approximate(float a) {
  const float value = static_cast<float>(F(Flush ? flush(a) : a));
  if (value != value) return canonical_nan<float>();
  return Flush ? flush(value) : value;
}
template <double (*F)(double)>
void add_approximate(Forms &f, const std::string &name) {
  f.pure<&approximate<F, false>>(name + ".f32");
  f.pure<&approximate<F, true>>(name + ".ftz.f32");
}

// min and max (9.7.3.11): -0 is less than +0; one NaN gives the other operand unless .NaN.
template <class T, bool Max, bool Propagate, bool Flush>
T extremum(T a, T b) {
  if (Flush) a = flush(a), b = flush(b);
  if (a != a || b != b) {
    if (Propagate || (a != a && b != b)) return canonical_nan<T>();
    return a != a ? b : a;
  }
  const bool less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return less != Max ? a : b;
}

template <bool Max>
void add_extremum(Forms &f, const std::string &name) {
  f.pure<&extremum<float, Max, false, false>>(name + ".f32");
  f.pure<&extremum<float, Max, false, true>>(name + ".ftz.f32");
  for (Form *form : {&f.pure<&extremum<float, Max, true, false>>(name + ".NaN.f32"),
                     &f.pure<&extremum<float, Max, true, true>>(name + ".ftz.NaN.f32")}) {
    form->min_target = 80;
    form->min_version = 70;
  }
  f.pure<&extremum<double, Max, false, false>>(name + ".f64");
}

template <class T, bool Flush>
T absolute(T a) {
  return std::fabs(Flush ? flush(a) : a);
}
template <class T, bool Flush>
T negated(T a) {
  return -(Flush ? flush(a) : a);
}

// copysign d, a, b: the sign of a on the magnitude of b.
template <class T>
struct CopySign {
  static T apply(T a, T b) { return std::copysign(b, a); }
};

template <class T>
struct IsFinite {
  static bool apply(T a) { return std::isfinite(a); }
};
template <class T>
struct IsInfinite {
  static bool apply(T a) { return std::isinf(a); }
};
template <class T>
struct IsNumber {
  static bool apply(T a) { return a == a; }
};
template <class T>
struct IsNan {
  static bool apply(T a) { return a != a; }
};
template <class T>
struct IsNormal {
  // The ISA counts zero as normal (9.7.3.1), and so does an H200.
  static bool apply(T a) { return a == 0 || std::isnormal(a); }
};
template <class T>
struct IsSubnormal {
  static bool apply(T a) { return is_subnormal(a); }
};

}  // namespace

void add_float_forms(Forms &f) {
  add_default_mode<Add>(f, "add");
  add_default_mode<Sub>(f, "sub");
  add_default_mode<Mul>(f, "mul");
  add_binary<Add>(f, "add", true);
  add_binary<Sub>(f, "sub", true);
  add_binary<Mul>(f, "mul", true);
  add_binary<Div>(f, "div", false);
  add_ternary<Fma>(f, "fma");
  add_ternary<Fma>(f, "mad");
  add_unary<Rcp>(f, "rcp");
  add_unary<Sqrt>(f, "sqrt");
  add_bounded<Div, float, float>(f, "div.full");
  add_bounded<Rcp, float>(f, "rcp.approx");
  add_bounded<Sqrt, float>(f, "sqrt.approx");
  add_approximate<exponential>(f, "ex2.approx");
  add_approximate<inverse_root>(f, "rsqrt.approx");
  Form &tanh = f.pure<&approximate<tangent, false>>("tanh.approx.f32");
  tanh.min_target = 75;
  tanh.min_version = 70;
  add_extremum<false>(f, "min");
  add_extremum<true>(f, "max");
  f.pure<&absolute<float, false>>("abs.f32");
  f.pure<&absolute<float, true>>("abs.ftz.f32");
  f.pure<&absolute<double, false>>("abs.f64");
  f.pure<&negated<float, false>>("neg.f32");
  f.pure<&negated<float, true>>("neg.ftz.f32");
  f.pure<&negated<double, false>>("neg.f64");
  f.each<CopySign, float, double>("copysign");
  f.each<IsFinite, float, double>("testp.finite");
  f.each<IsInfinite, float, double>("testp.infinite");
  f.each<IsNumber, float, double>("testp.number");
  f.each<IsNan, float, double>("testp.notanumber");
  f.each<IsNormal, float, double>("testp.normal");
  f.each<IsSubnormal, float, double>("testp.subnormal");
}

}  // namespace emulator
