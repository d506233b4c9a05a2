// Bit fields, shifts and logic (PTX ISA 9.7.1.17 to 9.7.1.22, 9.7.8). Shift counts are unsigned and
// clamped: a count of the width or more shifts everything out.
#include <algorithm>

#include "forms.h"

namespace emulator {
namespace {

template <class T>
struct And {
  static T apply(T a, T b) { return a & b; }
};
template <class T>
struct Or {
  static T apply(T a, T b) { return a | b; }
};
template <class T>
struct Xor {
  static T apply(T a, T b) { return a ^ b; }
};
template <class T>
struct Not {
  static T apply(T a) { return static_cast<T>(~a); }
};
template <class T>
struct Cnot {
  static T apply(T a) { return a == 0; }
};
bool and_predicate(bool a, bool b) { return a && b; }
bool or_predicate(bool a, bool b) { return a || b; }
bool xor_predicate(bool a, bool b) { return a != b; }
bool not_predicate(bool a) { return !a; }

template <class T>
struct Shl {
  static T apply(T a, uint32_t n) {
    return n < sizeof(T) * 8 ? static_cast<T>(uint64_t(a) << n) : T(0);
  }
};
template <class T>
struct Shr {
  static T apply(T a, uint32_t n) {
    const uint32_t last = sizeof(T) * 8 - 1;
    if (n > last) return a < 0 ? T(-1) : T(0);
    return static_cast<T>(a >> n);
  }
};

template <bool Left, bool Wrap>
uint32_t funnel(uint32_t low, uint32_t high, uint32_t n) {
  const uint64_t both = uint64_t(high) << 32 | low;
  n = Wrap ? n & 31 : std::min<uint32_t>(n, 32);
  return static_cast<uint32_t>(Left ? (both << n) >> 32 : both >> n);
}

template <class T>
uint32_t population(T a) {
  return static_cast<uint32_t>(__builtin_popcountll(a));
}
template <class T>
uint32_t leading_zeros(T a) {
  const int width = sizeof(T) * 8;
  return a == 0 ? width : static_cast<uint32_t>(__builtin_clzll(a) - (64 - width));
}
template <class T>
struct Brev {
  static T apply(T a) {
    T result = 0;
    for (size_t k = 0; k < sizeof(T) * 8; ++k, a >>= 1)
      result = static_cast<T>(result << 1 | (a & 1));
    return result;
  }
};

// bfind: the highest bit that differs from the sign, all ones when there is none.
template <class T, bool ShiftAmount>
uint32_t find_bit(T a) {
  using U = std::make_unsigned_t<T>;
  U bits = static_cast<U>(a);
  if (a < 0) bits = static_cast<U>(~bits);
  if (bits == 0) return 0xffffffffu;
  const uint32_t zeros = leading_zeros<U>(bits);
  return ShiftAmount ? zeros : static_cast<uint32_t>(sizeof(T) * 8 - 1) - zeros;
}

// Position and length of a bit field. The 32-bit instructions take the low byte of each; an H200
// takes those of 64 bits as they are, so that 256 is beyond every bit.
template <class T>
uint32_t field_number(uint32_t given) {
  return sizeof(T) == 4 ? given & 255 : std::min<uint32_t>(given, 255);
}

// bfe (9.7.1.20): bits beyond the top repeat the sign.
template <class T>
struct Bfe {
  static T apply(T a, uint32_t b, uint32_t c) {
    const uint32_t top = sizeof(T) * 8 - 1;
    const uint32_t position = field_number<T>(b), length = field_number<T>(c);
    if (length == 0) return 0;
    const uint32_t last = std::min(position + length - 1, top);
    const bool sign = std::is_signed_v<T> && ((uint64_t(a) >> last) & 1);
    using U = std::make_unsigned_t<T>;
    U result = position > top ? U(0) : static_cast<U>(U(a) >> position);
    if (length <= top) {
      const uint32_t taken = position > top ? 0 : std::min(length, top + 1 - position);
      const U kept = taken > top ? static_cast<U>(~U(0)) : static_cast<U>((U(1) << taken) - 1);
      result &= kept;
      if (sign) result |= static_cast<U>(~kept);
    } else if (sign) {
      const uint32_t taken = position > top ? 0 : top + 1 - position;
      if (taken <= top) result |= static_cast<U>(~((U(1) << taken) - 1));
    }
    return static_cast<T>(result);
  }
};

// bfi (9.7.1.21): a's low bits go into b.
template <class T>
struct Bfi {
  static T apply(T a, T b, uint32_t c, uint32_t d) {
    const uint32_t width = sizeof(T) * 8;
    const uint32_t position = field_number<T>(c), length = field_number<T>(d);
    if (position >= width || length == 0) return b;
    const T field = length >= width ? static_cast<T>(~T(0)) : static_cast<T>((T(1) << length) - 1);
    const T mask = static_cast<T>(field << position);
    return static_cast<T>((b & ~mask) | ((a << position) & mask));
  }
};

template <bool Wrap>
uint32_t bit_mask(uint32_t a, uint32_t b) {
  const uint32_t position = Wrap ? a & 31 : a, length = Wrap ? b & 31 : b;
  if (position > 31) return 0;
  const uint32_t ones = length > 31 ? ~0u : (1u << length) - 1;
  return ones << position;
}

template <class T, bool Wrap>
T sign_extend(T a, uint32_t b) {
  const uint32_t width = Wrap ? b & 31 : b;
  if (width > 31) return a;
  if (width == 0) return 0;
  const uint32_t kept = uint32_t(a) & ((1u << width) - 1);
  const bool sign = std::is_signed_v<T> && (kept >> (width - 1) & 1);
  return static_cast<T>(sign ? kept | ~((1u << width) - 1) : kept);
}

uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t k = 0; k < 8; ++k)
    if (table >> k & 1) result |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  return result;
}

// prmt (9.7.9.7): four bytes out of the eight of {b, a}.
uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t source = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t pick = selector >> (4 * k) & 15;
    uint32_t byte = static_cast<uint32_t>(source >> ((pick & 7) * 8)) & 255;
    if (pick & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * k);
  }
  return result;
}

// The modes of prmt as selectors for each value of the two low bits of c.
template <int Mode>
uint32_t permute_mode(uint32_t a, uint32_t b, uint32_t c) {
  static constexpr uint32_t selectors[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
      {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
      {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
  return permute(a, b, selectors[Mode][c & 3]);
}

void add_field_forms(Forms &f) {
  const auto field = [&f](const std::string &t, Handler run) {
    f.add("bfe." + t, "=" + t + " " + t + " u32 u32", run);
  };
  field("u32", &Lift<&Bfe<uint32_t>::apply>::run);
  field("s32", &Lift<&Bfe<int32_t>::apply>::run);
  field("u64", &Lift<&Bfe<uint64_t>::apply>::run);
  field("s64", &Lift<&Bfe<int64_t>::apply>::run);
  f.add("bfi.b32", "=b32 b32 b32 u32 u32", &Lift<&Bfi<uint32_t>::apply>::run);
  f.add("bfi.b64", "=b64 b64 b64 u32 u32", &Lift<&Bfi<uint64_t>::apply>::run);
  f.pure<&bit_mask<false>>("bmsk.clamp.b32", 'b').min_version = 76;
  f.pure<&bit_mask<true>>("bmsk.wrap.b32", 'b').min_version = 76;
  f.pure<&sign_extend<uint32_t, false>>("szext.clamp.u32").min_version = 76;
  f.pure<&sign_extend<int32_t, false>>("szext.clamp.s32").min_version = 76;
  f.pure<&sign_extend<uint32_t, true>>("szext.wrap.u32").min_version = 76;
  f.pure<&sign_extend<int32_t, true>>("szext.wrap.s32").min_version = 76;
}

template <class T>
void add_search_forms(Forms &f) {
  using U = std::make_unsigned_t<T>;
  const std::string bits = type_name<U>('b');
  f.add("popc." + bits, "=u32 " + bits, &Lift<&population<U>>::run);
  f.add("clz." + bits, "=u32 " + bits, &Lift<&leading_zeros<U>>::run);
  f.pure<&find_bit<T, false>>("bfind." + type_name<T>());
  f.pure<&find_bit<U, false>>("bfind." + type_name<U>());
  f.pure<&find_bit<T, true>>("bfind.shiftamt." + type_name<T>());
  f.pure<&find_bit<U, true>>("bfind.shiftamt." + type_name<U>());
}

template <class... T>
void add_shift_forms(Forms &f) {
  const auto row = [&f](const std::string &name, const std::string &t, Handler run) {
    f.add(name + "." + t, "=" + t + " " + t + " u32", run);
  };
  (row("shl", type_name<T>('b'), &Lift<&Shl<T>::apply>::run), ...);
  (row("shr", type_name<T>('b'), &Lift<&Shr<T>::apply>::run), ...);
  (row("shr", type_name<T>(), &Lift<&Shr<T>::apply>::run), ...);
  (row("shr", type_name<std::make_signed_t<T>>(), &Lift<&Shr<std::make_signed_t<T>>::apply>::run),
   ...);
}

template <template <class> class Op>
void add_logic(Forms &f, const std::string &name) {
  f.each<Op, uint16_t, uint32_t, uint64_t>(name, 'b');
}

} // namespace

void add_bit_forms(Forms &f) {
  add_logic<And>(f, "and");
  add_logic<Or>(f, "or");
  add_logic<Xor>(f, "xor");
  add_logic<Not>(f, "not");
  add_logic<Cnot>(f, "cnot");
  f.add("and.pred", "=p !p !p", &Lift<&and_predicate>::run);
  f.add("or.pred", "=p !p !p", &Lift<&or_predicate>::run);
  f.add("xor.pred", "=p !p !p", &Lift<&xor_predicate>::run);
  f.add("not.pred", "=p !p", &Lift<&not_predicate>::run);
  add_shift_forms<uint16_t, uint32_t, uint64_t>(f);
  f.pure<&funnel<true, true>>("shf.l.wrap.b32", 'b');
  f.pure<&funnel<true, false>>("shf.l.clamp.b32", 'b');
  f.pure<&funnel<false, true>>("shf.r.wrap.b32", 'b');
  f.pure<&funnel<false, false>>("shf.r.clamp.b32", 'b');
  f.each<Brev, uint32_t, uint64_t>("brev", 'b');
  add_search_forms<int32_t>(f);
  add_search_forms<int64_t>(f);
  add_field_forms(f);
  f.add("lop3.b32", "=b32 b32 b32 b32 #u32", &Lift<&lop3>::run);
  f.add("prmt.b32", "=b32 b32 b32 b32", &Lift<&permute>::run);
  f.pure<&permute_mode<0>>("prmt.b32.f4e", 'b');
  f.pure<&permute_mode<1>>("prmt.b32.b4e", 'b');
  f.pure<&permute_mode<2>>("prmt.b32.rc8", 'b');
  f.pure<&permute_mode<3>>("prmt.b32.ecl", 'b');
  f.pure<&permute_mode<4>>("prmt.b32.ecr", 'b');
  f.pure<&permute_mode<5>>("prmt.b32.rc16", 'b');
}

const Instruction *run_negate_predicate(const Instruction *i, uint64_t *r, Machine &m) {
  return Lift<&not_predicate>::run(i, r, m);
}

} // namespace emulator
