// The one table of instruction forms: the parser decodes by it, its handlers execute, and
// vyre_emulator_forms() lists it for the tests that compare with silicon.
//
// A form is a name with all modifiers ("add.rn.f32") and a signature, one word an operand:
//   u32 s64 b16 f32 p   a source: register or immediate of that type; h16 is bf16
//   =u32                a destination; =p|p has an optional second one after a bar
//   =~u8 ~u8            an integer register that may be wider than the type
//   !p                  a predicate that the text may negate
//   2:b32 =4:f32        a vector in braces
//   []  [param]         a memory operand; a kernel parameter
//   #u32                an immediate
//   ?u32 ?p             an operand that may be absent (its slot reads as zero)
//   label               a branch target
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "values.h"

namespace emulator {

struct Type {
  char kind = 0;  // b u s f p, h for bf16
  uint8_t bits = 0;
  bool operator==(const Type &other) const { return kind == other.kind && bits == other.bits; }
};

struct OperandSpec {
  enum class Role : uint8_t { source, destination, address, parameter, label } role = Role::source;
  Type type;
  uint8_t vector = 0;  // elements, 0 for a scalar
  bool second = false, widening = false, negatable = false, immediate = false, optional = false;
};

// How control continues after an instruction.
enum class Flow : uint8_t { next, branch, end };

struct Form {
  std::string name;
  std::string signature;
  Handler run = nullptr;
  Handler widened[3] = {};  // for a widening destination: by register width 16, 32, 64
  int min_target = 0, min_version = 0;
  Flow flow = Flow::next;
  bool carry_in = false, carry_out = false;
  std::vector<OperandSpec> operands;
};

class Forms {
 public:
  Form &add(std::string name, std::string signature, Handler run);

  // A pure function of typed values; kind 'b' for instructions on untyped bits.
  template <auto F>
  Form &pure(std::string name, char kind = 0) {
    return add(std::move(name), Lift<F>::signature(kind), &Lift<F>::run);
  }

  // One form for each type T of Op<T>::apply.
  template <template <class> class Op, class... T>
  void each(const std::string &name, char kind = 0) {
    (pure<&Op<T>::apply>(name + "." + type_name<T>(kind), kind), ...);
  }

  // The forms of one name, nullptr when there is none.
  const std::vector<Form> *find(const std::string &name) const;
  bool has_opcode(const std::string &opcode) const { return opcodes_.count(opcode) != 0; }
  std::string listing() const;

 private:
  std::unordered_map<std::string, std::vector<Form>> forms_;
  std::unordered_map<std::string, bool> opcodes_;
};

const Forms &forms();

void add_integer_forms(Forms &);
void add_carry_forms(Forms &);
void add_bit_forms(Forms &);
void add_compare_forms(Forms &);
void add_float_forms(Forms &);
void add_convert_forms(Forms &);
void add_half_forms(Forms &);
void add_half_convert_forms(Forms &);
void add_move_forms(Forms &);
void add_memory_forms(Forms &);
void add_atomic_forms(Forms &);
void add_control_forms(Forms &);
void add_barrier_forms(Forms &);
void add_warp_forms(Forms &);

// Handlers that the parser emits by itself.
const Instruction *run_guard_true(const Instruction *, uint64_t *, Machine &);
const Instruction *run_guard_false(const Instruction *, uint64_t *, Machine &);
const Instruction *run_branch_if(const Instruction *, uint64_t *, Machine &);
const Instruction *run_branch_unless(const Instruction *, uint64_t *, Machine &);
const Instruction *run_look(const Instruction *, uint64_t *, Machine &);
const Instruction *run_fence_acquire(const Instruction *, uint64_t *, Machine &);
const Instruction *run_fence_release(const Instruction *, uint64_t *, Machine &);
const Instruction *run_exit(const Instruction *, uint64_t *, Machine &);
const Instruction *run_negate_predicate(const Instruction *, uint64_t *, Machine &);
const Instruction *run_clock(const Instruction *, uint64_t *, Machine &);

}  // namespace emulator

// One form a line: name, signature, least sm, with tabs between; sorted.
extern "C" __attribute__((visibility("default"))) const char *vyre_emulator_forms(void);
