"""The tools beside these tests are plain modules: `check.py` and its processes use them without pytest, too.

What a GPU answered to each instruction form is beside those of `tests/silicon`.
"""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "silicon")]
