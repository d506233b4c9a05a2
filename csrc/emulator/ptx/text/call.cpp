// Calls (PTX ISA 5.1.6.1, 9.7.13.5) of the functions that a driver supplies to kernels:
// cudaGraphSetConditional and vprintf. Their arguments are .param variables of the block that holds
// the call; here each is a register, which st.param writes and the call reads.
#include "emulator/ptx/machine/print.h"
#include "kernel.h"

namespace emulator {
namespace {

constexpr std::string_view set_conditional_name = "cudaGraphSetConditional";
constexpr std::string_view print_name = "vprintf";

const Instruction *run_set_conditional(const Instruction *i, uint64_t *r, Machine &m) {
  const uint64_t handle = r[i->slot[0]];
  if (m.conditionals == nullptr || !m.conditionals->set(handle, get<uint32_t>(r[i->slot[1]])))
    return m.fault(i, Outcome::illegal_address, handle, "not a conditional of the running graph");
  return i + 1;
}

// .param .b64 name
void parse_formal(Lexer &lexer, std::string_view function, uint8_t bits) {
  lexer.expect(".param");
  const Token token = lexer.expect(Token::Kind::directive, "a type");
  const Type type = parse_type(token.text);
  if (type.bits != bits || (type.kind != 'b' && type.kind != 'u'))
    Lexer::fail(token, "not the type that " + std::string(function) + " has");
  lexer.expect(Token::Kind::word, "the parameter's name");
}

} // namespace

// [(.param .b32 name)] name (.param .b64 name, ...);
void parse_external_function(Lexer &lexer, ModuleHeader &module) {
  const bool returns = lexer.accept("(");
  if (returns) {
    parse_formal(lexer, print_name, 32);
    lexer.expect(")");
  }
  const Token name = lexer.expect(Token::Kind::word, "the function's name");
  if (name.text != (returns ? print_name : set_conditional_name))
    Lexer::fail(name, "unresolved external function " + shown(name));
  lexer.expect("(");
  parse_formal(lexer, name.text, 64);
  lexer.expect(",");
  parse_formal(lexer, name.text, returns ? 64 : 32);
  lexer.expect(")");
  lexer.expect(";");
  (returns ? module.prints : module.sets_conditionals) = true;
}

// .param .type name ;
void KernelBuilder::parse_argument() {
  const Token token = lexer_.expect(Token::Kind::directive, "a type");
  const Type type = parse_type(token.text);
  if (type.kind == 0 || type.kind == 'p' || type.bits < 32)
    Lexer::fail(token, "not a type for a call's argument: " + shown(token));
  const Token name = lexer_.expect(Token::Kind::word, "the argument's name");
  lexer_.expect(";");
  define(name, {Name::Kind::argument, type, static_cast<uint32_t>(registers_.size())});
  registers_.push_back(type);
}

// The register of an argument that is `bits` wide.
uint32_t KernelBuilder::expect_argument(uint8_t bits) {
  const Token token = lexer_.expect(Token::Kind::word, "a call's argument");
  const Name *name = find(token.text);
  if (name == nullptr || name->kind != Name::Kind::argument)
    Lexer::fail(token, shown(token) + " is not an argument of a call");
  if (name->type.bits != bits) Lexer::fail(token, shown(token) + " has another width");
  return name->index;
}

// st.param.b64 [name], source;
void KernelBuilder::parse_store_argument(const Token &opcode) {
  const Type type = parse_type(opcode.text.substr(8));
  if (type.kind == 0) Lexer::fail(opcode, "no such store: " + shown(opcode));
  lexer_.expect("[");
  Operand target;
  target.kind = Operand::Kind::reg;
  target.token = lexer_.peek();
  target.type = Type{'b', type.bits};
  target.slot = register_kind | expect_argument(type.bits);
  const int64_t offset = parse_offset();
  if (offset != 0) Lexer::fail(opcode, "writes outside the argument");
  lexer_.expect("]");
  lexer_.expect(",");
  const std::vector<Operand> operands = {target, parse_scalar()};
  const Token end = lexer_.expect(";");
  const std::string move = "mov.b" + std::to_string(int{type.bits});
  const Location location{static_cast<uint32_t>(opcode.line), opcode.begin, end.end};
  emit(choose(opcode, move, operands), operands, Order{}, nullptr, location);
}

// call.uni cudaGraphSetConditional, (handle, value);
// call (result), vprintf, (format, values);
void KernelBuilder::parse_call(const Token &opcode) {
  Draft draft;
  const bool returns = lexer_.accept("(");
  if (returns) {
    draft.slot(2) = register_kind | expect_argument(32);
    draft.definitions = 4;
    lexer_.expect(")");
    lexer_.expect(",");
  }
  const Token name = lexer_.expect(Token::Kind::word, "a function");
  if (name.text != (returns ? print_name : set_conditional_name) ||
      !(returns ? module_.prints : module_.sets_conditionals))
    Lexer::fail(name, "call to undeclared function " + shown(name));
  lexer_.expect(",");
  lexer_.expect("(");
  draft.instruction.run = returns ? &run_print : &run_set_conditional;
  draft.slot(0) = register_kind | expect_argument(64);
  lexer_.expect(",");
  draft.slot(1) = register_kind | expect_argument(returns ? 64 : 32);
  draft.uses = 3;
  lexer_.expect(")");
  const Token end = lexer_.expect(";");
  draft.location = Location{static_cast<uint32_t>(opcode.line), opcode.begin, end.end};
  drafts_.push_back(draft);
}

} // namespace emulator
