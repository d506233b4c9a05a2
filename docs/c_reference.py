"""Writes docs/c-reference.md from the comments of csrc/include/vyre_cuda.h and the headers that it includes.

Run it after a change of the header: `python docs/c_reference.py`. With --check nothing is written, and the exit code is
1 when the page is not what this would write.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).with_name("c-reference.md")
HEADER = Path(__file__).parents[1] / "csrc" / "include" / "vyre_cuda.h"

_SECTION = re.compile(r"/\* ---- (.*?) -+ \*/")
_FUNCTION = re.compile(r"^(?:VYC_API|static inline)\b[^;{]*?\b(\w+)\(", re.DOTALL)
_NAMED = re.compile(r"\b(?:vyc|VYC)_\w+(?:\.\w+)?(?:\.\.\.)?")
_CONDITION = re.compile(r"#(?:if|ifdef|ifndef|endif|else|elif|include|undef)\b|extern \"C\" \{|\}$|/\* clang-format")


class Section(NamedTuple):
    """A heading of the header."""

    title: str


class Item(NamedTuple):
    """A declaration with the comment before it."""

    comment: str
    code: str

    @property
    def function(self) -> str | None:
        found = _FUNCTION.match(self.code)
        return found[1] if found else None


def whole(path: Path) -> str:
    """The header with the text of those that it includes, in their order, in place of the includes."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r'^#include "(vyre_cuda/.*)"$', lambda found: _body(path.parent / found[1]), text, flags=re.MULTILINE)


def _body(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return text[text.index("*/") + 2 :]


def introduction(header: str) -> str:
    """The comment at the head of the header."""
    return _text(header[: header.index("*/") + 2])


def items(header: str) -> Iterator[Section | Item]:
    """Sections and declarations in their order; ValueError at what is neither."""
    lines = header[header.index("*/") + 2 :].splitlines()
    comment, at = "", 0
    while at < len(lines):
        line = lines[at]
        section = _SECTION.match(line)
        if section:
            yield Section(section[1])
            comment, at = "", at + 1
        elif not line.strip() or _CONDITION.match(line):
            comment, at = (comment if line.strip() else ""), at + 1
        elif line.startswith("/*"):
            end = next(n for n in range(at, len(lines)) if "*/" in lines[n]) + 1
            comment, at = _text("\n".join(lines[at:end])), end
        else:
            end = _end(lines, at)
            if not line.startswith(("#define VYC_API", "#define VYRE_CUDA_")):
                yield Item(comment, "\n".join(lines[at:end]))
            comment, at = "", end


def _end(lines: Sequence[str], start: int) -> int:
    """The line behind a declaration: a macro ends where no line is continued, all else at a semicolon or a body's
    brace outside of braces and comments."""
    if lines[start].startswith("#define"):
        return next(n for n in range(start, len(lines)) if not lines[n].endswith("\\")) + 1
    depth, is_comment = 0, False
    for number in range(start, len(lines)):
        code = ""
        for part in re.split(r"(/\*|\*/)", lines[number]):
            if part in ("/*", "*/"):
                is_comment = part == "/*"
            elif not is_comment:
                code += part
        depth += code.count("{") - code.count("}")
        is_body = "static inline" in lines[start] and "}" in code
        if depth == 0 and (code.rstrip().endswith(";") or is_body):
            return number + 1
    raise ValueError(f"a declaration has no end: {lines[start]}")


def _text(comment: str) -> str:
    """A comment without its marks."""
    body = comment.strip().removeprefix("/*").removesuffix("*/")
    return "\n".join(re.sub(r"^ \* ?", "", f" {line}" if line.startswith("*") else line) for line in body.splitlines())


def markdown(text: str) -> str:
    """A comment as Markdown: indented lines are code, lines that begin with a dash a list, all else paragraphs."""
    made: list[str] = []
    kind = ""
    for line in text.splitlines():
        before, kind = kind, _kind(line, kind)
        if before == "code" != kind:
            made += ["```", ""]
        if kind == "code":
            made += ["", "```text"] if before != "code" else []
            made.append(line)
        elif kind == "list" and line.startswith(" - "):
            made += [""] if before != "list" else []
            made.append(f"- {_marked(line[3:])}")
        else:
            made.append(_marked(line.strip() if kind != "list" else f"  {line.strip()}"))
    made += ["```"] if kind == "code" else []
    text = re.sub(r"\n{2,}```\n", "\n```\n", "\n".join(made) + "\n")
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _kind(line: str, before: str) -> str:
    if not line.strip():
        return "code" if before == "code" else ""
    if line.startswith(" - ") or (before == "list" and line.startswith("   ")):
        return "list"
    return "code" if line.startswith("  ") else "text"


def _marked(line: str) -> str:
    """Names as code, and characters of Markdown as themselves."""
    parts = re.split(r"(`[^`]*`)", line)
    for at in range(0, len(parts), 2):
        parts[at] = _NAMED.sub(r"`\g<0>`", re.sub(r"([*<\[\]])", r"\\\1", parts[at]))
    return "".join(parts)


def page(header: str) -> str:
    """The whole page."""
    made = [
        "# C reference",
        "",
        "`docs/c_reference.py` writes this page from `vyre_cuda.h`; do not edit it by hand.",
        "[Bundles](bundles.md) and [the C++ service](cpp-service.md) show whole programs; [C++](cpp.md) describes "
        "`vyre_cuda.hpp`, and the rules for hosts.",
        "",
        markdown(introduction(header)),
        "",
    ]
    for each in items(header):
        if isinstance(each, Section):
            made += [f"## {each.title.capitalize()}", ""]
            continue
        made += [f"### `{each.function}`", ""] if each.function else []
        made += ["```c", each.code, "```", ""]
        made += [markdown(each.comment), ""] if each.comment else []
    return "\n".join(made).rstrip() + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    check = "--check" in (sys.argv[1:] if argv is None else argv)
    after = page(whole(HEADER))
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == after:
        return 0
    if check:
        print(f"{PAGE.name} is not what python docs/c_reference.py writes", file=sys.stderr)
        return 1
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
