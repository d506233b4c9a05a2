// Adding forms and finding them by name: a form is written as its name and its signature.
#include "forms.h"

#include <algorithm>
#include <cstdlib>

namespace emulator {
namespace {

Type parse_type(std::string_view word) {
  Type type;
  type.kind = word[0];
  type.bits = 1;
  if (word.size() > 1)
    type.bits = static_cast<uint8_t>(std::atoi(std::string(word.substr(1)).c_str()));
  return type;
}

OperandSpec parse_operand(std::string_view word) {
  using Role = OperandSpec::Role;
  OperandSpec spec;
  if (word == "[]" || word == "[param]") {
    spec.role = word == "[]" ? Role::address : Role::parameter;
    return spec;
  }
  if (word == "label") {
    spec.role = Role::label;
    return spec;
  }
  for (;; word.remove_prefix(1)) {
    switch (word[0]) {
    case '=': spec.role = Role::destination; continue;
    case '~': spec.widening = true; continue;
    case '!': spec.negatable = true; continue;
    case '#': spec.immediate = true; continue;
    case '?': spec.optional = true; continue;
    default: break;
    }
    if (word[0] >= '2' && word[0] <= '4') {
      spec.vector = static_cast<uint8_t>(word[0] - '0');
      word.remove_prefix(1);
      continue;
    }
    break;
  }
  if (const size_t bar = word.find('|'); bar != std::string_view::npos) {
    spec.second = true;
    word = word.substr(0, bar);
  }
  spec.type = parse_type(word);
  return spec;
}

}  // namespace

Form &Forms::add(std::string name, std::string signature, Handler run) {
  Form form;
  form.signature = std::move(signature);
  form.run = run;
  std::string_view rest = form.signature;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    form.operands.push_back(parse_operand(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  opcodes_[name.substr(0, name.find('.'))] = true;
  form.name = std::move(name);
  std::vector<Form> &list = forms_[form.name];
  list.push_back(std::move(form));
  return list.back();
}

const std::vector<Form> *Forms::find(const std::string &name) const {
  const auto found = forms_.find(name);
  return found == forms_.end() ? nullptr : &found->second;
}

std::string Forms::listing() const {
  std::vector<std::string> lines;
  for (const auto &[name, list] : forms_)
    for (const Form &form : list)
      lines.push_back(name + "\t" + form.signature + "\t" + std::to_string(form.min_target) + "\n");
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string &line : lines) text += line;
  return text;
}

}  // namespace emulator
