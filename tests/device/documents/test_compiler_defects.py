"""docs/compiler-defects.md: each defect of its table has a regression that runs on every device."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
REGRESSIONS = Path(__file__).parents[1] / "regressions"


def test_every_known_defect_has_a_regression() -> None:
    text = (ROOT / "docs" / "compiler-defects.md").read_text()
    rows = [line.rpartition("| ")[2] for line in text.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]

    assert len(rows) > 10
    assert all("`" in row for row in rows)
    assert [name for name in named if not (REGRESSIONS / f"{name}.vir").is_file()] == []
