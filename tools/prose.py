#!/usr/bin/env python3
"""Words and forms that pages and messages do not use: the rules of .vale/House, where Vale is not installed.

    python tools/prose.py            what is found more often than recorded
    python tools/prose.py --all      all of it
    python tools/prose.py --record   the record anew: tools/prose.json, which is only to become shorter

Pages are the Markdown files; messages are the strings of src, with its docstrings, and of csrc that have a space.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / ".vale" / "House"
RECORD = ROOT / "tools" / "prose.json"
LEFT_OUT = ("benchmarks/results/",)


class Text(NamedTuple):
    line: int
    words: str


class Finding(NamedTuple):
    file: str
    line: int
    words: str
    rule: str

    def __str__(self) -> str:
        return f'{self.file}:{self.line}: "{self.words}" ({self.rule})'


@functools.cache
def rules(folder: Path = RULES) -> list[tuple[str, re.Pattern[str]]]:
    """The patterns of the styles: items below `tokens`, keys below `swap`."""
    return [
        (path.stem, re.compile(match[1] or match[2], re.IGNORECASE))
        for path in sorted(folder.glob("*.yml"))
        for match in re.finditer(r"^  (?:- '(.*)'|'(.*?)': .*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def page(source: str) -> Iterator[Text]:
    """The lines of a page but its code."""
    is_code = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield Text(number, re.sub(r"`[^`]*`", "code", line))


def strings(source: str) -> Iterator[Text]:
    """The strings that have a space, docstrings among them; what is put into one is a word."""
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            words = "".join(str(v.value) if isinstance(v, ast.Constant) else "thing" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            words = node.value
        else:
            continue
        if " " in words:
            yield Text(node.lineno, " ".join(words.split()))


def literals(source: str) -> Iterator[Text]:
    """The string literals of C that have a space, those that stand beside each other as one."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: "\n" * m[0].count("\n"), source, flags=re.DOTALL)
    for match in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', code):
        words = re.sub(r'"\s*"', "", match[0])[1:-1]
        if " " in words:
            yield Text(code.count("\n", 0, match.start()) + 1, words)


READERS = {".md": page, ".py": strings, ".c": literals, ".h": literals, ".cpp": literals, ".hpp": literals}


def texts(name: str, source: str) -> Iterator[Text]:
    path = Path(name)
    is_ours = path.suffix == ".md" or path.parts[0] in ("src", "csrc")
    return READERS[path.suffix](source) if is_ours and path.suffix in READERS else iter(())


def find(name: str, source: str) -> Iterator[Finding]:
    """What one file has of the forms."""
    seen: set[tuple[int, str]] = set()
    for text in texts(name, source):
        for rule, pattern in rules():
            for match in pattern.finditer(text.words):
                if (text.line, match[0]) in seen:
                    continue
                seen.add((text.line, match[0]))
                yield Finding(name, text.line, match[0], rule)


def find_all() -> list[Finding]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.splitlines() if not name.startswith(LEFT_OUT)]
    paths = [(name, ROOT / name) for name in names if Path(name).suffix in READERS]
    return [f for name, path in paths if path.is_file() for f in find(name, path.read_text(encoding="utf-8"))]


def counts(findings: list[Finding]) -> dict[str, int]:
    """How often each form is there, wherever."""
    return dict(sorted(Counter(finding.words for finding in findings).items()))


def beyond(findings: list[Finding], record: Mapping[str, int]) -> list[Finding]:
    """Findings whose words are there more often than recorded."""
    found = counts(findings)
    return [finding for finding in findings if found[finding.words] > record.get(finding.words, 0)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    findings = find_all()
    if options.record:
        RECORD.write_text(json.dumps(counts(findings), indent=2) + "\n", encoding="utf-8")
        return 0
    shown = findings if options.all else beyond(findings, json.loads(RECORD.read_text(encoding="utf-8")))
    print(*shown, sep="\n", end="\n" if shown else "")
    return 1 if shown else 0


if __name__ == "__main__":
    sys.exit(main())
