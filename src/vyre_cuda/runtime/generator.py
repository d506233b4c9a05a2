"""What makes kernels of programs, as a digest: kernels that another generator made are not these.

The digest is of the sources that decide, so that also a change without a new version number is noticed.
"""

from __future__ import annotations

import os
from functools import lru_cache

from vyre_cuda import __version__
from vyre_cuda.cache.digest import digest

ROOMS = ("functions", "ir", "passes", "plan", "ptx")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@lru_cache(maxsize=1)
def generator_digest() -> bytes:
    """Of version, names and contents, of what this process runs."""
    parts = [__version__.encode()]
    for room in ROOMS:
        directory = os.path.join(_PACKAGE, room)
        for name in sorted(os.listdir(directory)):
            if name.endswith((".py", ".pyc")):
                with open(os.path.join(directory, name), "rb", buffering=0) as file:
                    data = file.read()
                parts += [f"{room}/{name} {len(data)}".encode(), data]
    return digest(*parts)
