// Arithmetic on f16 and bf16 (PTX ISA 9.7.4, 9.7.3 for bf16): each result is the exact one rounded
// once to nearest even; NaN results are the canonical NaN. .ftz exists for f16 only.
#include "half.h"
#include "forms.h"

namespace emulator {
namespace {

struct Add {
  static double apply(double a, double b) { return add_to_odd(a, b); }
};
struct Sub {
  static double apply(double a, double b) { return add_to_odd(a, -b); }
};
struct Mul {
  static double apply(double a, double b) { return a * b; }
};
struct Fma {
  static double apply(double a, double b, double c) { return add_to_odd(a * b, c); }
};

template <class Op, class T, bool Flush, bool Saturate, class... A>
T evaluate(A... a) {
  const double value = Op::apply(to_double(Flush ? flush_half(a) : a)...);
  return half_from<T, FE_TONEAREST, Flush>(Saturate ? saturate(value) : value);
}

template <class T, bool Max, bool Propagate, bool Flush>
T extremum(T a, T b) {
  if (Flush) a = flush_half(a), b = flush_half(b);
  const double x = to_double(a), y = to_double(b);
  if (x != x || y != y) {
    if (Propagate || (x != x && y != y)) return T{half_nan};
    return x != x ? b : a;
  }
  const bool less = x < y || (x == y && std::signbit(x) && !std::signbit(y));
  return less != Max ? a : b;
}

template <class T, bool Flush>
T absolute(T a) {
  if (Flush) a = flush_half(a);
  return T{static_cast<uint16_t>(a.bits & 0x7fff)};
}

template <class T, bool Flush>
T negated(T a) {
  if (Flush) a = flush_half(a);
  return T{static_cast<uint16_t>(a.bits ^ 0x8000)};
}

// All spellings of one f16 operation of the operands A.
template <class Op, class... A>
void add_single(Forms &f, const std::string &name) {
  f.pure<&evaluate<Op, Half, false, false, A...>>(name + ".f16");
  f.pure<&evaluate<Op, Half, true, false, A...>>(name + ".ftz.f16");
  f.pure<&evaluate<Op, Half, false, true, A...>>(name + ".sat.f16");
  f.pure<&evaluate<Op, Half, true, true, A...>>(name + ".ftz.sat.f16");
}

void require(Form &form, int target, int version) {
  form.min_target = target;
  form.min_version = version;
}

template <class Op>
void add_binary(Forms &f, const std::string &name) {
  for (const char *mode : {"", ".rn"}) {
    add_single<Op, Half, Half>(f, name + mode);
    require(f.pure<&evaluate<Op, Bfloat, false, false, Bfloat, Bfloat>>(name + mode + ".bf16"), 90,
            78);
  }
}

template <bool Max>
void add_extremum(Forms &f, const std::string &name) {
  require(f.pure<&extremum<Half, Max, false, false>>(name + ".f16"), 80, 70);
  require(f.pure<&extremum<Half, Max, false, true>>(name + ".ftz.f16"), 80, 70);
  require(f.pure<&extremum<Half, Max, true, false>>(name + ".NaN.f16"), 80, 70);
  require(f.pure<&extremum<Half, Max, true, true>>(name + ".ftz.NaN.f16"), 80, 70);
  require(f.pure<&extremum<Bfloat, Max, false, false>>(name + ".bf16"), 80, 70);
  require(f.pure<&extremum<Bfloat, Max, true, false>>(name + ".NaN.bf16"), 80, 70);
}

}  // namespace

void add_half_forms(Forms &f) {
  add_binary<Add>(f, "add");
  add_binary<Sub>(f, "sub");
  add_binary<Mul>(f, "mul");
  add_single<Fma, Half, Half, Half>(f, "fma.rn");
  require(f.pure<&evaluate<Fma, Bfloat, false, false, Bfloat, Bfloat, Bfloat>>("fma.rn.bf16"), 80,
          70);
  add_extremum<false>(f, "min");
  add_extremum<true>(f, "max");
  f.pure<&absolute<Half, false>>("abs.f16").min_version = 65;
  f.pure<&absolute<Half, true>>("abs.ftz.f16").min_version = 65;
  f.pure<&negated<Half, false>>("neg.f16").min_version = 60;
  f.pure<&negated<Half, true>>("neg.ftz.f16").min_version = 60;
  require(f.pure<&absolute<Bfloat, false>>("abs.bf16"), 80, 70);
  require(f.pure<&negated<Bfloat, false>>("neg.bf16"), 80, 70);
}

}  // namespace emulator
