// Moves (PTX ISA 9.7.9.1 mov, 9.7.9.5 pack and unpack), address conversion and clocks. Symbol
// addresses and special registers reach mov as slots, so that they cost what a register costs.
#include <chrono>

#include "forms.h"

namespace emulator {
namespace {

const Instruction *run_move(const Instruction *i, uint64_t *r, Machine &) {
  r[i->slot[0]] = r[i->slot[1]];
  return i + 1;
}

const Instruction *run_move_predicate(const Instruction *i, uint64_t *r, Machine &) {
  r[i->slot[0]] = r[i->slot[1]] != 0;
  return i + 1;
}

// {low, ...} to one register.
template <int Parts, int Bits>
const Instruction *run_pack(const Instruction *i, uint64_t *r, Machine &) {
  uint64_t value = 0;
  for (int k = 0; k < Parts; ++k) value |= r[i->slot[k + 1]] << (k * Bits);
  r[i->slot[0]] = value;
  return i + 1;
}

template <int Parts, int Bits>
const Instruction *run_unpack(const Instruction *i, uint64_t *r, Machine &) {
  const uint64_t value = r[i->slot[Parts]];
  for (int k = 0; k < Parts; ++k) r[i->slot[k]] = value >> (k * Bits) & ((uint64_t{1} << Bits) - 1);
  return i + 1;
}

uint64_t shared_to_generic(uint64_t a) { return shared_window + static_cast<uint32_t>(a); }
uint64_t local_to_generic(uint64_t a) { return local_window + a; }
uint64_t generic_to_shared(uint64_t a) { return a - shared_window; }
uint64_t same_address(uint64_t a) { return a; }
bool is_shared(uint64_t a) { return in_shared_window(a); }
bool is_global(uint64_t a) { return !in_shared_window(a); }

uint64_t nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// prefetch.global.L2 and the like: hints.
const Instruction *run_nothing(const Instruction *i, uint64_t *, Machine &) { return i + 1; }

}  // namespace

// Reads a clock of nanoseconds: `offset` is the first bit taken, slot 1 the slot of a mask.
const Instruction *run_clock(const Instruction *i, uint64_t *r, Machine &) {
  r[i->slot[0]] = nanoseconds() >> i->offset & r[i->slot[1]];
  return i + 1;
}

void add_move_forms(Forms &f) {
  for (const char *t :
       {"b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"})
    f.add(std::string("mov.") + t, std::string("=") + t + " " + t, &run_move);
  f.add("mov.pred", "=p !p", &run_move_predicate);
  f.add("mov.b32", "=b32 2:b16", &run_pack<2, 16>);
  f.add("mov.b64", "=b64 2:b32", &run_pack<2, 32>);
  f.add("mov.b64", "=b64 4:b16", &run_pack<4, 16>);
  f.add("mov.b32", "=2:b16 b32", &run_unpack<2, 16>);
  f.add("mov.b64", "=2:b32 b64", &run_unpack<2, 32>);
  f.add("mov.b64", "=4:b16 b64", &run_unpack<4, 16>);
  f.pure<&same_address>("cvta.global.u64");
  f.pure<&same_address>("cvta.to.global.u64");
  f.pure<&shared_to_generic>("cvta.shared.u64");
  f.pure<&generic_to_shared>("cvta.to.shared.u64");
  f.pure<&local_to_generic>("cvta.local.u64");
  f.add("isspacep.shared", "=p u64", &Lift<&is_shared>::run);
  f.add("isspacep.global", "=p u64", &Lift<&is_global>::run);
  for (const char *level : {".L1", ".L2"}) {
    f.add(std::string("prefetch.global") + level, "[]", &run_nothing);
    f.add(std::string("prefetch") + level, "[]", &run_nothing);
  }
}

}  // namespace emulator
