// Conversion (PTX ISA 9.7.9.21, cvt) among 8 to 64-bit integers, f32 and f64.
// Destinations may be wider registers: the result is extended by the destination's sign.
#include "convert.h"

namespace emulator {
namespace {

template <class D, class S>
D clamp_integer(S a) {
  using Limit = std::numeric_limits<D>;
  if (a < 0) {
    if (!std::is_signed_v<D>) return 0;
    return static_cast<int64_t>(a) < static_cast<int64_t>(Limit::min()) ? Limit::min()
                                                                        : static_cast<D>(a);
  }
  return static_cast<uint64_t>(a) > static_cast<uint64_t>(Limit::max()) ? Limit::max()
                                                                        : static_cast<D>(a);
}

template <class D>
struct To {
  template <class S>
  static D apply(S a) {
    return static_cast<D>(a);
  }
  static float magnified(double a) { return static_cast<float>(a * magnifier); }
};

template <class D, class S, int Mode, bool Saturate>
D integer_to_float(S a) {
  const D value = rounded<To<D>, Mode, D>(a);
  return Saturate ? saturate(value) : value;
}

template <class D, class S, int Mode, bool Flush, bool Saturate>
D float_to_float(S a) {
  if (Flush) a = flush(a);
  if (a != a) return Saturate ? D(0) : canonical_nan<D>();
  D value = rounded<To<D>, Mode, D>(a);
  if constexpr (Flush && sizeof(D) == 4) {
    value = flush(value);
    if constexpr (sizeof(S) == 8) value = flush_rounded_up<To<D>, Mode>(value, a);
  }
  return Saturate ? saturate(value) : value;
}

template <class T, int Mode, bool Flush, bool Saturate>
T round_to_integral(T a) {
  if (Flush) a = flush(a);
  if (a != a) return Saturate ? T(0) : canonical_nan<T>();
  a = to_integral<T, Mode>(a);
  return Saturate ? saturate(a) : a;
}

template <auto F, class D, class S>
void add_to_float(Forms &f, const std::string &name) {
  const std::string source = std::is_integral_v<S> ? " ~" : " ";
  f.add(name + "." + type_name<D>() + "." + type_name<S>(),
        "=" + type_name<D>() + source + type_name<S>(), &Lift<F>::run);
}

template <class D, class S>
D truncate(S a) {
  return static_cast<D>(a);
}

template <class D, class S>
void add_integer_pair(Forms &f) {
  add_to_integer<&truncate<D, S>, D, S>(f, "cvt");
  // ptxas refuses .sat where nothing can be out of range.
  using Dest = std::numeric_limits<D>;
  using Source = std::numeric_limits<S>;
  constexpr bool fits =
      Dest::digits >= Source::digits && (std::is_signed_v<D> || !std::is_signed_v<S>);
  if constexpr (!fits) add_to_integer<&clamp_integer<D, S>, D, S>(f, "cvt.sat");
}

template <class I, int Mode>
void add_float_integer_mode(Forms &f, const std::string &to_integral, const std::string &to_float) {
  add_to_integer<&float_to_integer<I, float, Mode, false>, I, float>(f, "cvt." + to_integral);
  add_to_integer<&float_to_integer<I, float, Mode, true>, I, float>(f,
                                                                    "cvt." + to_integral + ".ftz");
  add_to_integer<&float_to_integer<I, double, Mode, false>, I, double>(f, "cvt." + to_integral);
  add_to_float<&integer_to_float<float, I, Mode, false>, float, I>(f, "cvt." + to_float);
  add_to_float<&integer_to_float<float, I, Mode, true>, float, I>(f, "cvt." + to_float + ".sat");
  add_to_float<&integer_to_float<double, I, Mode, false>, double, I>(f, "cvt." + to_float);
  add_to_float<&integer_to_float<double, I, Mode, true>, double, I>(f, "cvt." + to_float + ".sat");
}

// Everything between the integer type I, the other integers and the floats.
template <class I>
void add_integer_type(Forms &f) {
  add_integer_pair<I, uint8_t>(f);
  add_integer_pair<I, int8_t>(f);
  add_integer_pair<I, uint16_t>(f);
  add_integer_pair<I, int16_t>(f);
  add_integer_pair<I, uint32_t>(f);
  add_integer_pair<I, int32_t>(f);
  add_integer_pair<I, uint64_t>(f);
  add_integer_pair<I, int64_t>(f);
  add_float_integer_mode<I, FE_TONEAREST>(f, "rni", "rn");
  add_float_integer_mode<I, FE_TOWARDZERO>(f, "rzi", "rz");
  add_float_integer_mode<I, FE_DOWNWARD>(f, "rmi", "rm");
  add_float_integer_mode<I, FE_UPWARD>(f, "rpi", "rp");
}

template <int Mode>
void add_float_mode(Forms &f, const std::string &integral, const std::string &round) {
  const std::string narrow = "cvt." + round, whole = "cvt." + integral;
  add_to_float<&float_to_float<float, double, Mode, false, false>, float, double>(f, narrow);
  add_to_float<&float_to_float<float, double, Mode, true, false>, float, double>(f,
                                                                                 narrow + ".ftz");
  add_to_float<&float_to_float<float, double, Mode, false, true>, float, double>(f,
                                                                                 narrow + ".sat");
  add_to_float<&float_to_float<float, double, Mode, true, true>, float, double>(f, narrow +
                                                                                       ".ftz.sat");
  add_to_float<&round_to_integral<float, Mode, false, false>, float, float>(f, whole);
  add_to_float<&round_to_integral<float, Mode, true, false>, float, float>(f, whole + ".ftz");
  add_to_float<&round_to_integral<float, Mode, false, true>, float, float>(f, whole + ".sat");
  add_to_float<&round_to_integral<float, Mode, true, true>, float, float>(f, whole + ".ftz.sat");
  add_to_float<&round_to_integral<double, Mode, false, false>, double, double>(f, whole);
  add_to_float<&round_to_integral<double, Mode, false, true>, double, double>(f, whole + ".sat");
}

template <class D, bool Flush, bool Saturate>
void add_exact(Forms &f, const std::string &name) {
  add_to_float<&float_to_float<D, float, FE_TONEAREST, Flush, Saturate>, D, float>(f, name);
}

}  // namespace

void add_convert_forms(Forms &f) {
  add_integer_type<uint8_t>(f);
  add_integer_type<int8_t>(f);
  add_integer_type<uint16_t>(f);
  add_integer_type<int16_t>(f);
  add_integer_type<uint32_t>(f);
  add_integer_type<int32_t>(f);
  add_integer_type<uint64_t>(f);
  add_integer_type<int64_t>(f);
  add_float_mode<FE_TONEAREST>(f, "rni", "rn");
  add_float_mode<FE_TOWARDZERO>(f, "rzi", "rz");
  add_float_mode<FE_DOWNWARD>(f, "rmi", "rm");
  add_float_mode<FE_UPWARD>(f, "rpi", "rp");
  add_exact<double, false, false>(f, "cvt");
  add_exact<double, true, false>(f, "cvt.ftz");
  add_exact<double, false, true>(f, "cvt.sat");
  add_exact<double, true, true>(f, "cvt.ftz.sat");
  add_exact<float, false, false>(f, "cvt");
  add_exact<float, true, false>(f, "cvt.ftz");
  add_exact<float, false, true>(f, "cvt.sat");
  add_exact<float, true, true>(f, "cvt.ftz.sat");
}

}  // namespace emulator
