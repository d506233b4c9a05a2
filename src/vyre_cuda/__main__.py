"""`python -m vyre_cuda` is `vyre-cuda`."""

from __future__ import annotations

import sys

from vyre_cuda.cli import main

if __name__ == "__main__":
    sys.exit(main())
