// One kernel while it is parsed: names in nested scopes, operands, draft instructions with virtual
// registers. finish() turns the drafts into Code. All names are views into the text, which outlives
// the builder; nothing here recurses on the depth of the input, and memory is linear in its length.
#pragma once

#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/forms/forms.h"
#include "lexer.h"

namespace emulator {

struct SharedVariable {
  std::string_view name;
  uint64_t bytes = 0;
  uint64_t align = 1;
  bool dynamic = false; // extern, sized by the launch
  bool referenced = false; // only these take room
  uint64_t address = 0;
};

struct ModuleHeader {
  int version = 0;
  int target = 0;
  std::vector<SharedVariable> shared;
  std::shared_ptr<StaticVariables> variables = std::make_shared<StaticVariables>();
  bool sets_conditionals = false; // cudaGraphSetConditional is declared
  bool prints = false; // vprintf is declared
  RaceRequest races;
  UnwrittenRequest unwritten;
  std::shared_ptr<const std::string> text;
};

// What a draft's slot names until registers are allocated: the top two bits are the kind.
enum SlotKind : uint32_t { fixed_kind = 0, constant_kind = 1u << 30, register_kind = 2u << 30 };
constexpr uint32_t slot_kind_mask = 3u << 30;

struct Draft {
  Instruction instruction{};
  Flow flow = Flow::next;
  bool guarded = false;
  uint8_t definitions = 0, uses = 0; // bit k: operand slot k, six of them
  int32_t label = -1; // of a branch, into KernelBuilder::branches_
  Location location{};
  AccessForm access{};

  uint32_t &slot(int k) {
    return k < 5 ? instruction.slot[k] : reinterpret_cast<uint32_t &>(instruction.offset);
  }
};

struct Operand {
  enum class Kind : uint8_t {
    reg,
    special,
    clock,
    integer,
    single,
    real,
    shared,
    variable,
    parameter,
    label,
    sink,
    vector,
    address
  };
  Kind kind = Kind::label;
  bool negated = false;
  Token token;
  Type type;
  uint32_t slot = slot_sink; // reg, special; for clock the first bit taken
  uint32_t index = 0; // shared variable or parameter
  uint64_t integer = 0; // literal; bits of a 0f literal; address of a variable
  const char *space = ""; // of a variable: ".const", ".global" or ".local"
  double real = 0;
  int64_t offset = 0; // of an address or symbol
  std::vector<Operand> elements; // of a vector; the base of an address
  std::vector<Operand> second; // after a bar
};

// Registers that stay live, found by allocate(): slots and an estimate of machine registers.
struct Allocation {
  std::vector<uint32_t> slot; // by virtual register
  uint32_t slots = 0;
  uint32_t registers = 0;
};
Allocation allocate(std::vector<Draft> &drafts, const std::vector<Type> &registers);

class KernelBuilder {
 public:
  KernelBuilder(Lexer &lexer, ModuleHeader &module) : lexer_(lexer), module_(module) {}
  Kernel parse();

 private:
  struct Name {
    enum class Kind : uint8_t { reg, shared, parameter, argument, variable } kind;
    Type type;
    uint32_t index = 0;
    uint64_t address = 0; // of a variable
    const char *space = "";
  };
  struct RegisterRange {
    Type type;
    uint64_t count = 0;
  };
  struct Scope {
    int32_t parent = -1;
    std::unordered_map<std::string_view, Name> names;
    std::unordered_map<std::string_view, RegisterRange> ranges; // by prefix
    std::unordered_map<std::string_view, uint32_t> labels;
  };
  struct Branch {
    Token target;
    int32_t scope;
  };

  // text/kernel.cpp
  void parse_parameters();
  void parse_parameter();
  void parse_limits();
  std::array<uint32_t, 3> parse_three();
  void parse_body();
  void parse_directive();
  void parse_registers();
  void define(const Token &name, const Name &entry);
  void open_scope(const Token &brace);
  const Name *find(std::string_view name) const;
  bool find_range(std::string_view name, uint32_t *reg, Type *type);
  Code finish();
  void check_accesses(Code &code) const;
  void resolve_branches();
  void place_shared();

  // text/operands.cpp
  Operand parse_operand();
  Operand parse_scalar();
  Operand parse_address();
  Operand parse_vector();
  Operand resolve_word(const Token &token);
  int64_t parse_offset();
  uint32_t constant(uint64_t value);
  uint32_t shared_constant(uint32_t index, uint64_t offset);
  std::string mismatch(const Form &form, const std::vector<Operand> &operands) const;
  bool literal_bits(const Operand &operand, Type type, uint64_t *bits) const;
  std::string mismatch(const OperandSpec &spec, const Operand &operand, const Form &form) const;
  std::string mismatch_scalar(const OperandSpec &spec, const Operand &operand,
                              const Form &form) const;
  std::string mismatch_address(const OperandSpec &spec, const Operand &operand,
                               const Form &form) const;

  // text/call.cpp
  void parse_argument();
  void parse_local();
  void parse_store_argument(const Token &opcode);
  void parse_call(const Token &opcode);
  uint32_t expect_argument(uint8_t bits);

  // text/instruction.cpp
  struct Order {
    bool acquire = false, release = false;
    AccessForm access{}; // but for the slot of the address
  };
  void parse_instruction(const Token &opcode, const Operand *guard);
  Operand parse_guard();
  std::string normalize(const Token &opcode, Order *order) const;
  const Form &choose(const Token &opcode, const std::string &name,
                     const std::vector<Operand> &operands) const;
  void check_target(const Token &opcode, const Form &form) const;
  void emit(const Form &form, const std::vector<Operand> &operands, const Order &order,
            const Operand *guard, const Location &location);
  void fill(Draft &draft, const Form &form, const std::vector<Operand> &operands,
            std::vector<Draft> &before);
  uint32_t source_slot(const OperandSpec &spec, const Operand &operand, std::vector<Draft> &before);
  uint32_t new_register(Type type);

  Lexer &lexer_;
  ModuleHeader &module_;
  Kernel kernel_;
  std::vector<Scope> scopes_;
  std::vector<int32_t> open_; // indices of the open scopes, the innermost last
  std::vector<Type> registers_;
  std::map<std::pair<std::string_view, int32_t>, uint32_t> range_registers_;
  std::vector<Draft> drafts_;
  std::vector<Branch> branches_;
  std::vector<SharedVariable> shared_; // the module's, then the kernel's own
  uint64_t local_bytes_ = 0;
  std::vector<uint64_t> constants_;
  std::unordered_map<uint64_t, uint32_t> constant_index_;
  struct SharedConstant {
    uint32_t constant, variable;
  };
  std::vector<SharedConstant> shared_constants_;
};

// Both module and kernel may declare shared arrays: `.align N .type name[count]`.
SharedVariable parse_shared(Lexer &lexer, bool external);

// [.align N] .type name[count]
struct VariableHead {
  Token name;
  Type type;
  uint64_t align = 1, count = 1;
};
VariableHead parse_variable_head(Lexer &lexer);
// A function of another module: only cudaGraphSetConditional and vprintf exist.
void parse_external_function(Lexer &lexer, ModuleHeader &module);
// The type that a directive like `.u32` names; kind 0 if it names none.
Type parse_type(std::string_view directive);

} // namespace emulator
