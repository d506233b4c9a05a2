// Conversion (PTX ISA 9.7.9.21, cvt) between f16, bf16 and all other types, rounded once. .ftz acts
// on f32 alone: subnormal halves are kept. ptxas gives bf16 no 8-bit integers, no .sat and no wider
// registers.
#include "convert.h"
#include "half.h"

namespace emulator {
namespace {

template <class S, bool Flush>
double wide(S a) {
  if constexpr (std::is_integral_v<S>)
    return odd_from(a);
  else if constexpr (is_half<S>)
    return to_double(a);
  else
    return Flush ? flush(a) : a;
}

template <class T, class S, int Mode, bool Flush, bool Saturate>
T narrow(S a) {
  const double value = wide<S, Flush>(a);
  return half_from<T, Mode>(Saturate ? saturate(value) : value);
}

template <class D, class T, bool Flush, bool Saturate>
D widen(T a) {
  const auto value = static_cast<D>(to_double(a));
  if (value != value) return Saturate ? D(0) : canonical_nan<D>();
  const D kept = Flush ? flush(value) : value;
  return Saturate ? saturate(kept) : kept;
}

template <class T, int Mode, bool Saturate>
T whole(T a) {
  const double value = to_integral<double, Mode>(to_double(a));
  return half_from<T, FE_TONEAREST>(Saturate ? saturate(value) : value);
}

// Every half is an f32.
template <class I, class T, int Mode>
I to_integer(T a) {
  return float_to_integer<I, float, Mode, false>(static_cast<float>(to_double(a)));
}

// One mode of a type of integers; `inward` is its name for integer results.
template <class I, int Mode>
void add_integer_mode(Forms &f, const std::string &inward, const std::string &outward) {
  const std::string i = type_name<I>();
  for (const char *sat : {"", ".sat"})
    add_to_integer<&to_integer<I, Half, Mode>, I, Half>(f, "cvt." + inward + sat);
  const std::string shape = "=f16 ~" + i;
  f.add("cvt." + outward + ".f16." + i, shape, &Lift<&narrow<Half, I, Mode, false, false>>::run);
  f.add("cvt." + outward + ".sat.f16." + i, shape, &Lift<&narrow<Half, I, Mode, false, true>>::run);
  if constexpr (sizeof(I) > 1) {
    for (Form *form : {&f.add("cvt." + inward + "." + i + ".bf16", "=" + i + " h16",
                              &Lift<&to_integer<I, Bfloat, Mode>>::run),
                       &f.add("cvt." + outward + ".bf16." + i, "=h16 " + i,
                              &Lift<&narrow<Bfloat, I, Mode, false, false>>::run)}) {
      form->min_target = 90;
      form->min_version = 78;
    }
  }
}

template <int Mode>
void add_mode(Forms &f, const std::string &inward, const std::string &outward) {
  add_integer_mode<uint8_t, Mode>(f, inward, outward);
  add_integer_mode<int8_t, Mode>(f, inward, outward);
  add_integer_mode<uint16_t, Mode>(f, inward, outward);
  add_integer_mode<int16_t, Mode>(f, inward, outward);
  add_integer_mode<uint32_t, Mode>(f, inward, outward);
  add_integer_mode<int32_t, Mode>(f, inward, outward);
  add_integer_mode<uint64_t, Mode>(f, inward, outward);
  add_integer_mode<int64_t, Mode>(f, inward, outward);
  const std::string cvt = "cvt." + outward;
  f.pure<&narrow<Half, float, Mode, false, false>>(cvt + ".f16.f32");
  // An H200 does not flush the operand here: the answers of .rp and .rm show it (tests/silicon).
  f.pure<&narrow<Half, float, Mode, false, false>>(cvt + ".ftz.f16.f32");
  f.pure<&narrow<Half, float, Mode, false, true>>(cvt + ".sat.f16.f32");
  f.pure<&narrow<Half, float, Mode, false, true>>(cvt + ".ftz.sat.f16.f32");
  f.pure<&narrow<Half, double, Mode, false, false>>(cvt + ".f16.f64");
  f.pure<&narrow<Half, double, Mode, false, true>>(cvt + ".sat.f16.f64");
  f.pure<&whole<Half, Mode, false>>("cvt." + inward + ".f16.f16");
  f.pure<&whole<Half, Mode, true>>("cvt." + inward + ".sat.f16.f16");
  constexpr bool old = Mode == FE_TONEAREST || Mode == FE_TOWARDZERO;
  for (Form *form : {&f.pure<&narrow<Bfloat, float, Mode, false, false>>(cvt + ".bf16.f32"),
                     &f.pure<&narrow<Bfloat, float, Mode, true, false>>(cvt + ".ftz.bf16.f32")}) {
    form->min_target = old ? 80 : 90;
    form->min_version = old ? 70 : 78;
  }
  for (Form *form : {&f.pure<&narrow<Bfloat, double, Mode, false, false>>(cvt + ".bf16.f64"),
                     &f.pure<&narrow<Bfloat, Half, Mode, false, false>>(cvt + ".bf16.f16"),
                     &f.pure<&narrow<Half, Bfloat, Mode, false, false>>(cvt + ".f16.bf16"),
                     &f.pure<&whole<Bfloat, Mode, false>>("cvt." + inward + ".bf16.bf16")}) {
    form->min_target = 90;
    form->min_version = 78;
  }
}

} // namespace

void add_half_convert_forms(Forms &f) {
  add_mode<FE_TONEAREST>(f, "rni", "rn");
  add_mode<FE_TOWARDZERO>(f, "rzi", "rz");
  add_mode<FE_DOWNWARD>(f, "rmi", "rm");
  add_mode<FE_UPWARD>(f, "rpi", "rp");
  f.pure<&widen<float, Half, false, false>>("cvt.f32.f16");
  f.pure<&widen<float, Half, true, false>>("cvt.ftz.f32.f16");
  f.pure<&widen<float, Half, false, true>>("cvt.sat.f32.f16");
  f.pure<&widen<float, Half, true, true>>("cvt.ftz.sat.f32.f16");
  f.pure<&widen<double, Half, false, false>>("cvt.f64.f16");
  f.pure<&widen<double, Half, false, true>>("cvt.sat.f64.f16");
  for (Form *form : {&f.pure<&widen<float, Bfloat, false, false>>("cvt.f32.bf16"),
                     &f.pure<&widen<float, Bfloat, true, false>>("cvt.ftz.f32.bf16"),
                     &f.pure<&widen<double, Bfloat, false, false>>("cvt.f64.bf16")}) {
    form->min_target = 90;
    form->min_version = 78;
  }
}

} // namespace emulator
