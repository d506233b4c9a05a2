"""A digest of the code that turns programs into kernels, which tells kernels of another version of it apart.

It covers the sources that matter, so that a change without a new version number is noticed, too.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from functools import lru_cache

import vyre_cuda
from vyre_cuda.cache.digest import digest

ROOMS = ("codegen", "descriptors", "functions", "ir", "passes")


_begun: list[threading.Thread] = []


def begin() -> None:
    """Begin to compute the digest: reading and hashing take milliseconds, in which a driver makes a context."""
    if _begun:
        return
    thread = threading.Thread(target=_try, name="vyre_cuda digest", daemon=True)
    _begun.append(thread)
    with contextlib.suppress(RuntimeError):  # no more threads: who asks computes it
        thread.start()


def generator_digest() -> bytes:
    """The digest of the version, names and contents of the code that this process runs."""
    for thread in _begun:
        if thread.ident is not None:  # else it could not be started
            thread.join()
    return _computed()


@lru_cache(maxsize=1)
def _computed() -> bytes:
    return digest_of(os.path.dirname(os.path.abspath(vyre_cuda.__file__)))


def _try() -> None:
    with contextlib.suppress(OSError):  # that of who asks is raised
        _computed()


def digest_of(package: str) -> bytes:
    """The digest of a copy of the package in a folder."""
    parts = [vyre_cuda.__version__.encode()]
    for room in ROOMS:
        for path in _modules(os.path.join(package, room)):
            with open(path, "rb", buffering=0) as file:
                data = file.read()
            parts += [f"{path[len(package) + 1 :]} {len(data)}".encode(), data]
    return digest(*parts)


def _modules(directory: str) -> Iterator[str]:
    """Source files, or what replaces them in an installation without sources, at any depth."""
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _modules(entry.path)
            elif entry.name.endswith((".py", ".pyc")):
                yield entry.path
