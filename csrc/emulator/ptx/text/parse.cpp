// A PTX module (PTX ISA 4, 11): version, target, shared arrays and kernels. Whatever this machine
// does not know is an error with its line; the text is untrusted.
#include <algorithm>
#include <cstring>
#include <sstream>

#include "kernel.h"

namespace emulator {
namespace {

constexpr size_t max_text_bytes = size_t{256} << 20;
constexpr uint64_t max_constant_bytes = 64u << 10;  // PTX ISA 5.1.3

class ModuleParser {
 public:
  ModuleParser(const std::shared_ptr<const std::string> &text, int max_version, bool *too_new)
      : lexer_(*text), max_version_(max_version), too_new_(too_new) {
    header_.text = text;
  }

  std::unique_ptr<Module> parse() {
    parse_version();
    parse_target();
    while (lexer_.peek().kind != Token::Kind::end) parse_item();
    auto module = std::make_unique<Module>();
    module->version = header_.version;
    module->target = header_.target;
    module->kernels = std::move(kernels_);
    return module;
  }

 private:
  // The lexer reads 8.10 as a real number; its digits are what counts.
  void parse_version() {
    if (!lexer_.at(".version"))
      Lexer::fail(lexer_.peek(), "missing .version directive at start of the text");
    lexer_.next();
    const Token token = lexer_.expect(Token::Kind::real, "a version like 8.0");
    int part[2] = {0, 0}, which = 0;
    for (const char c : token.text) {
      if (c == '.' && which == 0)
        which = 1;
      else if (c >= '0' && c <= '9' && part[which] < 1000)
        part[which] = part[which] * 10 + (c - '0');
      else
        Lexer::fail(token, "malformed version " + shown(token));
    }
    header_.version = part[0] * 10 + part[1];
    if (header_.version > max_version_ || part[1] > 9) {
      *too_new_ = true;
      Lexer::fail(token, "unsupported .version " + std::string(token.text) +
                             "; current version is '" + std::to_string(max_version_ / 10) + "." +
                             std::to_string(max_version_ % 10) + "'");
    }
  }

  void parse_target() {
    if (!lexer_.at(".target")) Lexer::fail(lexer_.peek(), "missing .target directive");
    lexer_.next();
    const Token token = lexer_.expect(Token::Kind::word, "a target like sm_90");
    std::string_view digits = token.text;
    if (digits.substr(0, 3) != "sm_") Lexer::fail(token, "unknown target " + shown(token));
    digits.remove_prefix(3);
    if (!digits.empty() && (digits.back() == 'a' || digits.back() == 'f')) digits.remove_suffix(1);
    for (const char c : digits)
      if (c < '0' || c > '9') Lexer::fail(token, "unknown target " + shown(token));
    if (digits.size() < 2 || digits.size() > 3)
      Lexer::fail(token, "unknown target " + shown(token));
    for (const char c : digits) header_.target = header_.target * 10 + (c - '0');
    if (lexer_.accept(",")) {
      lexer_.expect("debug");
    }
    if (lexer_.accept(".address_size") && lexer_.at("64"))
      lexer_.next();
    else
      Lexer::fail(lexer_.peek(), "expected .address_size 64");
  }

  void parse_item() {
    const Token token = lexer_.peek();
    if (token.text == ".loc" || token.text == ".file") return lexer_.skip_line();
    lexer_.next();
    if (token.text == ".pragma") {
      parse_pragma(lexer_.expect(Token::Kind::text, "a string"));
      lexer_.expect(";");
    } else if (token.text == ".visible" || token.text == ".weak") {
      lexer_.expect(".entry");
      parse_entry();
    } else if (token.text == ".entry") {
      parse_entry();
    } else if (token.text == ".extern" || token.text == ".shared") {
      const bool external = token.text == ".extern";
      if (external && lexer_.accept(".func")) return parse_external_function(lexer_, header_);
      if (external) lexer_.expect(".shared");
      add_shared(token, parse_shared(lexer_, external));
    } else if (token.text == ".const" || token.text == ".global") {
      add_variable(token.text == ".const");
    } else if (token.kind == Token::Kind::directive) {
      Lexer::fail(token, "unknown directive " + shown(token));
    } else {
      Lexer::fail(token, "expected a directive, met " + shown(token));
    }
  }

  // vyre_races SITE REPORT [BARRIER], see races/races.h; as on a device, others mean nothing here.
  void parse_pragma(const Token &token) {
    std::string text(token.text);
    text.erase(std::remove(text.begin(), text.end(), '"'), text.end());
    std::istringstream words(text);
    std::string word;
    if (!(words >> word)) return;
    if (word == "vyre_initialized") return parse_initialized(token, words);
    if (word != "vyre_races") return;
    RaceRequest request;
    if (!(words >> request.site >> request.report) || request.site < 0 || request.site >= 1 << 20 ||
        request.report < 0)
      Lexer::fail(token, "vyre_races takes the number of a site and the offset of a parameter");
    if (!words.eof() && (!(words >> request.barrier) || request.barrier < 0))
      Lexer::fail(token, "vyre_races: not the offset of a parameter");
    header_.races = request;
  }

  // vyre_initialized SITE REPORT, see unwritten/unwritten.h.
  void parse_initialized(const Token &token, std::istringstream &words) {
    UnwrittenRequest request;
    if (!(words >> request.site >> request.report) || request.site < 0 || request.site >= 1 << 20 ||
        request.report < 0)
      Lexer::fail(token,
                  "vyre_initialized takes the number of a site and the offset of a parameter");
    header_.unwritten = request;
  }

  // .const or .global [.align N] .type name[count] = {number, ...}; what is not given is 0.
  void add_variable(bool constant) {
    const VariableHead head = parse_variable_head(lexer_);
    const uint64_t width = head.type.bits / 8, bytes = head.count * width;
    if (constant && (constant_bytes_ += (bytes + 15) / 16 * 16) > max_constant_bytes)
      Lexer::fail(head.name, "constant variables above 64 KiB");
    if (bytes > max_text_bytes) Lexer::fail(head.name, "variable above 256 MiB");
    for (const StaticVariable &other : *header_.variables)
      if (other.name == head.name.text)
        Lexer::fail(head.name, "duplicate definition of " + other.name);
    StaticVariable variable;
    variable.name = std::string(head.name.text);
    variable.constant = constant;
    variable.bytes.resize(bytes);
    if (lexer_.accept("=")) {
      lexer_.expect("{");
      uint64_t at = 0;
      do {
        const Token token = lexer_.peek();
        const uint64_t value = lexer_.expect_integer("a number");
        if (at == head.count) Lexer::fail(token, "more numbers than elements");
        if (width < 8 && value >> 8 * width != 0) Lexer::fail(token, "number beyond its type");
        std::memcpy(&variable.bytes[at++ * width], &value, width);
      } while (lexer_.accept(","));
      lexer_.expect("}");
    }
    lexer_.expect(";");
    header_.variables->push_back(std::move(variable));
  }

  void add_shared(const Token &where, const SharedVariable &variable) {
    if (header_.shared.size() >= 4096) Lexer::fail(where, "more than 4096 shared arrays");
    for (const SharedVariable &other : header_.shared)
      if (other.name == variable.name)
        Lexer::fail(where, "duplicate definition of " + std::string(variable.name));
    header_.shared.push_back(variable);
  }

  void parse_entry() {
    const Token name = lexer_.peek();
    KernelBuilder builder(lexer_, header_);
    Kernel kernel = builder.parse();
    if (!names_.emplace(kernel.name, true).second)
      Lexer::fail(name, "duplicate definition of kernel " + kernel.name);
    kernels_.push_back(std::move(kernel));
  }

  Lexer lexer_;
  int max_version_;
  bool *too_new_;
  ModuleHeader header_;
  uint64_t constant_bytes_ = 0;
  std::vector<Kernel> kernels_;
  std::unordered_map<std::string, bool> names_;
};

}  // namespace

std::unique_ptr<Module> parse(std::string_view text, int max_version, std::string *log,
                              bool *too_new) {
  *too_new = false;
  log->clear();
  const auto report = [log](int line, int column, const std::string &message) {
    *log = "ptxas application ptx input, line " + std::to_string(line) + "; error   : " + message +
           " (column " + std::to_string(column) +
           ")\nptxas fatal   : Ptx assembly aborted due to errors\n";
    return nullptr;
  };
  if (text.size() > max_text_bytes) return report(1, 1, "text above 256 MiB");
  try {
    ModuleParser parser(std::make_shared<const std::string>(text), max_version, too_new);
    return parser.parse();
  } catch (const ParseError &error) {
    return report(error.line, error.column, error.message);
  }
}

}  // namespace emulator
