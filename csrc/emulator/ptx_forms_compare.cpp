// Comparison and selection (PTX ISA 9.7.6): setp, set, selp, slct.
#include <cmath>
#include <limits>

#include "ptx_forms.h"

namespace emulator {
namespace {

enum class Compare { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };
enum class Combine { none, conjunction, disjunction, exclusive };

template <class T, bool Flush>
T input(uint64_t slot) {
  const T value = get<T>(slot);
  if constexpr (Flush)
    if (std::fabs(value) < std::numeric_limits<T>::min()) return std::copysign(T(0), value);
  return value;
}

template <Compare C, class T>
bool compare(T a, T b) {
  constexpr bool real = std::is_floating_point_v<T>;
  const bool unordered = real && (a != a || b != b);
  switch (C) {
    case Compare::eq:
      return a == b;
    case Compare::ne:
      return a != b && !unordered;
    case Compare::lt:
      return a < b;
    case Compare::le:
      return a <= b;
    case Compare::gt:
      return a > b;
    case Compare::ge:
      return a >= b;
    case Compare::equ:
      return unordered || a == b;
    case Compare::neu:
      return unordered || a != b;
    case Compare::ltu:
      return unordered || a < b;
    case Compare::leu:
      return unordered || a <= b;
    case Compare::gtu:
      return unordered || a > b;
    case Compare::geu:
      return unordered || a >= b;
    case Compare::num:
      return !unordered;
    case Compare::nan:
      return unordered;
  }
  return false;
}

template <Combine O>
bool combine(bool a, bool b) {
  switch (O) {
    case Combine::none:
      return a;
    case Combine::conjunction:
      return a && b;
    case Combine::disjunction:
      return a || b;
    case Combine::exclusive:
      return a != b;
  }
  return a;
}

// setp p|q, a, b, c: p combines the comparison with c, q its opposite.
template <Compare C, class T, bool Flush, Combine O>
const Instruction *run_setp(const Instruction *i, uint64_t *r, Machine &) {
  const bool is = compare<C, T>(input<T, Flush>(r[i->slot[2]]), input<T, Flush>(r[i->slot[3]]));
  const bool c = O != Combine::none && r[i->slot[4]] != 0;
  r[i->slot[1]] = combine<O>(!is, c);
  r[i->slot[0]] = combine<O>(is, c);
  return i + 1;
}

template <Compare C, class T, bool Flush, class D>
const Instruction *run_set(const Instruction *i, uint64_t *r, Machine &) {
  const bool is = compare<C, T>(input<T, Flush>(r[i->slot[1]]), input<T, Flush>(r[i->slot[2]]));
  const D yes = std::is_same_v<D, float> ? D(1) : D(-1);
  r[i->slot[0]] = put<D>(is ? yes : D(0));
  return i + 1;
}

// One comparison of one type: setp in its four combinations, set into three types.
template <Compare C, class T, bool Flush = false>
void add_comparison(Forms &f, const std::string &compare, char kind = 0) {
  const std::string t = type_name<T>(kind), flush = Flush ? ".ftz" : "", two = " " + t + " " + t;
  const std::string setp = "setp." + compare, end = flush + "." + t;
  f.add(setp + end, "=p|p" + two, &run_setp<C, T, Flush, Combine::none>);
  f.add(setp + ".and" + end, "=p|p" + two + " !p", &run_setp<C, T, Flush, Combine::conjunction>);
  f.add(setp + ".or" + end, "=p|p" + two + " !p", &run_setp<C, T, Flush, Combine::disjunction>);
  f.add(setp + ".xor" + end, "=p|p" + two + " !p", &run_setp<C, T, Flush, Combine::exclusive>);
  const std::string set = "set." + compare + flush + ".";
  f.add(set + "u32." + t, "=u32" + two, &run_set<C, T, Flush, uint32_t>);
  f.add(set + "s32." + t, "=s32" + two, &run_set<C, T, Flush, int32_t>);
  f.add(set + "f32." + t, "=f32" + two, &run_set<C, T, Flush, float>);
}

template <class T>
void add_ordered(Forms &f) {
  add_comparison<Compare::eq, T>(f, "eq");
  add_comparison<Compare::ne, T>(f, "ne");
  add_comparison<Compare::lt, T>(f, "lt");
  add_comparison<Compare::le, T>(f, "le");
  add_comparison<Compare::gt, T>(f, "gt");
  add_comparison<Compare::ge, T>(f, "ge");
}

template <class T>
void add_integer_comparisons(Forms &f) {
  using U = std::make_unsigned_t<T>;
  add_comparison<Compare::eq, U>(f, "eq", 'b');
  add_comparison<Compare::ne, U>(f, "ne", 'b');
  add_ordered<T>(f);
  add_ordered<U>(f);
  add_comparison<Compare::lt, U>(f, "lo");
  add_comparison<Compare::le, U>(f, "ls");
  add_comparison<Compare::gt, U>(f, "hi");
  add_comparison<Compare::ge, U>(f, "hs");
}

template <class T, bool Flush>
void add_float_comparisons(Forms &f) {
  add_comparison<Compare::eq, T, Flush>(f, "eq");
  add_comparison<Compare::ne, T, Flush>(f, "ne");
  add_comparison<Compare::lt, T, Flush>(f, "lt");
  add_comparison<Compare::le, T, Flush>(f, "le");
  add_comparison<Compare::gt, T, Flush>(f, "gt");
  add_comparison<Compare::ge, T, Flush>(f, "ge");
  add_comparison<Compare::equ, T, Flush>(f, "equ");
  add_comparison<Compare::neu, T, Flush>(f, "neu");
  add_comparison<Compare::ltu, T, Flush>(f, "ltu");
  add_comparison<Compare::leu, T, Flush>(f, "leu");
  add_comparison<Compare::gtu, T, Flush>(f, "gtu");
  add_comparison<Compare::geu, T, Flush>(f, "geu");
  add_comparison<Compare::num, T, Flush>(f, "num");
  add_comparison<Compare::nan, T, Flush>(f, "nan");
}

uint64_t select(uint64_t a, uint64_t b, bool c) { return c ? a : b; }

// slct d, a, b, c: a when c >= 0, else b; a NaN selects b.
template <class C, bool Flush>
const Instruction *run_slct(const Instruction *i, uint64_t *r, Machine &) {
  const bool first = input<C, Flush>(r[i->slot[3]]) >= 0;
  r[i->slot[0]] = r[i->slot[first ? 1 : 2]];
  return i + 1;
}

void add_selection(Forms &f, const std::string &t) {
  const std::string three = "=" + t + " " + t + " " + t;
  f.add("selp." + t, three + " p", &Lift<&select>::run);
  f.add("slct." + t + ".s32", three + " s32", &run_slct<int32_t, false>);
  f.add("slct." + t + ".f32", three + " f32", &run_slct<float, false>);
  f.add("slct.ftz." + t + ".f32", three + " f32", &run_slct<float, true>);
}

}  // namespace

void add_compare_forms(Forms &f) {
  add_integer_comparisons<int16_t>(f);
  add_integer_comparisons<int32_t>(f);
  add_integer_comparisons<int64_t>(f);
  add_float_comparisons<float, false>(f);
  add_float_comparisons<float, true>(f);
  add_float_comparisons<double, false>(f);
  for (const char *t :
       {"b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"})
    add_selection(f, t);
}

}  // namespace emulator
