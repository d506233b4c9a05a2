"""The links of the pages lead somewhere: each relative one to a file of the checkout, each anchor to a heading."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "benchmarks/*.md", "csrc/**/*.md", "src/**/*.md", "tests/**/*.md")
    for path in ROOT.glob(pattern)
)

_FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1\s*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.*?)(?: +#+)? *$", re.MULTILINE)
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")


class Link(NamedTuple):
    path: str
    anchor: str


def links(text: str) -> Iterator[Link]:
    """The links of a page that do not leave the project."""
    for target in _LINK.findall(_without(text, _FENCE, _COMMENT, _CODE)):
        if not re.match(r"[a-z][a-z+.-]*:", target):
            path, _, anchor = target.partition("#")
            yield Link(path, anchor)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    found: set[str] = set()
    seen: Counter[str] = Counter()
    for heading in _HEADING.findall(_without(text, _FENCE, _COMMENT)):
        words = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def _without(text: str, *parts: re.Pattern[str]) -> str:
    for part in parts:
        text = part.sub("", text)
    return text


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere, and why."""
    found = []
    for path, anchor in links(page.read_text(encoding="utf-8")):
        target = page.parent / path if path else page
        if not target.exists():
            found.append(f"{path}: no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
            found.append(f"{path}#{anchor}: no such heading")
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    assert broken(ROOT / page) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_a_page_of_the_site_links_to_no_page_outside_of_it(page: str) -> None:
    found = [path for path, _ in links((ROOT / page).read_text(encoding="utf-8")) if path.endswith(".md")]

    assert [path for path in found if "/" in path] == []


def test_the_pages_and_their_links_are_found() -> None:
    assert {"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs/programs.md"} < set(PAGES)
    assert Link("docs/programs.md", "") in links((ROOT / "README.md").read_text(encoding="utf-8"))


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Over `there`: a_b, c\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#over-there-a_b-c) [c](other.md#twice-1) [d](https://example.org/x) `[e](f)`\n"
        "```\n[g](h)\n```\n"
        '[i](gone.md) ![j](gone.svg "a picture") [k](#here)\n[l](other.md#no-heading) [m](other.md#twice-2)\n'
    )

    assert broken(page) == [
        "gone.md: no such file",
        "gone.svg: no such file",
        "#here: no such heading",
        "other.md#no-heading: no such heading",
        "other.md#twice-2: no such heading",
    ]
