"""The tools beside these tests are plain modules: `check.py` and its processes use them without pytest, too.

What a GPU answered to each instruction form is beside those of `tests/silicon`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "silicon")]

_COUNTS = _HERE / "test_instruction_counts.py"
_RECORD = _HERE / "instruction_counts.json"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Another ptxas counts otherwise than the one of the record, so its counts are only recorded, not compared."""
    counting = [item for item in items if item.path == _COUNTS]
    if not counting or config.getoption("--update-golden"):
        return
    from disassembly import has_tools, ptxas_version  # beside the tests: found by the path above

    recorded = json.loads(_RECORD.read_text(encoding="ascii"))["ptxas"]
    if has_tools() and ptxas_version() != recorded:
        reason = f"recorded with ptxas {recorded}, this is {ptxas_version()}"
        for item in counting:
            item.add_marker(pytest.mark.skip(reason=reason))
