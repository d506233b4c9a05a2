"""Every function of the C interface is run by the schedule explorer, or its page says why not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXPLORER = ROOT / "tests" / "explorer"


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\bvyc_[a-z0-9_]+\b", text))


def test_each_function_is_explored_or_listed_with_a_reason() -> None:
    public = set((ROOT / "csrc" / "symbols.txt").read_text().split())
    explored = public & names_in("".join(path.read_text() for path in sorted(EXPLORER.glob("*.c"))))
    listed = names_in((EXPLORER / "README.md").read_text().partition("## Functions that no operation calls")[2])
    assert listed == public - explored
