"""The tools beside these tests are plain modules: `record.py` runs them without pytest, too."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from vyre_cuda.locations import EMULATOR_LIBRARY, get_library_dir

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def library() -> str:
    """The emulator's library; VYRE_CUDA_EMULATOR_LIBRARY names another build."""
    return os.environ.get("VYRE_CUDA_EMULATOR_LIBRARY") or str(Path(get_library_dir()) / EMULATOR_LIBRARY)
