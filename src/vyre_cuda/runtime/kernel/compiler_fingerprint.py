"""A digest of the code that turns programs into kernels, which tells kernels of another version of it apart.

It covers the sources that matter, so that a change without a new version number is noticed, too.
"""

from __future__ import annotations

import contextlib
import os
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Iterator
from functools import lru_cache

import vyre_cuda
from vyre_cuda.cache.digest import digest_of_all

ROOMS = ("codegen", "descriptors", "functions", "ir", "passes")
_AT_ONCE = 1 << 16  # bytes: more than any source has


# A lock that the thread holds until it is done. No Thread, because threading takes two milliseconds to import.
_begun: list[LockType] = []
os.register_at_fork(after_in_child=lambda: _begun.clear())  # a child has no such thread


def begin() -> None:
    """Begin to compute the digest: reading and hashing take milliseconds, in which a driver makes a context."""
    if _begun:
        return
    done = allocate_lock()
    done.acquire()
    with contextlib.suppress(RuntimeError):  # no more threads: who asks computes it
        start_new_thread(_try, (done,))
        _begun.append(done)


def generator_digest() -> bytes:
    """The digest of the version, names and contents of the code that this process runs."""
    for done in _begun:
        with done:
            pass
    return _computed()


@lru_cache(maxsize=1)
def _computed() -> bytes:
    return digest_of(os.path.dirname(os.path.abspath(vyre_cuda.__file__)))


def _try(done: LockType) -> None:
    """Imports nothing: the thread that imports threading first is the main thread to it."""
    try:
        with contextlib.suppress(OSError):  # that of who asks is raised
            _computed()
    finally:
        done.release()


def digest_of(package: str) -> bytes:
    """The digest of a copy of the package in a folder."""
    return digest_of_all(_parts(package))


def _parts(package: str) -> Iterator[bytes]:
    yield vyre_cuda.__version__.encode()
    for room in ROOMS:
        for path in _modules(os.path.join(package, room)):
            data = _content(path)
            yield f"{path[len(package) + 1 :]} {len(data)}".encode()
            yield data


def _content(path: str) -> bytes:
    """What `open` would read, in half the time."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, _AT_ONCE)
        while more := os.read(descriptor, _AT_ONCE):
            data += more
        return data
    finally:
        os.close(descriptor)


def _modules(directory: str) -> Iterator[str]:
    """Source files, or what replaces them in an installation without sources, at any depth."""
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _modules(entry.path)
            elif entry.name.endswith((".py", ".pyc")):
                yield entry.path
