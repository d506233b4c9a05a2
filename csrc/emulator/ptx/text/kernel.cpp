// The declarations and the body of one kernel (PTX ISA 5, 11.2, 11.4), and how its drafts become
// Code.
#include "kernel.h"

#include <algorithm>

#include "emulator/ptx/races/races.h"

namespace emulator {
namespace {

constexpr uint64_t max_shared_bytes = 1u << 20;
constexpr uint64_t max_local_bytes = 512u << 10; // CUDA C++ programming guide, compute capabilities
constexpr size_t max_depth = 256;

uint64_t align_up(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

// The number after the prefix of a name like %r12; false if there is none.
bool split_number(std::string_view name, std::string_view *prefix, uint64_t *number) {
  size_t begin = name.size();
  while (begin > 1 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
  const std::string_view digits = name.substr(begin);
  if (digits.empty() || digits.size() > 9 || (digits[0] == '0' && digits.size() > 1)) return false;
  *prefix = name.substr(0, begin);
  *number = 0;
  for (const char c : digits) *number = *number * 10 + static_cast<uint64_t>(c - '0');
  return true;
}

// Only opcodes and special registers have dots, and _ is where results are thrown away.
void check_name(const Token &name) {
  if (name.text == "_" || name.text.find_first_of(".:") != std::string_view::npos)
    Lexer::fail(name, shown(name) + " cannot be a name");
}

uint64_t parse_align(Lexer &lexer) {
  const Token token = lexer.peek();
  const uint64_t align = lexer.expect_integer("an alignment");
  if (align == 0 || align > 4096 || (align & (align - 1)) != 0)
    Lexer::fail(token, "alignment is not a power of two up to 4096");
  return align;
}

// [count], 1 when there is no bracket, 0 for [].
uint64_t parse_count(Lexer &lexer) {
  if (!lexer.accept("[")) return 1;
  if (lexer.accept("]")) return 0;
  const Token token = lexer.peek();
  const uint64_t count = lexer.expect_integer("an element count");
  if (count == 0 || count > (1u << 30)) Lexer::fail(token, "element count out of range");
  lexer.expect("]");
  return count;
}

} // namespace

Type parse_type(std::string_view directive) {
  for (const char *name : {".b8", ".b16", ".b32", ".b64", ".u8", ".u16", ".u32", ".u64", ".s8",
                           ".s16", ".s32", ".s64", ".f16", ".f32", ".f64", ".pred"}) {
    if (directive != name) continue;
    if (directive == ".pred") return Type{'p', 1};
    int bits = 0;
    for (const char *digit = name + 2; *digit != '\0'; ++digit) bits = bits * 10 + (*digit - '0');
    return Type{name[1], static_cast<uint8_t>(bits)};
  }
  return Type{};
}

VariableHead parse_variable_head(Lexer &lexer) {
  VariableHead head;
  if (lexer.accept(".align")) head.align = parse_align(lexer);
  const Token token = lexer.expect(Token::Kind::directive, "a type");
  head.type = parse_type(token.text);
  if (head.type.kind == 0 || head.type.kind == 'p')
    Lexer::fail(token, "not a type for a variable: " + shown(token));
  head.name = lexer.expect(Token::Kind::word, "a name");
  check_name(head.name);
  head.count = parse_count(lexer);
  if (head.count == 0) Lexer::fail(head.name, "array without a size");
  head.align = std::max<uint64_t>(head.align, head.type.bits / 8);
  return head;
}

SharedVariable parse_shared(Lexer &lexer, bool external) {
  SharedVariable variable;
  uint64_t align = 0;
  if (lexer.accept(".align")) align = parse_align(lexer);
  const Token token = lexer.expect(Token::Kind::directive, "a type");
  const Type type = parse_type(token.text);
  if (type.kind == 0 || type.kind == 'p')
    Lexer::fail(token, "not a type for shared memory: " + shown(token));
  const Token name = lexer.expect(Token::Kind::word, "a name");
  check_name(name);
  const uint64_t count = parse_count(lexer);
  if (lexer.at("=")) Lexer::fail(lexer.peek(), "shared memory cannot have an initial value");
  lexer.expect(";");
  variable.name = name.text;
  variable.dynamic = external && count == 0;
  if (count == 0 && !external) Lexer::fail(name, "an array without a size must be .extern");
  if (external && count != 0) Lexer::fail(name, "external array with a size");
  variable.align = std::max<uint64_t>(align, type.bits / 8);
  variable.bytes = count * (type.bits / 8);
  if (variable.bytes > max_shared_bytes) Lexer::fail(name, "shared array above 1 MiB");
  return variable;
}

const KernelBuilder::Name *KernelBuilder::find(std::string_view name) const {
  for (size_t k = open_.size(); k-- > 0;) {
    const auto &names = scopes_[static_cast<size_t>(open_[k])].names;
    if (const auto found = names.find(name); found != names.end()) return &found->second;
  }
  return nullptr;
}

// Registers of a range come to life when they are first named.
bool KernelBuilder::find_range(std::string_view name, uint32_t *reg, Type *type) {
  std::string_view prefix;
  uint64_t number = 0;
  if (!split_number(name, &prefix, &number)) return false;
  for (size_t k = open_.size(); k-- > 0;) {
    const auto &ranges = scopes_[static_cast<size_t>(open_[k])].ranges;
    const auto found = ranges.find(prefix);
    if (found == ranges.end() || number >= found->second.count) continue;
    *type = found->second.type;
    const auto key = std::make_pair(name, open_[k]);
    auto at = range_registers_.find(key);
    if (at == range_registers_.end()) {
      at = range_registers_.emplace(key, static_cast<uint32_t>(registers_.size())).first;
      registers_.push_back(*type);
    }
    *reg = at->second;
    return true;
  }
  return false;
}

void KernelBuilder::define(const Token &name, const Name &entry) {
  check_name(name);
  if (!scopes_[static_cast<size_t>(open_.back())].names.emplace(name.text, entry).second)
    Lexer::fail(name, "duplicate definition of " + shown(name));
}

void KernelBuilder::open_scope(const Token &brace) {
  if (open_.size() >= max_depth) Lexer::fail(brace, "blocks nested too deep");
  Scope scope;
  if (!open_.empty()) scope.parent = open_.back();
  open_.push_back(static_cast<int32_t>(scopes_.size()));
  scopes_.push_back(std::move(scope));
}

// .param [.align N] .type [.ptr [.space] [.align N]] name [ '[' count ']' ]
void KernelBuilder::parse_parameter() {
  lexer_.expect(".param");
  uint64_t align = 0;
  if (lexer_.accept(".align")) align = parse_align(lexer_);
  const Token token = lexer_.expect(Token::Kind::directive, "a type");
  const Type type = parse_type(token.text);
  if (type.kind == 0 || type.kind == 'p')
    Lexer::fail(token, "not a type for a parameter: " + shown(token));
  if (lexer_.accept(".ptr")) {
    if (lexer_.at(".global") || lexer_.at(".shared") || lexer_.at(".const") || lexer_.at(".local"))
      lexer_.next();
    if (lexer_.accept(".align")) parse_align(lexer_);
  }
  const Token name = lexer_.expect(Token::Kind::word, "the parameter's name");
  const uint64_t count = parse_count(lexer_);
  if (count == 0) Lexer::fail(name, "parameter without a size");
  const uint64_t element = type.bits / 8,
                 offset = align_up(kernel_.parameter_bytes, std::max(align, element));
  const bool large = module_.version >= 81 && module_.target >= 70;
  const uint64_t limit = large ? 32764 : 4096;
  if (count > limit || offset + count * element > limit)
    Lexer::fail(name, "parameters above " + std::to_string(limit) + " bytes");
  kernel_.parameters.push_back(
      {static_cast<uint32_t>(offset), static_cast<uint32_t>(count * element)});
  kernel_.parameter_bytes = static_cast<uint32_t>(offset + count * element);
  constexpr std::string_view barrier = "_grid_barrier";
  if (name.text.size() > barrier.size())
    kernel_.meets |= name.text.substr(name.text.size() - barrier.size()) == barrier;
  define(name, {Name::Kind::parameter, type, static_cast<uint32_t>(kernel_.parameters.size() - 1)});
}

void KernelBuilder::parse_parameters() {
  if (!lexer_.accept("(") || lexer_.accept(")")) return;
  do parse_parameter();
  while (lexer_.accept(","));
  lexer_.expect(")");
}

std::array<uint32_t, 3> KernelBuilder::parse_three() {
  std::array<uint32_t, 3> sizes{1, 1, 1};
  const Token first = lexer_.peek();
  uint64_t product = 1;
  for (size_t k = 0; k < 3; ++k) {
    const uint64_t value = lexer_.expect_integer("a number of threads");
    if (value == 0 || value > 1024 || (product *= value) > 1024)
      Lexer::fail(first, "a block has 1 to 1024 threads");
    sizes[k] = static_cast<uint32_t>(value);
    if (!lexer_.accept(",")) break;
  }
  return sizes;
}

void KernelBuilder::parse_limits() {
  for (;;) {
    if (lexer_.accept(".reqntid")) {
      kernel_.required_block = parse_three();
    } else if (lexer_.accept(".maxntid")) {
      const auto sizes = parse_three();
      kernel_.max_threads = sizes[0] * sizes[1] * sizes[2];
    } else if (lexer_.accept(".minnctapersm") || lexer_.accept(".maxnreg")) {
      lexer_.expect_integer("a number");
    } else if (lexer_.accept(".pragma")) {
      lexer_.expect(Token::Kind::text, "a string");
      lexer_.expect(";");
    } else {
      return;
    }
  }
}

// .reg .type name, prefix<count>, ... ;
void KernelBuilder::parse_registers() {
  const Token token = lexer_.expect(Token::Kind::directive, "a register type");
  const Type type = parse_type(token.text);
  if (type.kind == 0 || type.bits == 8)
    Lexer::fail(token, "not a type for a register: " + shown(token));
  do {
    const Token name = lexer_.expect(Token::Kind::word, "a register name");
    check_name(name);
    if (lexer_.accept("<")) {
      RegisterRange range;
      range.type = type;
      range.count = lexer_.expect_integer("a number of registers");
      lexer_.expect(">");
      if (!scopes_[static_cast<size_t>(open_.back())].ranges.emplace(name.text, range).second)
        Lexer::fail(name, "duplicate definition of " + shown(name));
    } else {
      define(name, {Name::Kind::reg, type, static_cast<uint32_t>(registers_.size())});
      registers_.push_back(type);
    }
  } while (lexer_.accept(","));
  lexer_.expect(";");
}

void KernelBuilder::parse_directive() {
  const Token token = lexer_.peek();
  if (token.text == ".loc" || token.text == ".file") return lexer_.skip_line();
  lexer_.next();
  if (token.text == ".reg") return parse_registers();
  if (token.text == ".param") return parse_argument();
  if (token.text == ".pragma") {
    lexer_.expect(Token::Kind::text, "a string");
    lexer_.expect(";");
    return;
  }
  if (token.text == ".local") return parse_local();
  const bool external = token.text == ".extern";
  if (external) lexer_.expect(".shared");
  if (!external && token.text != ".shared") Lexer::fail(token, "unknown directive " + shown(token));
  const Token start = lexer_.peek();
  const SharedVariable variable = parse_shared(lexer_, external);
  Token name = start;
  name.text = variable.name;
  define(name, {Name::Kind::shared, Type{}, static_cast<uint32_t>(shared_.size())});
  shared_.push_back(variable);
}

// .local [.align N] .type name[count];
void KernelBuilder::parse_local() {
  const VariableHead head = parse_variable_head(lexer_);
  lexer_.expect(";");
  const uint64_t at = align_up(local_bytes_, head.align), bytes = head.count * (head.type.bits / 8);
  if (at + bytes > max_local_bytes) Lexer::fail(head.name, "local memory above 512 KiB");
  local_bytes_ = at + bytes;
  Name entry{Name::Kind::variable, head.type, 0};
  entry.address = at;
  entry.space = ".local";
  define(head.name, entry);
}

void KernelBuilder::parse_body() {
  const size_t outer = open_.size();
  open_scope(lexer_.expect("{"));
  while (open_.size() > outer) {
    const Token token = lexer_.peek();
    if (token.kind == Token::Kind::directive) {
      parse_directive();
    } else if (lexer_.accept("{")) {
      open_scope(token);
    } else if (lexer_.accept("}")) {
      open_.pop_back();
    } else if (lexer_.accept("@")) {
      const Operand guard = parse_guard();
      parse_instruction(lexer_.expect(Token::Kind::word, "an instruction"), &guard);
    } else {
      const Token word = lexer_.expect(Token::Kind::word, "an instruction or label");
      if (!lexer_.accept(":")) {
        parse_instruction(word, nullptr);
        continue;
      }
      check_name(word);
      if (!scopes_[static_cast<size_t>(open_.back())]
               .labels.emplace(word.text, static_cast<uint32_t>(drafts_.size()))
               .second) {
        Lexer::fail(word, "duplicate definition of label " + shown(word));
      }
    }
  }
}

Kernel KernelBuilder::parse() {
  const Token name = lexer_.expect(Token::Kind::word, "the kernel's name");
  check_name(name);
  kernel_.name = std::string(name.text);
  Token brace;
  open_scope(brace);
  shared_ = module_.shared;
  for (uint32_t k = 0; k < shared_.size(); ++k)
    scopes_[0].names[shared_[k].name] = {Name::Kind::shared, Type{}, k};
  for (const StaticVariable &variable : *module_.variables) {
    Name entry{Name::Kind::variable, Type{}, 0};
    entry.address = variable.address();
    entry.space = variable.constant ? ".const" : ".global";
    scopes_[0].names[variable.name] = entry;
  }
  open_scope(brace);
  parse_parameters();
  parse_limits();
  parse_body();
  kernel_.code = std::make_shared<const Code>(finish());
  return std::move(kernel_);
}

void KernelBuilder::resolve_branches() {
  for (size_t k = 0; k < drafts_.size(); ++k) {
    if (drafts_[k].label < 0) continue;
    const Branch &branch = branches_[static_cast<size_t>(drafts_[k].label)];
    int32_t scope = branch.scope;
    for (; scope >= 0; scope = scopes_[static_cast<size_t>(scope)].parent) {
      const auto &labels = scopes_[static_cast<size_t>(scope)].labels;
      const auto found = labels.find(branch.target.text);
      if (found == labels.end()) continue;
      drafts_[k].instruction.offset = static_cast<int32_t>(found->second) - static_cast<int32_t>(k);
      break;
    }
    if (scope < 0) Lexer::fail(branch.target, "unknown label " + shown(branch.target));
  }
}

// Static arrays from address 0 in the order of their declaration, then all dynamic ones at one
// place.
void KernelBuilder::place_shared() {
  uint64_t bytes = 0, dynamic_align = 1;
  for (SharedVariable &variable : shared_) {
    if (!variable.referenced) continue;
    if (variable.dynamic) {
      dynamic_align = std::max(dynamic_align, variable.align);
      continue;
    }
    variable.address = align_up(bytes, variable.align);
    bytes = variable.address + variable.bytes;
    if (bytes > max_shared_bytes) {
      Token where = lexer_.peek();
      Lexer::fail(where, "kernel " + kernel_.name + " uses more than 1 MiB of shared memory");
    }
  }
  bytes = align_up(bytes, dynamic_align);
  for (SharedVariable &variable : shared_)
    if (variable.dynamic) variable.address = bytes;
  kernel_.static_shared_bytes = static_cast<uint32_t>(bytes);
  for (const SharedConstant &entry : shared_constants_)
    constants_[entry.constant] += shared_[entry.variable].address;
}

// Every access goes by way of the checks.
void KernelBuilder::check_accesses(Code &code) const {
  code.races = module_.races;
  code.unwritten = module_.unwritten;
  for (const int64_t offset : {code.races.report, code.races.barrier, code.unwritten.report})
    if (offset + 8 > int64_t{kernel_.parameter_bytes})
      Lexer::fail(lexer_.peek(), "a pragma names a parameter that " + kernel_.name + " lacks");
  for (size_t k = 0; k < drafts_.size(); ++k) {
    code.accesses.push_back(drafts_[k].access);
    code.plain.push_back(code.instructions[k].run);
    if (drafts_[k].access.bytes != 0) code.instructions[k].run = &run_checked;
  }
  for (const SharedVariable &variable : shared_)
    if (variable.referenced && !variable.dynamic)
      code.shared_places.push_back({std::string(variable.name), variable.address, variable.bytes});
}

Code KernelBuilder::finish() {
  Draft last;
  last.instruction.run = &run_exit;
  last.flow = Flow::end;
  if (!drafts_.empty()) last.location = drafts_.back().location;
  drafts_.push_back(last);
  resolve_branches();
  place_shared();
  const Allocation allocation = allocate(drafts_, registers_);
  const auto first_register = static_cast<uint32_t>(slot_fixed_count + constants_.size());
  Code code;
  code.constants = std::move(constants_);
  code.slots = first_register + allocation.slots;
  code.text = module_.text;
  code.variables = module_.variables;
  code.local_bytes = static_cast<uint32_t>(align_up(local_bytes_, 16));
  code.instructions.reserve(drafts_.size());
  for (Draft &draft : drafts_) {
    for (int k = 0; k < 6; ++k) {
      if (!((draft.definitions | draft.uses) >> k & 1)) continue;
      uint32_t &slot = draft.slot(k);
      const uint32_t index = slot & ~slot_kind_mask;
      if ((slot & slot_kind_mask) == constant_kind) slot = slot_fixed_count + index;
      if ((slot & slot_kind_mask) == register_kind) slot = first_register + allocation.slot[index];
    }
    code.instructions.push_back(draft.instruction);
    code.locations.push_back(draft.location);
  }
  if (module_.races.site >= 0 || module_.unwritten.site >= 0) check_accesses(code);
  kernel_.registers = allocation.registers;
  return code;
}

} // namespace emulator
