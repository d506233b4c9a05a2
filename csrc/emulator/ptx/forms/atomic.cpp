// Atomic operations (PTX ISA 9.7.12.4 atom, 9.7.12.5 red) on global, shared and generic addresses,
// each one atomic operation on the host, sequentially consistent: never weaker than the text asks.
// f32 add on global memory flushes subnormal inputs and results to zero of the same sign; on shared
// memory it does not.
#include "float.h"
#include "forms.h"
#include "memory.h"

namespace emulator {
namespace {

template <class T>
struct Add {
  static T apply(T a, T b, bool) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(U(a) + U(b));
  }
};
template <>
struct Add<float> {
  static float apply(float a, float b, bool global) {
    float value = global ? flush(flush(a) + flush(b)) : a + b;
    return value != value ? canonical_nan<float>() : value;
  }
};
template <>
struct Add<double> {
  static double apply(double a, double b, bool) {
    const double value = a + b;
    return value != value ? canonical_nan<double>() : value;
  }
};
template <class T>
struct Min {
  static T apply(T a, T b, bool) { return b < a ? b : a; }
};
template <class T>
struct Max {
  static T apply(T a, T b, bool) { return a < b ? b : a; }
};
template <class T>
struct And {
  static T apply(T a, T b, bool) { return a & b; }
};
template <class T>
struct Or {
  static T apply(T a, T b, bool) { return a | b; }
};
template <class T>
struct Xor {
  static T apply(T a, T b, bool) { return a ^ b; }
};
template <class T>
struct Exchange {
  static T apply(T, T b, bool) { return b; }
};
template <class T>
struct Increment {
  static T apply(T a, T b, bool) { return a >= b ? 0 : a + 1; }
};
template <class T>
struct Decrement {
  static T apply(T a, T b, bool) { return a == 0 || a > b ? b : a - 1; }
};

template <size_t Bytes>
using Bits =
    std::conditional_t<Bytes == 8, uint64_t, std::conditional_t<Bytes == 4, uint32_t, uint16_t>>;

template <class Space>
bool is_global(uint64_t address) {
  return std::is_same_v<Space, Global> ||
         (std::is_same_v<Space, Generic> && !in_shared_window(address));
}

// atom: slots d, address, value; red: address, value.
template <template <class> class Op, class T, class Space, bool Result>
const Instruction *run_update(const Instruction *i, uint64_t *r, Machine &m) {
  using U = Bits<sizeof(T)>;
  const uint32_t *slot = i->slot + (Result ? 1 : 0);
  const uint64_t address = r[slot[0]] + static_cast<uint64_t>(int64_t{i->offset});
  auto *p = reinterpret_cast<U *>(Space::at(i, m, address, sizeof(T)));
  if (p == nullptr) return nullptr;
  const T operand = get<T>(r[slot[1]]);
  U old = __atomic_load_n(p, __ATOMIC_RELAXED), wanted;
  do {
    wanted = static_cast<U>(put<T>(Op<T>::apply(get<T>(old), operand, is_global<Space>(address))));
  } while (!__atomic_compare_exchange_n(p, &old, wanted, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  ++m.changes;
  if (Result) r[i->slot[0]] = old;
  return i + 1;
}

// atom.cas d, [a], b, c: c replaces the word where it equals b.
template <class T, class Space>
const Instruction *run_compare_exchange(const Instruction *i, uint64_t *r, Machine &m) {
  const uint64_t address = r[i->slot[1]] + static_cast<uint64_t>(int64_t{i->offset});
  auto *p = reinterpret_cast<T *>(Space::at(i, m, address, sizeof(T)));
  if (p == nullptr) return nullptr;
  T expected = static_cast<T>(r[i->slot[2]]);
  if (__atomic_compare_exchange_n(p, &expected, static_cast<T>(r[i->slot[3]]), false,
                                  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    ++m.changes;
  r[i->slot[0]] = expected;
  return i + 1;
}

template <template <class> class Op, class T, class Space>
void add_update(Forms &f, const std::string &space, const std::string &op, char kind, bool red) {
  const std::string t = type_name<T>(kind);
  f.add("atom" + space + op + "." + t, "=" + t + " [] " + t, &run_update<Op, T, Space, true>);
  if (red) f.add("red" + space + op + "." + t, "[] " + t, &run_update<Op, T, Space, false>);
}

template <class T, class Space>
void add_ordered(Forms &f, const std::string &space) {
  add_update<Min, T, Space>(f, space, ".min", 0, true);
  add_update<Max, T, Space>(f, space, ".max", 0, true);
}

template <class T, class Space>
void add_bits(Forms &f, const std::string &space) {
  add_update<And, T, Space>(f, space, ".and", 'b', true);
  add_update<Or, T, Space>(f, space, ".or", 'b', true);
  add_update<Xor, T, Space>(f, space, ".xor", 'b', true);
  add_update<Exchange, T, Space>(f, space, ".exch", 'b', false);
  const std::string t = type_name<T>('b');
  f.add("atom" + space + ".cas." + t, "=" + t + " [] " + t + " " + t,
        &run_compare_exchange<T, Space>);
}

template <class Space>
void add_space(Forms &f, const std::string &space) {
  add_update<Add, uint32_t, Space>(f, space, ".add", 0, true);
  add_update<Add, int32_t, Space>(f, space, ".add", 0, true);
  add_update<Add, uint64_t, Space>(f, space, ".add", 0, true);
  add_update<Add, float, Space>(f, space, ".add", 0, true);
  add_update<Add, double, Space>(f, space, ".add", 0, true);
  add_update<Increment, uint32_t, Space>(f, space, ".inc", 0, true);
  add_update<Decrement, uint32_t, Space>(f, space, ".dec", 0, true);
  add_ordered<uint32_t, Space>(f, space);
  add_ordered<int32_t, Space>(f, space);
  add_ordered<uint64_t, Space>(f, space);
  add_ordered<int64_t, Space>(f, space);
  add_bits<uint32_t, Space>(f, space);
  add_bits<uint64_t, Space>(f, space);
  f.add("atom" + space + ".cas.b16", "=b16 [] b16 b16", &run_compare_exchange<uint16_t, Space>);
}

} // namespace

void add_atomic_forms(Forms &f) {
  add_space<Global>(f, ".global");
  add_space<Shared>(f, ".shared");
  add_space<Generic>(f, "");
}

} // namespace emulator
