"""The words of one line of program text, read on demand with one word of lookahead.

A word is an identifier, a run of digits or a single other character; blanks separate words and `#` ends the line.
Literals and strings are read by their own methods where the grammar expects them. Reading is linear in the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vyre_cuda.ir.core.types import BY_NAME, Type
from vyre_cuda.ir.text.literals import LITERAL, parse_literal, parse_string

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"[ \t\r]*([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[^ \t\r]|$)")
_STRING_MARK = re.compile(r'["\\]')
_MAX_DIGITS = 20


class Fault(Exception):
    """A line that cannot be read, and the column where reading stopped."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Line numbers from 1 and lines, without holding them all."""
    start, number = 0, 1
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield number, text[start:end]
        start, number = end + 1, number + 1


class Scanner:
    """Reads a line: `word` is the next word, "" at the end, and begins at `column`."""

    __slots__ = ("_end", "column", "line", "word")

    def __init__(self, line: str) -> None:
        self.line = line
        self._move(0)

    def _move(self, position: int) -> None:
        self.word, self.column, self._end = self._read(position)

    def _read(self, position: int) -> tuple[str, int, int]:
        match = _WORD.match(self.line, position)
        if match is None or match[1] in ("", "#"):
            return "", len(self.line) if match is None else match.start(1), len(self.line)
        return match[1], match.start(1), match.end()

    def following(self) -> str:
        """The word after `word`."""
        return self._read(self._end)[0]

    def fault(self, wanted: str) -> Fault:
        found = f"`{self.word[:40]}`" if self.word else "the end of the line"
        return Fault(f"expected {wanted}, found {found}", self.column)

    def take(self) -> str:
        word = self.word
        self._move(self._end)
        return word

    def accept(self, word: str) -> bool:
        """Take `word` if it is next."""
        if self.word != word:
            return False
        self._move(self._end)
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.fault(f"`{word}`")

    def at_name(self) -> bool:
        return IDENTIFIER.match(self.word) is not None

    def name(self, what: str) -> str:
        """Take an identifier; `what` says what it names."""
        if not self.at_name():
            raise self.fault(what)
        return self.take()

    def integer(self, what: str) -> int:
        """Take a run of digits."""
        if not self.word[:1].isdigit() or not self.word.isascii():
            raise self.fault(what)
        if len(self.word) > _MAX_DIGITS:
            raise Fault(f"{what} has {len(self.word)} digits; at most {_MAX_DIGITS} are allowed", self.column)
        return int(self.take())

    def type(self) -> Type:
        """Take the name of a scalar type."""
        known = BY_NAME.get(self.word)
        if known is None:
            raise self.fault(f"a type ({', '.join(BY_NAME)})")
        self.take()
        return known

    def literal(self, type_: Type) -> int:
        """Take `:` and the literal right after it, as a bit pattern."""
        return self._literal(type_, self._end, f"after `{type_}:`")

    def element(self, type_: Type) -> int:
        """Take the literal that begins here, as a bit pattern."""
        return self._literal(type_, self.column, "here")

    def _literal(self, type_: Type, begin: int, where: str) -> int:
        match = LITERAL.match(self.line, begin)
        if match is None:
            raise Fault(f"expected a {type_} literal {where}", begin)
        try:
            bits = parse_literal(type_, match[0])
        except ValueError as error:
            raise Fault(str(error), begin) from None
        self._move(match.end())
        return bits

    def string(self) -> str:
        """Take a quoted string."""
        if self.word != '"':
            raise self.fault("a quoted string")
        start, position = self.column, self._end
        while (mark := _STRING_MARK.search(self.line, position)) and mark[0] == "\\":
            position = mark.end() + 1
        if mark is None:
            raise Fault("the string is not closed on its line", start)
        try:
            value = parse_string(self.line[start : mark.end()])
        except ValueError as error:
            raise Fault(str(error), start) from None
        self._move(mark.end())
        return value

    def end(self) -> None:
        """Raise Fault unless the line is used up."""
        if self.word:
            raise Fault(f"unexpected `{self.word[:40]}`", self.column)
