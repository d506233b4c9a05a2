// Comparison and selection (PTX ISA 9.7.6): setp, set, selp, slct.
#include "forms.h"
#include "half.h"

namespace emulator {
namespace {

enum class Compare { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };
enum class Combine { none, conjunction, disjunction, exclusive };

template <class T, bool Flush>
auto input(uint64_t slot) {
  if constexpr (is_half<T>)
    return to_double(Flush ? flush_half(get<T>(slot)) : get<T>(slot));
  else if constexpr (Flush)
    return flush(get<T>(slot));
  else
    return get<T>(slot);
}

template <Compare C, class T>
bool compare(T a, T b) {
  constexpr bool real = std::is_floating_point_v<T>;
  const bool unordered = real && (a != a || b != b);
  switch (C) {
  case Compare::eq: return a == b;
  case Compare::ne: return a != b && !unordered;
  case Compare::lt: return a < b;
  case Compare::le: return a <= b;
  case Compare::gt: return a > b;
  case Compare::ge: return a >= b;
  case Compare::equ: return unordered || a == b;
  case Compare::neu: return unordered || a != b;
  case Compare::ltu: return unordered || a < b;
  case Compare::leu: return unordered || a <= b;
  case Compare::gtu: return unordered || a > b;
  case Compare::geu: return unordered || a >= b;
  case Compare::num: return !unordered;
  case Compare::nan: return unordered;
  }
  return false;
}

template <Combine O>
bool combine(bool a, bool b) {
  switch (O) {
  case Combine::none: return a;
  case Combine::conjunction: return a && b;
  case Combine::disjunction: return a || b;
  case Combine::exclusive: return a != b;
  }
  return a;
}

// setp p|q, a, b, c: p combines the comparison with c, q its opposite. Halves have no q.
template <Compare C, class T, bool Flush, Combine O>
const Instruction *run_setp(const Instruction *i, uint64_t *r, Machine &) {
  const uint32_t *in = i->slot + (is_half<T> ? 1 : 2);
  const bool is = compare<C>(input<T, Flush>(r[in[0]]), input<T, Flush>(r[in[1]]));
  const bool c = O != Combine::none && r[in[2]] != 0;
  if (!is_half<T>) r[i->slot[1]] = combine<O>(!is, c);
  r[i->slot[0]] = combine<O>(is, c);
  return i + 1;
}

template <Compare C, class T, bool Flush, class D>
const Instruction *run_set(const Instruction *i, uint64_t *r, Machine &) {
  const bool is = compare<C>(input<T, Flush>(r[i->slot[1]]), input<T, Flush>(r[i->slot[2]]));
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

template <Compare C, class T, bool Flush>
void add_half_comparison(Forms &f, const std::string &compare) {
  const bool bfloat = std::is_same_v<T, Bfloat>;
  const std::string two = "=p " + type_name<T>() + " " + type_name<T>();
  const std::string setp = "setp." + compare,
                    end = bfloat ? ".bf16" : std::string(Flush ? ".ftz" : "") + ".f16";
  for (Form *form :
       {&f.add(setp + end, two, &run_setp<C, T, Flush, Combine::none>),
        &f.add(setp + ".and" + end, two + " !p", &run_setp<C, T, Flush, Combine::conjunction>),
        &f.add(setp + ".or" + end, two + " !p", &run_setp<C, T, Flush, Combine::disjunction>),
        &f.add(setp + ".xor" + end, two + " !p", &run_setp<C, T, Flush, Combine::exclusive>)}) {
    form->min_target = bfloat ? 90 : 0;
    form->min_version = bfloat ? 78 : 0;
  }
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

template <Compare C, class T, bool Flush>
void add_real(Forms &f, const std::string &compare) {
  if constexpr (is_half<T>)
    add_half_comparison<C, T, Flush>(f, compare);
  else
    add_comparison<C, T, Flush>(f, compare);
}

template <class T, bool Flush>
void add_float_comparisons(Forms &f) {
  add_real<Compare::eq, T, Flush>(f, "eq");
  add_real<Compare::ne, T, Flush>(f, "ne");
  add_real<Compare::lt, T, Flush>(f, "lt");
  add_real<Compare::le, T, Flush>(f, "le");
  add_real<Compare::gt, T, Flush>(f, "gt");
  add_real<Compare::ge, T, Flush>(f, "ge");
  add_real<Compare::equ, T, Flush>(f, "equ");
  add_real<Compare::neu, T, Flush>(f, "neu");
  add_real<Compare::ltu, T, Flush>(f, "ltu");
  add_real<Compare::leu, T, Flush>(f, "leu");
  add_real<Compare::gtu, T, Flush>(f, "gtu");
  add_real<Compare::geu, T, Flush>(f, "geu");
  add_real<Compare::num, T, Flush>(f, "num");
  add_real<Compare::nan, T, Flush>(f, "nan");
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
  add_float_comparisons<Half, false>(f);
  add_float_comparisons<Half, true>(f);
  add_float_comparisons<Bfloat, false>(f);
  for (const char *t :
       {"b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"})
    add_selection(f, t);
}

}  // namespace emulator
