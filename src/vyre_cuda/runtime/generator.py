"""What makes kernels of programs, as a digest: kernels that another generator made are not these.

The digest is of the sources that decide, so that also a change without a new version number is noticed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache

import vyre_cuda
from vyre_cuda.cache.digest import digest

ROOMS = ("codegen", "descriptors", "functions", "ir", "passes")


@lru_cache(maxsize=1)
def generator_digest() -> bytes:
    """Of version, names and contents, of what this process runs."""
    return digest_of(os.path.dirname(os.path.abspath(vyre_cuda.__file__)))


def digest_of(package: str) -> bytes:
    """That of a copy of the package in a folder."""
    parts = [vyre_cuda.__version__.encode()]
    for room in ROOMS:
        for path in _modules(os.path.join(package, room)):
            with open(path, "rb", buffering=0) as file:
                data = file.read()
            parts += [f"{os.path.relpath(path, package)} {len(data)}".encode(), data]
    return digest(*parts)


def _modules(directory: str) -> Iterator[str]:
    """Sources, or what stands for them in an installation without, at any depth."""
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _modules(entry.path)
            elif entry.name.endswith((".py", ".pyc")):
                yield entry.path
