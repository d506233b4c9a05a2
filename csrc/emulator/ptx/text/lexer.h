// Tokens of a PTX text. The lexer never reads past the text, keeps one token of lookahead and
// reports what it cannot read as a ParseError with line and column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace emulator {

struct ParseError {
  int line, column;
  std::string message;
};

struct Token {
  // word: identifier, opcode with its modifiers or %name; directive: .name, up to the next dot
  enum class Kind : uint8_t {
    end,
    word,
    directive,
    integer,
    single,
    real,
    text,
    punctuation
  } kind = Kind::end;
  std::string_view text;
  int line = 1, column = 1;
  uint32_t begin = 0, end = 0;  // bytes in the text
  uint64_t integer = 0;         // value, or the bits of a 0f literal
  double real = 0;
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  const Token &peek() const { return token_; }
  Token next() {
    Token token = token_;
    advance();
    return token;
  }
  bool at(std::string_view text) const {
    return token_.kind != Token::Kind::text && token_.text == text;
  }
  bool accept(std::string_view text);
  Token expect(std::string_view text);
  Token expect(Token::Kind kind, const char *what);
  uint64_t expect_integer(const char *what);
  void skip_line();

  [[noreturn]] static void fail(const Token &where, const std::string &message);

 private:
  void advance();
  void skip_space();
  void read_number();
  void read_word();
  char look(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void finish(Token::Kind kind, size_t begin);

  std::string_view text_;
  size_t at_ = 0, line_begin_ = 0;
  int line_ = 1;
  Token token_;
};

// The token as a message shows it, cut to a sane length.
std::string shown(const Token &token);

}  // namespace emulator
