// Loads and stores (PTX ISA 9.7.9.8, 9.7.9.11). Every access is a relaxed atomic one on the host,
// so kernels on parallel streams race as on a device, without undefined behavior here. Memory order
// is a fence that the parser puts beside the access.
#include <cstring>

#include "forms.h"
#include "memory.h"

namespace emulator {

uint8_t *resolve_global(const Instruction *i, Machine &m, uint64_t address, uint64_t size) {
  if (address % size != 0) {
    m.fault(i, Outcome::misaligned_address, address, "misaligned global address");
    return nullptr;
  }
  Range &own = m.cache[reinterpret_cast<uintptr_t>(i) / sizeof *i % Machine::ranges];
  for (const Range &range : m.cache) {
    const uint64_t inside = address - range.begin;
    if (inside < range.size && size <= range.size - inside) {
      own = range;
      return own.host + inside;
    }
  }
  uint64_t begin = 0, end = 0;
  auto *host = static_cast<uint8_t *>(m.memory->resolve(address, size, &begin, &end));
  if (host == nullptr) {
    host = find_static(m, address, size, false);
    if (host != nullptr) return host;
    m.fault(i, Outcome::illegal_address, address, m.memory->refusal(address));
    return nullptr;
  }
  own = Range{begin, end - begin, host - (address - begin)};
  return host;
}

uint8_t *find_static(Machine &m, uint64_t address, uint64_t size, bool constant) {
  for (const StaticVariable &variable : *m.code->variables) {
    const uint64_t inside = address - variable.address();
    if (variable.constant == constant && inside < variable.bytes.size() &&
        size <= variable.bytes.size() - inside)
      return const_cast<uint8_t *>(variable.bytes.data()) + inside;
  }
  return nullptr;
}

namespace {

#if defined(__SANITIZE_THREAD__)
#define VYC_SEES_NO_FENCE 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VYC_SEES_NO_FENCE 1
#endif
#endif
#ifdef VYC_SEES_NO_FENCE
// The thread sanitizer does not know what fences order.
constexpr int kLoad = __ATOMIC_ACQUIRE, kStore = __ATOMIC_RELEASE;
#else
constexpr int kLoad = __ATOMIC_RELAXED, kStore = __ATOMIC_RELAXED;
#endif

// The bits of T, extended to a register of type W.
template <class T, class W>
uint64_t extend(T value) {
  return put<W>(static_cast<W>(value));
}

template <class T, class W, class Space, int N>
const Instruction *run_load(const Instruction *i, uint64_t *r, Machine &m) {
  const uint64_t address = r[i->slot[N]] + static_cast<uint64_t>(int64_t{i->offset});
  const uint8_t *p = Space::at(i, m, address, sizeof(T) * N);
  if (p == nullptr) return nullptr;
  T values[N];
  for (int k = 0; k < N; ++k)
    values[k] = __atomic_load_n(reinterpret_cast<const T *>(p) + k, kLoad);
  for (int k = 0; k < N; ++k) r[i->slot[k]] = extend<T, W>(values[k]);
  return i + 1;
}

// The parser has checked that the parameter block holds [offset, offset + N * sizeof(T)).
template <class T, class W, int N>
const Instruction *run_load_parameter(const Instruction *i, uint64_t *r, Machine &m) {
  T values[N];
  std::memcpy(values, m.parameters + i->offset, sizeof values);
  for (int k = 0; k < N; ++k) r[i->slot[k]] = extend<T, W>(values[k]);
  return i + 1;
}

template <class T, class Space, int N>
const Instruction *run_store(const Instruction *i, uint64_t *r, Machine &m) {
  const uint64_t address = r[i->slot[0]] + static_cast<uint64_t>(int64_t{i->offset});
  uint8_t *p = Space::at(i, m, address, sizeof(T) * N);
  if (p == nullptr) return nullptr;
  if constexpr (!std::is_same_v<Space, Local>) ++m.changes;
  for (int k = 0; k < N; ++k)
    __atomic_store_n(reinterpret_cast<T *>(p) + k, static_cast<T>(r[i->slot[k + 1]]), kStore);
  return i + 1;
}

std::string vector_name(int n) { return n == 1 ? "" : ".v" + std::to_string(n); }
std::string vector_mark(int n) { return n == 1 ? "" : std::to_string(n) + ":"; }

template <class T, class Space, int N>
void add_load(Forms &f, const std::string &space, const std::string &type) {
  const std::string mark = vector_mark(N) + (type[0] == 'f' ? "" : "~") + type;
  Form &load = f.add("ld" + space + vector_name(N) + "." + type, "=" + mark + " []", nullptr);
  if constexpr (sizeof(T) <= 2) load.widened[0] = &run_load<T, Register<T, 16>, Space, N>;
  if constexpr (sizeof(T) <= 4) load.widened[1] = &run_load<T, Register<T, 32>, Space, N>;
  load.widened[2] = &run_load<T, Register<T, 64>, Space, N>;
}

template <class T, class Space, int N>
void add_access(Forms &f, const std::string &space, const std::string &type) {
  const std::string mark = vector_mark(N) + (type[0] == 'f' ? "" : "~") + type;
  add_load<T, Space, N>(f, space, type);
  f.add("st" + space + vector_name(N) + "." + type, "[] " + mark, &run_store<T, Space, N>);
}

template <class T, int N>
void add_size(Forms &f, const std::string &type) {
  add_access<T, Global, N>(f, ".global", type);
  add_access<T, Shared, N>(f, ".shared", type);
  add_access<T, Generic, N>(f, "", type);
  if constexpr (N == 1) {
    add_access<T, Local, N>(f, ".local", type);
    add_load<T, Constant, N>(f, ".const", type);
  }
  const std::string mark = vector_mark(N) + (type[0] == 'f' ? "" : "~") + type;
  Form &load = f.add("ld.param" + vector_name(N) + "." + type, "=" + mark + " [param]", nullptr);
  if constexpr (sizeof(T) <= 2) load.widened[0] = &run_load_parameter<T, Register<T, 16>, N>;
  if constexpr (sizeof(T) <= 4) load.widened[1] = &run_load_parameter<T, Register<T, 32>, N>;
  load.widened[2] = &run_load_parameter<T, Register<T, 64>, N>;
}

template <class T>
void add_type(Forms &f, const std::string &type) {
  add_size<T, 1>(f, type);
  add_size<T, 2>(f, type);
  if constexpr (sizeof(T) <= 4) add_size<T, 4>(f, type);
}

} // namespace

void add_memory_forms(Forms &f) {
  for (const char *kind : {"b", "u"}) {
    add_type<uint8_t>(f, kind + std::string("8"));
    add_type<uint16_t>(f, kind + std::string("16"));
    add_type<uint32_t>(f, kind + std::string("32"));
    add_type<uint64_t>(f, kind + std::string("64"));
  }
  add_type<int8_t>(f, "s8");
  add_type<int16_t>(f, "s16");
  add_type<int32_t>(f, "s32");
  add_type<int64_t>(f, "s64");
  add_type<uint32_t>(f, "f32");
  add_type<uint64_t>(f, "f64");
}

} // namespace emulator
