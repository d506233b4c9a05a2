// Extended-precision arithmetic (PTX ISA 9.7.2): sums, differences and products that read or write
// the carry CC.CF of the thread. A subtraction leaves and takes a borrow.
#include "forms.h"

namespace emulator {
namespace {

enum class Op { add, sub, mad_lo, mad_hi };

__extension__ typedef unsigned __int128 uint128;
__extension__ typedef __int128 int128;

template <class T, bool Signed>
T high_product(T a, T b) {
  if constexpr (Signed) {
    using S = std::make_signed_t<T>;
    return static_cast<T>((int128(S(a)) * int128(S(b))) >> (sizeof(T) * 8));
  } else {
    return static_cast<T>((uint128(a) * uint128(b)) >> (sizeof(T) * 8));
  }
}

template <class T, Op O, bool Signed, bool In, bool Out>
const Instruction *run(const Instruction *i, uint64_t *r, Machine &) {
  constexpr int bits = sizeof(T) * 8;
  T a = static_cast<T>(r[i->slot[1]]);
  T b = static_cast<T>(r[i->slot[2]]);
  const T carry = In ? static_cast<T>(r[slot_carry]) : 0;
  if constexpr (O == Op::mad_lo || O == Op::mad_hi) {
    const T product = O == Op::mad_lo ? a * b : high_product<T, Signed>(a, b);
    a = product;
    b = static_cast<T>(r[i->slot[3]]);
  }
  const uint128 wide = O == Op::sub ? uint128(a) - b - carry : uint128(a) + b + carry;
  r[i->slot[0]] = static_cast<T>(wide);
  if constexpr (Out) r[slot_carry] = static_cast<uint64_t>(wide >> bits) & 1;
  return i + 1;
}

template <class S, Op O, bool In, bool Out>
void add_form(Forms &f, const std::string &name) {
  using T = std::make_unsigned_t<S>;
  const std::string t = type_name<S>();
  const bool three = O == Op::mad_lo || O == Op::mad_hi;
  Form &form = f.add(name + "." + t, "=" + t + " " + t + " " + t + (three ? " " + t : ""),
                     &run<T, O, std::is_signed_v<S>, In, Out>);
  form.carry_in = In;
  form.carry_out = Out;
}

template <class S>
void add_type(Forms &f) {
  add_form<S, Op::add, false, true>(f, "add.cc");
  add_form<S, Op::add, true, false>(f, "addc");
  add_form<S, Op::add, true, true>(f, "addc.cc");
  add_form<S, Op::sub, false, true>(f, "sub.cc");
  add_form<S, Op::sub, true, false>(f, "subc");
  add_form<S, Op::sub, true, true>(f, "subc.cc");
  add_form<S, Op::mad_lo, false, true>(f, "mad.lo.cc");
  add_form<S, Op::mad_lo, true, false>(f, "madc.lo");
  add_form<S, Op::mad_lo, true, true>(f, "madc.lo.cc");
  add_form<S, Op::mad_hi, false, true>(f, "mad.hi.cc");
  add_form<S, Op::mad_hi, true, false>(f, "madc.hi");
  add_form<S, Op::mad_hi, true, true>(f, "madc.hi.cc");
}

}  // namespace

void add_carry_forms(Forms &f) {
  add_type<uint32_t>(f);
  add_type<int32_t>(f);
  add_type<uint64_t>(f);
  add_type<int64_t>(f);
}

}  // namespace emulator
