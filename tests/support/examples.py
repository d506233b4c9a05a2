"""How many examples tests of random programs draw."""

from __future__ import annotations

import os

from hypothesis import settings


def examples(times: int = 1) -> int:
    """VYRE_CUDA_TEST_EXAMPLES, by default so many times those of the run: 25, with --long 100."""
    return int(os.environ.get("VYRE_CUDA_TEST_EXAMPLES", times * settings.default.max_examples))
