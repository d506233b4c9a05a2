"""docs/compiler-defects.md: each defect of its table has a regression that runs on every device."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
REGRESSIONS = Path(__file__).with_name("regressions")


def test_every_known_defect_has_a_regression() -> None:
    rows = re.findall(r"\| `(\w+)` \|$", (ROOT / "docs" / "compiler-defects.md").read_text(), re.MULTILINE)

    assert len(rows) >= 6
    assert [name for name in rows if not (REGRESSIONS / f"{name}.vir").is_file()] == []
