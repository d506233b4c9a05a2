// Tokens of a PTX text (PTX ISA 4.1 to 4.5): words, directives, literals, comments.
#include "lexer.h"

#include <charconv>
#include <cstring>

namespace emulator {
namespace {

// Not <cctype>: no locale, no undefined behavior on bytes above 127.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word_start(char c) { return is_letter(c) || c == '_' || c == '$' || c == '%'; }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

}  // namespace

std::string shown(const Token &token) {
  if (token.kind == Token::Kind::end) return "the end of the text";
  std::string text = "'";
  for (const char c : token.text.substr(0, 60)) text += c >= ' ' && c < 127 ? c : '?';
  return text + "'";
}

void Lexer::fail(const Token &where, const std::string &message) {
  throw ParseError{where.line, where.column, message};
}

void Lexer::skip_space() {
  for (;;) {
    const char c = look();
    if (at_ >= text_.size()) return;
    if (c == '\n') {
      ++at_, ++line_;
      line_begin_ = at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++at_;
    } else if (c == '/' && look(1) == '/') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '/' && look(1) == '*') {
      const int line = line_, column = static_cast<int>(at_ - line_begin_) + 1;
      at_ += 2;
      while (!(look() == '*' && look(1) == '/')) {
        if (at_ >= text_.size()) throw ParseError{line, column, "comment without an end"};
        if (text_[at_++] == '\n') ++line_, line_begin_ = at_;
      }
      at_ += 2;
    } else {
      return;
    }
  }
}

void Lexer::finish(Token::Kind kind, size_t begin) {
  token_.kind = kind;
  token_.text = text_.substr(begin, at_ - begin);
  token_.end = static_cast<uint32_t>(at_);
}

// A word takes the dots behind it (add.s32, %tid.x) and :: before a letter (.shared::cta); a
// directive ends at the next dot.
void Lexer::read_word() {
  const size_t begin = at_;
  const bool directive = look() == '.';
  ++at_;
  for (;;) {
    if (is_word(look())) {
      ++at_;
    } else if (!directive && look() == '.' && is_word(look(1))) {
      at_ += 2;
    } else if (look() == ':' && look(1) == ':' && is_letter(look(2))) {
      at_ += 3;
    } else {
      break;
    }
  }
  finish(directive ? Token::Kind::directive : Token::Kind::word, begin);
}

void Lexer::read_number() {
  const size_t begin = at_;
  const char mark = look(1);
  const bool leads = look() == '0';
  if (leads && (mark == 'f' || mark == 'F' || mark == 'd' || mark == 'D')) {
    const bool single = mark == 'f' || mark == 'F';
    const size_t digits = single ? 8 : 16;
    at_ += 2;
    token_.integer = 0;
    for (size_t k = 0; k < digits; ++k, ++at_) {
      const int digit = digit_value(look());
      if (digit > 15)
        fail(token_, "a hexadecimal float needs " + std::to_string(digits) + " digits");
      token_.integer = token_.integer << 4 | static_cast<uint64_t>(digit);
    }
    if (!single) std::memcpy(&token_.real, &token_.integer, sizeof token_.real);
    return finish(single ? Token::Kind::single : Token::Kind::real, begin);
  }
  uint64_t base = 10;
  if (leads && (mark == 'x' || mark == 'X'))
    base = 16, at_ += 2;
  else if (leads && (mark == 'b' || mark == 'B'))
    base = 2, at_ += 2;
  else if (leads && is_digit(mark))
    base = 8;
  const size_t digits = at_;
  uint64_t value = 0;
  bool overflow = false;
  for (; static_cast<uint64_t>(digit_value(look())) < base; ++at_) {
    overflow |= __builtin_mul_overflow(value, base, &value);
    overflow |= __builtin_add_overflow(value, static_cast<uint64_t>(digit_value(look())), &value);
  }
  if ((base == 10 || base == 8) && (look() == '.' || look() == 'e' || look() == 'E')) {
    const auto read =
        std::from_chars(text_.data() + begin, text_.data() + text_.size(), token_.real);
    if (read.ec != std::errc()) fail(token_, "float literal out of range");
    at_ = static_cast<size_t>(read.ptr - text_.data());
    finish(Token::Kind::real, begin);
    if (is_word(look())) fail(token_, "malformed number");
    return;
  }
  if (at_ == digits && base != 8) fail(token_, "malformed number");
  if (look() == 'U') ++at_;
  if (is_word(look())) fail(token_, "malformed number");
  if (overflow) fail(token_, "integer literal above 64 bits");
  token_.integer = value;
  finish(Token::Kind::integer, begin);
}

void Lexer::advance() {
  skip_space();
  token_.line = line_;
  token_.column = static_cast<int>(at_ - line_begin_) + 1;
  token_.begin = static_cast<uint32_t>(at_);
  if (at_ >= text_.size()) return finish(Token::Kind::end, at_);
  const char c = look();
  if (is_word_start(c) || (c == '.' && is_letter(look(1)))) return read_word();
  if (is_digit(c)) return read_number();
  const size_t begin = at_;
  if (c == '"') {
    ++at_;
    while (look() != '"') {
      if (at_ >= text_.size() || look() == '\n') fail(token_, "string without an end");
      ++at_;
    }
    ++at_;
    return finish(Token::Kind::text, begin);
  }
  if (c == '\0' || std::strchr("@!,;:[]{}()<>+-|=", c) == nullptr)
    fail(token_, "unexpected character, byte " + std::to_string(static_cast<unsigned char>(c)));
  ++at_;
  finish(Token::Kind::punctuation, begin);
}

bool Lexer::accept(std::string_view text) {
  if (!at(text)) return false;
  advance();
  return true;
}

Token Lexer::expect(std::string_view text) {
  if (!at(text)) fail(token_, "expected '" + std::string(text) + "', met " + shown(token_));
  return next();
}

Token Lexer::expect(Token::Kind kind, const char *what) {
  if (token_.kind != kind) fail(token_, std::string("expected ") + what + ", met " + shown(token_));
  return next();
}

uint64_t Lexer::expect_integer(const char *what) {
  return expect(Token::Kind::integer, what).integer;
}

// .loc and .file: everything to the end of the line of the token before.
void Lexer::skip_line() {
  const int line = token_.line;
  while (token_.kind != Token::Kind::end && token_.line == line) advance();
}

}  // namespace emulator
