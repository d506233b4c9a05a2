// Integer arithmetic (PTX ISA 9.7.1). Results wrap at the type's width. Division by zero gives
// what NVIDIA hardware gives, all ones, in the quotient and in the remainder.
#include <algorithm>
#include <limits>

#include "forms.h"

namespace emulator {
namespace {

// Unsigned type at least as wide as int, so that no product or sum is a signed overflow.
template <class T>
using Wide = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

template <class T>
struct Twice;
template <>
struct Twice<uint16_t> {
  using type = uint32_t;
};
template <>
struct Twice<int16_t> {
  using type = int32_t;
};
template <>
struct Twice<uint32_t> {
  using type = uint64_t;
};
template <>
struct Twice<int32_t> {
  using type = int64_t;
};
__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;
template <>
struct Twice<uint64_t> {
  using type = uint128;
};
template <>
struct Twice<int64_t> {
  using type = int128;
};

template <class T>
T low_product(T a, T b) {
  return static_cast<T>(Wide<T>(a) * Wide<T>(b));
}

template <class T>
T high_product(T a, T b) {
  using D = typename Twice<T>::type;
  return static_cast<T>((D(a) * D(b)) >> (sizeof(T) * 8));
}

template <class T>
T sum(T a, T b) {
  return static_cast<T>(Wide<T>(a) + Wide<T>(b));
}

template <class T>
struct Add {
  static T apply(T a, T b) { return sum(a, b); }
};
template <class T>
struct Sub {
  static T apply(T a, T b) { return static_cast<T>(Wide<T>(a) - Wide<T>(b)); }
};
template <class T>
struct MulLo {
  static T apply(T a, T b) { return low_product(a, b); }
};
template <class T>
struct MulHi {
  static T apply(T a, T b) { return high_product(a, b); }
};
template <class T>
struct MulWide {
  using D = typename Twice<T>::type;
  static D apply(T a, T b) { return D(a) * D(b); }
};
template <class T>
struct MadLo {
  static T apply(T a, T b, T c) { return sum(low_product(a, b), c); }
};
template <class T>
struct MadHi {
  static T apply(T a, T b, T c) { return sum(high_product(a, b), c); }
};
template <class T>
struct MadWide {
  using D = typename Twice<T>::type;
  static D apply(T a, T b, D c) { return sum<D>(D(a) * D(b), c); }
};

template <class T>
bool overflows(T a, T b) {
  return std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == T(-1);
}

template <class T>
struct Div {
  static T apply(T a, T b) {
    if (b == 0) return T(-1);
    return overflows(a, b) ? a : static_cast<T>(a / b);
  }
};
template <class T>
struct Rem {
  static T apply(T a, T b) {
    if (b == 0) return T(-1);
    return overflows(a, b) ? T(0) : static_cast<T>(a % b);
  }
};

template <class T>
struct Neg {
  static T apply(T a) { return static_cast<T>(Wide<T>(0) - Wide<T>(a)); }
};
template <class T>
struct Abs {
  static T apply(T a) { return a < 0 ? Neg<T>::apply(a) : a; }
};
template <class T>
struct Min {
  static T apply(T a, T b) { return b < a ? b : a; }
};
template <class T>
struct Max {
  static T apply(T a, T b) { return a < b ? b : a; }
};

// sad: c + |a - b|.
template <class T>
struct Sad {
  static T apply(T a, T b, T c) {
    const Wide<T> difference = a < b ? Wide<T>(b) - Wide<T>(a) : Wide<T>(a) - Wide<T>(b);
    return static_cast<T>(difference + Wide<T>(c));
  }
};

int32_t saturate(int64_t v) {
  return static_cast<int32_t>(std::clamp<int64_t>(v, INT32_MIN, INT32_MAX));
}
int32_t add_saturate(int32_t a, int32_t b) { return saturate(int64_t(a) + b); }
int32_t sub_saturate(int32_t a, int32_t b) { return saturate(int64_t(a) - b); }
int32_t mad_hi_saturate(int32_t a, int32_t b, int32_t c) {
  return saturate(int64_t(high_product(a, b)) + c);
}

template <bool High, class A, class B>
typename std::conditional_t<std::is_signed_v<A>, int32_t, uint32_t> product24(A a, B b) {
  const int64_t x = std::is_signed_v<A> ? int32_t(uint32_t(a) << 8) >> 8 : int64_t(a & 0xffffff);
  const int64_t y = std::is_signed_v<B> ? int32_t(uint32_t(b) << 8) >> 8 : int64_t(b & 0xffffff);
  return static_cast<A>(uint64_t(x * y) >> (High ? 16 : 0));
}
template <class T>
struct Mul24Lo {
  static T apply(T a, T b) { return product24<false>(a, b); }
};
template <class T>
struct Mul24Hi {
  static T apply(T a, T b) { return product24<true>(a, b); }
};
template <class T>
struct Mad24Lo {
  static T apply(T a, T b, T c) { return sum(product24<false>(a, b), c); }
};
template <class T>
struct Mad24Hi {
  static T apply(T a, T b, T c) { return sum(product24<true>(a, b), c); }
};

// dp4a, dp2a: c plus the dot product of bytes, or of halfwords of a and bytes of b.
template <class A, class B>
using Dot = std::conditional_t<std::is_signed_v<A> || std::is_signed_v<B>, int32_t, uint32_t>;

template <class A, class B>
Dot<A, B> dp4a(A a, B b, Dot<A, B> c) {
  using ByteA = std::conditional_t<std::is_signed_v<A>, int8_t, uint8_t>;
  using ByteB = std::conditional_t<std::is_signed_v<B>, int8_t, uint8_t>;
  uint32_t total = uint32_t(c);
  for (int k = 0; k < 32; k += 8)
    total += uint32_t(int32_t(ByteA(uint32_t(a) >> k)) * int32_t(ByteB(uint32_t(b) >> k)));
  return static_cast<Dot<A, B>>(total);
}

template <class A, class B, int Shift>
Dot<A, B> dp2a(A a, B b, Dot<A, B> c) {
  using HalfA = std::conditional_t<std::is_signed_v<A>, int16_t, uint16_t>;
  using ByteB = std::conditional_t<std::is_signed_v<B>, int8_t, uint8_t>;
  uint32_t total = uint32_t(c);
  for (int k = 0; k < 2; ++k)
    total += uint32_t(int32_t(HalfA(uint32_t(a) >> (16 * k))) *
                      int32_t(ByteB(uint32_t(b) >> (8 * k + Shift))));
  return static_cast<Dot<A, B>>(total);
}

template <class A, class B>
void add_dot_forms(Forms &f) {
  const std::string types = "." + type_name<A>() + "." + type_name<B>();
  f.pure<&dp4a<A, B>>("dp4a" + types);
  f.pure<&dp2a<A, B, 0>>("dp2a.lo" + types);
  f.pure<&dp2a<A, B, 16>>("dp2a.hi" + types);
}

template <template <class> class Op>
void add_all_widths(Forms &f, const std::string &name) {
  f.each<Op, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>(name);
}

}  // namespace

void add_integer_forms(Forms &f) {
  add_all_widths<Add>(f, "add");
  add_all_widths<Sub>(f, "sub");
  add_all_widths<MulLo>(f, "mul.lo");
  add_all_widths<MulHi>(f, "mul.hi");
  add_all_widths<MadLo>(f, "mad.lo");
  add_all_widths<MadHi>(f, "mad.hi");
  f.each<MulWide, uint16_t, int16_t, uint32_t, int32_t>("mul.wide");
  f.each<MadWide, uint16_t, int16_t, uint32_t, int32_t>("mad.wide");
  f.each<Mul24Lo, uint32_t, int32_t>("mul24.lo");
  f.each<Mul24Hi, uint32_t, int32_t>("mul24.hi");
  f.each<Mad24Lo, uint32_t, int32_t>("mad24.lo");
  f.each<Mad24Hi, uint32_t, int32_t>("mad24.hi");
  add_all_widths<Div>(f, "div");
  add_all_widths<Rem>(f, "rem");
  add_all_widths<Min>(f, "min");
  add_all_widths<Max>(f, "max");
  add_all_widths<Sad>(f, "sad");
  f.each<Neg, int16_t, int32_t, int64_t>("neg");
  f.each<Abs, int16_t, int32_t, int64_t>("abs");
  f.pure<&add_saturate>("add.sat.s32");
  f.pure<&sub_saturate>("sub.sat.s32");
  f.pure<&mad_hi_saturate>("mad.hi.sat.s32");
  add_dot_forms<uint32_t, uint32_t>(f);
  add_dot_forms<uint32_t, int32_t>(f);
  add_dot_forms<int32_t, uint32_t>(f);
  add_dot_forms<int32_t, int32_t>(f);
}

}  // namespace emulator
