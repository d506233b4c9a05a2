// Operands of PTX instructions (PTX ISA 6): parsing them, and whether one fits a form's operand.
// Types agree as ptxas demands: equal width; untyped bits fit every type of that width; signed and
// unsigned are one; only operands marked as widening take larger registers.
#include <cmath>
#include <cstring>

#include "kernel.h"

namespace emulator {
namespace {

struct SpecialName {
  const char *name;
  uint32_t slot;
};

constexpr SpecialName special_names[] = {{"%tid.x", slot_tid},
                                         {"%tid.y", slot_tid + 1},
                                         {"%tid.z", slot_tid + 2},
                                         {"%ntid.x", slot_ntid},
                                         {"%ntid.y", slot_ntid + 1},
                                         {"%ntid.z", slot_ntid + 2},
                                         {"%ctaid.x", slot_ctaid},
                                         {"%ctaid.y", slot_ctaid + 1},
                                         {"%ctaid.z", slot_ctaid + 2},
                                         {"%nctaid.x", slot_nctaid},
                                         {"%nctaid.y", slot_nctaid + 1},
                                         {"%nctaid.z", slot_nctaid + 2},
                                         {"%laneid", slot_laneid},
                                         {"%warpid", slot_warpid},
                                         {"%nwarpid", slot_nwarpid},
                                         {"%smid", slot_smid},
                                         {"%nsmid", slot_nsmid},
                                         {"%lanemask_eq", slot_lanemask_eq},
                                         {"%lanemask_le", slot_lanemask_le},
                                         {"%lanemask_lt", slot_lanemask_lt},
                                         {"%lanemask_ge", slot_lanemask_ge},
                                         {"%lanemask_gt", slot_lanemask_gt},
                                         {"%dynamic_smem_size", slot_dynamic_shared},
                                         {"%total_smem_size", slot_total_shared}};

// Clocks are read when mov runs: width of the value and its first bit.
struct ClockName {
  const char *name;
  uint8_t bits;
  uint32_t first;
};
constexpr ClockName clock_names[] = {{"%clock", 32, 0},          {"%clock_hi", 32, 32},
                                     {"%clock64", 64, 0},        {"%globaltimer", 64, 0},
                                     {"%globaltimer_lo", 32, 0}, {"%globaltimer_hi", 32, 32}};

std::string type_text(Type type) {
  if (type.kind == 'p') return ".pred";
  if (type.kind == 'h') return ".bf16";
  return std::string(".") + type.kind + std::to_string(type.bits);
}

bool compatible(const OperandSpec &spec, Type reg) {
  if (spec.type.kind == 'p' || reg.kind == 'p') return spec.type.kind == reg.kind;
  if (spec.type.kind == 'h') return reg.kind == 'b' && reg.bits == 16;
  if (reg.bits != spec.type.bits)
    return spec.widening && reg.bits > spec.type.bits && reg.kind != 'f';
  if (spec.type.kind == 'b' || reg.kind == 'b') return true;
  return (spec.type.kind == 'f') == (reg.kind == 'f');
}

}  // namespace

Operand KernelBuilder::resolve_word(const Token &token) {
  Operand operand;
  operand.token = token;
  if (token.text == "_") {
    operand.kind = Operand::Kind::sink;
    return operand;
  }
  uint32_t reg = 0;
  if (const Name *name = find(token.text)) {
    operand.type = name->type;
    operand.index = name->index;
    operand.kind = name->kind == Name::Kind::reg        ? Operand::Kind::reg
                   : name->kind == Name::Kind::shared   ? Operand::Kind::shared
                   : name->kind == Name::Kind::variable ? Operand::Kind::variable
                                                        : Operand::Kind::parameter;
    operand.integer = name->address;
    operand.space = name->space;
    if (name->kind == Name::Kind::argument)
      Lexer::fail(token, shown(token) + " can only be stored to and passed to a function");
    operand.slot = register_kind | name->index;
  } else if (find_range(token.text, &reg, &operand.type)) {
    operand.kind = Operand::Kind::reg;
    operand.slot = register_kind | reg;
  } else if (token.text[0] == '%') {
    for (const SpecialName &special : special_names) {
      if (token.text != special.name) continue;
      operand.kind = Operand::Kind::special;
      operand.type = Type{'u', 32};
      operand.slot = special.slot;
      return operand;
    }
    for (const ClockName &clock : clock_names) {
      if (token.text != clock.name) continue;
      operand.kind = Operand::Kind::clock;
      operand.type = Type{'u', clock.bits};
      operand.slot = clock.first;
      return operand;
    }
    Lexer::fail(token, "unknown register " + shown(token));
  }
  return operand;  // a label, perhaps one further down
}

// +bytes or +-bytes; ptxas takes no bare minus here.
int64_t KernelBuilder::parse_offset() {
  int64_t offset = 0;
  while (lexer_.accept("+")) {
    const bool negative = lexer_.accept("-");
    const Token token = lexer_.peek();
    const uint64_t value = lexer_.expect_integer("a byte offset");
    if (value > INT32_MAX) Lexer::fail(token, "address offset beyond 32 bits");
    offset += negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
    if (offset > INT32_MAX || offset < INT32_MIN)
      Lexer::fail(token, "address offset beyond 32 bits");
  }
  return offset;
}

Operand KernelBuilder::parse_scalar() {
  Operand operand;
  operand.token = lexer_.peek();
  if (lexer_.accept("!")) {
    operand = resolve_word(lexer_.expect(Token::Kind::word, "a predicate"));
    operand.negated = true;
    return operand;
  }
  const bool negative = lexer_.accept("-");
  const Token token = lexer_.next();
  switch (token.kind) {
  case Token::Kind::word:
    if (negative) Lexer::fail(token, "'-' before a name");
    return resolve_word(token);
  case Token::Kind::integer:
    operand.kind = Operand::Kind::integer;
    operand.integer = negative ? 0 - token.integer : token.integer;
    return operand;
  case Token::Kind::single:
    operand.kind = Operand::Kind::single;
    operand.integer = token.integer ^ (negative ? 0x80000000u : 0u);
    return operand;
  case Token::Kind::real:
    operand.kind = Operand::Kind::real;
    operand.real = negative ? -token.real : token.real;
    return operand;
  default: Lexer::fail(token, "expected an operand, met " + shown(token));
  }
}

Operand KernelBuilder::parse_address() {
  Operand operand;
  operand.kind = Operand::Kind::address;
  operand.token = lexer_.expect("[");
  operand.elements.push_back(
      resolve_word(lexer_.expect(Token::Kind::word, "a register or symbol")));
  operand.offset = parse_offset();
  lexer_.expect("]");
  return operand;
}

Operand KernelBuilder::parse_vector() {
  Operand operand;
  operand.kind = Operand::Kind::vector;
  operand.token = lexer_.expect("{");
  do {
    if (operand.elements.size() == 4)
      Lexer::fail(operand.token, "vector of more than four elements");
    operand.elements.push_back(parse_scalar());
  } while (lexer_.accept(","));
  lexer_.expect("}");
  return operand;
}

Operand KernelBuilder::parse_operand() {
  if (lexer_.at("[")) return parse_address();
  if (lexer_.at("{")) return parse_vector();
  Operand operand = parse_scalar();
  if (operand.kind == Operand::Kind::shared || operand.kind == Operand::Kind::variable)
    operand.offset = parse_offset();
  if (lexer_.accept("|")) operand.second.push_back(parse_scalar());
  return operand;
}

uint32_t KernelBuilder::constant(uint64_t value) {
  const auto [at, fresh] = constant_index_.emplace(value, static_cast<uint32_t>(constants_.size()));
  if (fresh) constants_.push_back(value);
  return constant_kind | at->second;
}

// Addresses of shared variables are known when the kernel is complete.
uint32_t KernelBuilder::shared_constant(uint32_t index, uint64_t offset) {
  shared_[index].referenced = true;
  const auto at = static_cast<uint32_t>(constants_.size());
  shared_constants_.push_back({at, index});
  constants_.push_back(offset);
  return constant_kind | at;
}

// The slot value of a literal for an operand type.
bool KernelBuilder::literal_bits(const Operand &operand, Type type, uint64_t *bits) const {
  if (type.kind == 'h' || (type.kind == 'f' && type.bits == 16)) return false;
  const uint64_t mask = type.bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << type.bits) - 1;
  switch (operand.kind) {
  case Operand::Kind::integer:
    if (type.kind == 'f') return false;
    *bits = type.kind == 'p' ? operand.integer != 0 : operand.integer & mask;
    return true;
  case Operand::Kind::single:
    if (type.bits == 32 && (type.kind == 'f' || type.kind == 'b')) {
      *bits = operand.integer;
      return true;
    }
    if (type.kind != 'f') return false;
    *bits = put<double>(get<float>(operand.integer));
    return true;
  case Operand::Kind::real:
    if (type.kind != 'f' && !(type.kind == 'b' && type.bits == 64)) return false;
    *bits =
        type.bits == 32 ? put<float>(static_cast<float>(operand.real)) : put<double>(operand.real);
    return true;
  default: return false;
  }
}

std::string KernelBuilder::mismatch_address(const OperandSpec &spec, const Operand &operand,
                                            const Form &form) const {
  if (operand.kind != Operand::Kind::address)
    return "needs an address in brackets, met " + shown(operand.token);
  const Operand &base = operand.elements[0];
  if (spec.role == OperandSpec::Role::parameter) {
    if (base.kind != Operand::Kind::parameter)
      return "reads parameters, and " + shown(base.token) + " is not one";
    const OperandSpec &result = form.operands[0];
    const int64_t bytes = result.type.bits / 8 * (result.vector ? result.vector : 1);
    if (operand.offset < 0 || operand.offset + bytes > kernel_.parameters[base.index].size)
      return "reads outside parameter " + shown(base.token);
    return "";
  }
  const bool shared = form.name.find(".shared") != std::string::npos;
  if (base.kind == Operand::Kind::shared)
    return shared ? "" : "takes no address of shared memory, met " + shown(base.token);
  if (base.kind == Operand::Kind::variable)
    return form.name.find(base.space) != std::string::npos
               ? ""
               : "takes no address of " + std::string(base.space).substr(1) + " memory, met " +
                     shown(base.token);
  if (base.kind != Operand::Kind::reg)
    return "unknown symbol " + shown(base.token) + " as an address";
  if (base.type.kind == 'f' || base.type.kind == 'p' ||
      (base.type.bits != 64 && !(shared && base.type.bits == 32)))
    return "takes no address in a " + type_text(base.type) + " register";
  return "";
}

std::string KernelBuilder::mismatch_scalar(const OperandSpec &spec, const Operand &operand,
                                           const Form &form) const {
  using Kind = Operand::Kind;
  const std::string met = "met " + shown(operand.token);
  const bool target = spec.role == OperandSpec::Role::destination;
  uint64_t bits = 0;
  if (operand.negated && !(spec.negatable && operand.kind == Kind::reg)) return "takes no '!' here";
  const bool move = form.name.compare(0, 4, "mov.") == 0;
  switch (operand.kind) {
  case Kind::sink:
    return target && (spec.second || spec.vector) ? "" : "cannot discard a result here";
  case Kind::reg:
    if (spec.immediate) return "needs an immediate, " + met;
    return compatible(spec, operand.type)
               ? ""
               : "takes " + type_text(spec.type) + ", " + shown(operand.token) + " is " +
                     type_text(operand.type);
  case Kind::special:
  case Kind::clock:
    if (target || !move) return "takes no special register, " + met;
    return spec.type.kind != 'f' && spec.type.bits == operand.type.bits
               ? ""
               : "has another width than " + shown(operand.token);
  case Kind::variable:
    return move && !target && !spec.vector && spec.type.kind != 'f' && spec.type.bits == 64
               ? ""
               : "takes no symbol, " + met;
  case Kind::shared:
    return move && !target && !spec.vector && spec.type.kind != 'f' && spec.type.bits >= 32
               ? ""
               : "takes no symbol, " + met;
  case Kind::integer:
  case Kind::single:
  case Kind::real:
    if (target) return "writes a register, " + met;
    return literal_bits(operand, spec.type, &bits) ? ""
                                                   : "takes " + type_text(spec.type) + ", " + met;
  case Kind::label: return "unknown symbol " + shown(operand.token);
  default: return "takes no such operand, " + met;
  }
}

std::string KernelBuilder::mismatch(const OperandSpec &spec, const Operand &operand,
                                    const Form &form) const {
  using Role = OperandSpec::Role;
  if (!operand.second.empty() && !spec.second) return "has no second result";
  if (spec.role == Role::address || spec.role == Role::parameter)
    return mismatch_address(spec, operand, form);
  if (spec.role == Role::label)
    return operand.kind == Operand::Kind::label ? "" : "needs a label, met " + shown(operand.token);
  if (spec.vector == 0 && operand.kind != Operand::Kind::vector) {
    if (const std::string why = mismatch_scalar(spec, operand, form); !why.empty()) return why;
    OperandSpec predicate = spec;
    predicate.type = Type{'p', 1};
    return operand.second.empty() ? "" : mismatch_scalar(predicate, operand.second[0], form);
  }
  if (operand.kind != Operand::Kind::vector || operand.elements.size() != spec.vector)
    return spec.vector ? "needs a vector of " + std::to_string(spec.vector) : "takes no vector";
  uint8_t width = 0;
  for (const Operand &element : operand.elements) {
    if (const std::string why = mismatch_scalar(spec, element, form); !why.empty()) return why;
    if (element.kind != Operand::Kind::reg) continue;
    if (width != 0 && element.type.bits != width) return "needs elements of one width";
    width = element.type.bits;
  }
  return "";
}

std::string KernelBuilder::mismatch(const Form &form, const std::vector<Operand> &operands) const {
  size_t least = 0;
  for (const OperandSpec &spec : form.operands) least += spec.optional ? 0 : 1;
  if (operands.size() < least || operands.size() > form.operands.size())
    return "takes " + std::to_string(least) + (least == 1 ? " operand, met " : " operands, met ") +
           std::to_string(operands.size());
  for (size_t k = 0; k < operands.size(); ++k)
    if (const std::string why = mismatch(form.operands[k], operands[k], form); !why.empty())
      return "operand " + std::to_string(k + 1) + ": " + why;
  return "";
}

}  // namespace emulator
