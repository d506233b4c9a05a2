"""The tools beside these tests are plain modules: `run.py` and its processes use them without pytest, too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
