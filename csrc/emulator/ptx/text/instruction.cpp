// From the text of an instruction to drafts: the form is looked up by its name without the
// modifiers that only order memory or hint at caches, its operands become slots, its guard a jump.
#include <algorithm>
#include <cstdlib>

#include "kernel.h"

namespace emulator {
namespace {

bool is_any(std::string_view word, std::initializer_list<const char *> list) {
  return std::any_of(list.begin(), list.end(), [&](const char *entry) { return word == entry; });
}

std::vector<std::string_view> split(std::string_view opcode) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t dot = opcode.find('.');
    parts.push_back(opcode.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    opcode.remove_prefix(dot + 1);
  }
}

// Results that only the hardware's own tables know.
bool is_approximate(const std::vector<std::string_view> &parts) {
  if (is_any(parts[0], {"ex2", "lg2", "sin", "cos", "tanh", "rsqrt"})) return true;
  return std::any_of(parts.begin(), parts.end(),
                     [](std::string_view p) { return p == "approx" || p == "full"; });
}

// Width, space and kind of an access to memory that threads share, from the name of its form.
void describe(const std::string &name, AccessForm *form) {
  const std::vector<std::string_view> parts = split(name);
  if (parts.size() > 1 && is_any(parts[1], {"param", "const", "local"})) return;
  form->kind = parts[0] == "ld"   ? AccessForm::Kind::load
               : parts[0] == "st" ? AccessForm::Kind::store
                                  : AccessForm::Kind::update;
  form->address_slot = parts[0] == "atom" ? 1 : 0;
  const bool named = parts.size() > 1 && is_any(parts[1], {"global", "shared"});
  form->space = !named                 ? AccessForm::Space::generic
                : parts[1] == "global" ? AccessForm::Space::global
                                       : AccessForm::Space::shared;
  for (const std::string_view part : parts)
    if (is_any(part, {"v2", "v4"})) form->count = static_cast<uint8_t>(part[1] - '0');
  if (parts[0] == "ld") form->address_slot = form->count;
  const int bits = std::atoi(std::string(parts.back().substr(1)).c_str());
  form->bytes = static_cast<uint8_t>(bits / 8);
}

}  // namespace

uint32_t KernelBuilder::new_register(Type type) {
  registers_.push_back(type);
  return register_kind | static_cast<uint32_t>(registers_.size() - 1);
}

// The name of the form; `order` receives the fences that its memory order asks for.
std::string KernelBuilder::normalize(const Token &opcode, Order *order) const {
  const std::vector<std::string_view> parts = split(opcode.text);
  const bool load = parts[0] == "ld", store = parts[0] == "st", red = parts[0] == "red";
  const bool access = load || store, update = red || parts[0] == "atom";
  std::string name(parts[0]);
  std::string_view semantics, scope, cache;
  const auto take = [&](std::string_view *place, std::string_view part) {
    if (!place->empty())
      Lexer::fail(opcode, "two modifiers of one kind: '." + std::string(part) + "'");
    *place = part;
  };
  for (size_t k = 1; k < parts.size(); ++k) {
    const std::string_view part = parts[k];
    if ((access || update) &&
        is_any(part, {"weak", "relaxed", "acquire", "release", "acq_rel", "volatile"}))
      take(&semantics, part);
    else if ((access || update) && is_any(part, {"cta", "gpu", "sys"}))
      take(&scope, part);
    else if ((load && is_any(part, {"ca", "cg", "cs", "lu", "cv", "nc"})) ||
             (store && is_any(part, {"wb", "cg", "cs", "wt"})))
      take(&cache, part);
    else
      name += "." + std::string(part == "shared::cta"    ? "shared"
                                : part == "param::entry" ? "param"
                                                         : part);
  }
  const bool strong = is_any(semantics, {"relaxed", "acquire", "release", "acq_rel"});
  const bool known = semantics.empty() ||
                     (load && is_any(semantics, {"weak", "relaxed", "acquire", "volatile"})) ||
                     (store && is_any(semantics, {"weak", "relaxed", "release", "volatile"})) ||
                     (red && is_any(semantics, {"relaxed", "release"})) ||
                     (update && !red && strong);
  if (!known)
    Lexer::fail(opcode, "'." + std::string(semantics) + "' is not a memory order of " +
                            std::string(parts[0]));
  if (access && strong == scope.empty())
    Lexer::fail(opcode, strong ? "'." + std::string(semantics) + "' requires a scope"
                               : "a scope without a memory order");
  if (!cache.empty() && !semantics.empty() && semantics != "weak")
    Lexer::fail(opcode, "'." + std::string(cache) + "' beside '." + std::string(semantics) + "'");
  if (cache == "nc" && name.find(".global") == std::string::npos)
    Lexer::fail(opcode, "'.nc' reads global memory only");
  if (!semantics.empty() && name.find(".param") != std::string::npos)
    Lexer::fail(opcode, "an access to a parameter cannot have a memory order");
  order->acquire = access && semantics == "acquire";
  order->release = access && semantics == "release";
  if (access || update) {
    AccessForm &form = order->access;
    form.atomic = update || strong || semantics == "volatile";
    form.block_scope = scope == "cta";
    form.acquire = is_any(semantics, {"acquire", "acq_rel"});
    form.release = is_any(semantics, {"release", "acq_rel"});
    describe(name, &form);
  }
  return name;
}

const Form &KernelBuilder::choose(const Token &opcode, const std::string &name,
                                  const std::vector<Operand> &operands) const {
  const std::vector<Form> *list = forms().find(name);
  if (list == nullptr) {
    const std::vector<std::string_view> parts = split(opcode.text);
    if (is_approximate(parts))
      Lexer::fail(opcode, shown(opcode) +
                              " is approximate: only the hardware knows the bits of its result, "
                              "and the emulator does not reproduce them");
    if (!forms().has_opcode(std::string(parts[0])))
      Lexer::fail(opcode, "unknown instruction " + shown(opcode));
    Lexer::fail(opcode, "'" + std::string(parts[0]) + "' has no form " + shown(opcode));
  }
  std::string why;
  for (const Form &form : *list) {
    why = mismatch(form, operands);
    if (why.empty()) return form;
  }
  Lexer::fail(opcode, shown(opcode) + ": " + why);
}

void KernelBuilder::check_target(const Token &opcode, const Form &form) const {
  if (module_.target < form.min_target)
    Lexer::fail(opcode, shown(opcode) + " requires .target sm_" + std::to_string(form.min_target) +
                            " or higher");
  if (module_.version < form.min_version)
    Lexer::fail(opcode, shown(opcode) + " requires PTX ISA .version " +
                            std::to_string(form.min_version / 10) + "." +
                            std::to_string(form.min_version % 10) + " or later");
}

Operand KernelBuilder::parse_guard() {
  const bool negated = lexer_.accept("!");
  const Token token = lexer_.expect(Token::Kind::word, "a predicate");
  Operand guard = resolve_word(token);
  if (guard.kind != Operand::Kind::reg || guard.type.kind != 'p')
    Lexer::fail(token, shown(token) + " is not a predicate register");
  guard.negated = negated;
  return guard;
}

void KernelBuilder::parse_instruction(const Token &opcode, const Operand *guard) {
  if (guard == nullptr && opcode.text.substr(0, 9) == "st.param.")
    return parse_store_argument(opcode);
  if (guard == nullptr && (opcode.text == "call.uni" || opcode.text == "call"))
    return parse_call(opcode);
  Order order;
  const std::string name = normalize(opcode, &order);
  std::vector<Operand> operands;
  if (!lexer_.at(";")) {
    do {
      if (operands.size() == 8) Lexer::fail(opcode, "more than eight operands");
      operands.push_back(parse_operand());
    } while (lexer_.accept(","));
  }
  const Token end = lexer_.expect(";");
  const Form &form = choose(opcode, name, operands);
  check_target(opcode, form);
  Location location;
  location.line = static_cast<uint32_t>(opcode.line);
  location.begin = opcode.begin;
  location.end = end.end;
  emit(form, operands, order, guard, location);
}

// The slot of a source; what must be computed first goes to `before`.
uint32_t KernelBuilder::source_slot(const OperandSpec &spec, const Operand &operand,
                                    std::vector<Draft> &before) {
  const auto prepare = [&](Type type, Handler run, uint32_t source, int32_t offset) {
    Draft draft;
    draft.instruction.run = run;
    draft.instruction.offset = offset;
    draft.slot(0) = new_register(type);
    draft.slot(1) = source;
    draft.definitions = 1;
    draft.uses = 2;
    before.push_back(draft);
    return draft.slot(0);
  };
  uint64_t bits = 0;
  switch (operand.kind) {
  case Operand::Kind::reg:
    return operand.negated ? prepare(Type{'p', 1}, &run_negate_predicate, operand.slot, 0)
                           : operand.slot;
  case Operand::Kind::special: return operand.slot;
  case Operand::Kind::clock:
    return prepare(operand.type, &run_clock,
                   constant(operand.type.bits == 64 ? ~uint64_t{0} : 0xffffffffu),
                   static_cast<int32_t>(operand.slot));
  case Operand::Kind::shared:
    return shared_constant(operand.index, static_cast<uint64_t>(operand.offset));
  case Operand::Kind::variable:
    return constant(operand.integer + static_cast<uint64_t>(operand.offset));
  default: literal_bits(operand, spec.type, &bits); return constant(bits);
  }
}

// Slots in the order of the form's operands; an absent second result is the sink, an absent
// operand reads zero.
void KernelBuilder::fill(Draft &draft, const Form &form, const std::vector<Operand> &operands,
                         std::vector<Draft> &before) {
  using Role = OperandSpec::Role;
  int at = 0;
  uint8_t width = 64;
  const auto define = [&](const Operand &operand) {
    draft.definitions |= static_cast<uint8_t>(1 << at);
    draft.slot(at++) = operand.kind == Operand::Kind::sink ? uint32_t{slot_sink} : operand.slot;
    if (operand.kind == Operand::Kind::reg && operand.type.kind != 'p') width = operand.type.bits;
  };
  const auto use = [&](uint32_t slot) {
    draft.uses |= static_cast<uint8_t>(1 << at);
    draft.slot(at++) = slot;
  };
  for (size_t k = 0; k < form.operands.size(); ++k) {
    const OperandSpec &spec = form.operands[k];
    if (k >= operands.size()) {
      use(constant(0));
      continue;
    }
    const Operand &operand = operands[k];
    switch (spec.role) {
    case Role::destination:
      if (spec.vector)
        for (const Operand &element : operand.elements) define(element);
      else
        define(operand);
      if (spec.second && operand.second.empty()) draft.slot(at++) = slot_sink;
      if (!operand.second.empty()) define(operand.second[0]);
      break;
    case Role::source:
      if (spec.vector)
        for (const Operand &element : operand.elements) use(source_slot(spec, element, before));
      else
        use(source_slot(spec, operand, before));
      break;
    case Role::address: {
      const Operand &base = operand.elements[0];
      draft.instruction.offset = static_cast<int32_t>(operand.offset);
      use(base.kind == Operand::Kind::shared     ? shared_constant(base.index, 0)
          : base.kind == Operand::Kind::variable ? constant(base.integer)
                                                 : base.slot);
      break;
    }
    case Role::parameter:
      draft.instruction.offset = static_cast<int32_t>(
          kernel_.parameters[operand.elements[0].index].offset + operand.offset);
      break;
    case Role::label:
      draft.label = static_cast<int32_t>(branches_.size());
      branches_.push_back({operand.token, open_.back()});
      break;
    }
  }
  draft.instruction.run = form.run != nullptr ? form.run
                                              : form.widened[width == 16   ? 0
                                                             : width == 32 ? 1
                                                                           : 2];
}

void KernelBuilder::emit(const Form &form, const std::vector<Operand> &operands, const Order &order,
                         const Operand *guard, const Location &location) {
  std::vector<Draft> list;
  Draft draft;
  draft.flow = form.flow;
  fill(draft, form, operands, list);
  const auto fence = [&](Handler run) {
    Draft extra;
    extra.instruction.run = run;
    list.push_back(extra);
  };
  if (order.release) fence(&run_fence_release);
  if (order.access.bytes != 0 && order.access.kind == AccessForm::Kind::load &&
      order.access.atomic) {
    Draft look;
    look.instruction.run = &run_look;
    look.slot(0) = draft.slot(order.access.address_slot);
    look.instruction.offset = draft.instruction.offset;
    look.uses = 1;
    list.push_back(look);
  }
  if (guard != nullptr && form.flow == Flow::branch) {
    draft.instruction.run = guard->negated ? &run_branch_unless : &run_branch_if;
    draft.slot(0) = guard->slot;
    draft.uses = 1;
    draft.guarded = true;
    guard = nullptr;
  }
  draft.access = order.access;
  list.push_back(draft);
  if (order.acquire) fence(&run_fence_acquire);
  if (guard != nullptr) {
    for (Draft &entry : list) entry.guarded = true;
    Draft jump;
    jump.instruction.run = guard->negated ? &run_guard_false : &run_guard_true;
    jump.slot(0) = guard->slot;
    jump.uses = 1;
    jump.instruction.offset = static_cast<int32_t>(list.size()) + 1;
    list.insert(list.begin(), jump);
  }
  for (Draft &entry : list) {
    entry.location = location;
    drafts_.push_back(entry);
  }
}

}  // namespace emulator
