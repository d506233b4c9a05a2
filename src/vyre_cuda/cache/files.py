"""Maintenance of a cache directory: its files are listed, verified and removed."""

from __future__ import annotations

import contextlib
import os
import stat

from vyre_cuda.cache import entry
from vyre_cuda.cache.digest import BYTES
from vyre_cuda.cache.directory import opened
from vyre_cuda.records import FrozenRecord

SUFFIX = ".kernel"
PARTIAL = ".partial-"
# Seconds after which an unfinished file is considered abandoned.
_ABANDONED = 3600.0
# The clocks of machines that share a directory differ by less.
_CLOCKS = 86400.0
_HEX = frozenset("0123456789abcdef")


class Found(FrozenRecord):
    """A file of the cache; `modified`, in seconds since the epoch, is when it was last used."""

    name: str
    nbytes: int
    modified: float

    @property
    def is_entry(self) -> bool:
        return not self.name.startswith(PARTIAL)

    def used(self, now: float) -> float:
        """When it was last used; long ago for a time in the future, which would keep it forever."""
        return self.modified if self.modified <= now + _CLOCKS else 0.0


class Contents(FrozenRecord):
    """What a cache directory holds: finished files and their bytes, and unfinished or abandoned ones."""

    entries: int
    bytes: int
    partial: int


def is_abandoned(found: Found, now: float) -> bool:
    """Whether its writer is long gone."""
    return not found.is_entry and now - found.used(now) > _ABANDONED


def listed(directory: int) -> list[Found]:
    """The files that belong to the cache by their name; others are left alone."""
    rows = []
    with os.scandir(directory) as found:
        for each in found:
            if _key_of(each.name) is None and not each.name.startswith(PARTIAL):
                continue
            with contextlib.suppress(FileNotFoundError):  # removed in the meantime
                status = each.stat(follow_symlinks=False)
                rows.append(Found(each.name, status.st_size, status.st_mtime))
    return rows


def contents(root: str) -> Contents:
    """The contents of the cache below `root`; empty if there is none yet."""
    try:
        with opened(root, create=False) as directory:
            found = listed(directory)
    except FileNotFoundError:
        found = []
    entries = [each for each in found if each.is_entry]
    return Contents(len(entries), sum(each.nbytes for each in entries), len(found) - len(entries))


def verify(root: str) -> dict[str, str]:
    """What is wrong with each damaged file, by its name."""
    wrong = {}
    try:
        with opened(root, create=False) as directory:
            for each in sorted(listed(directory), key=lambda each: each.name):
                key = _key_of(each.name)
                if key is None:
                    continue
                with contextlib.suppress(FileNotFoundError):  # removed in the meantime
                    try:
                        entry.decode(read(each.name, directory), key)
                    except entry.Damaged as damage:
                        wrong[each.name] = str(damage)
                    except OSError as error:
                        if isinstance(error, FileNotFoundError):
                            raise
                        wrong[each.name] = error.strerror or str(error)
    except FileNotFoundError:
        return {}
    return wrong


def clear(root: str) -> int:
    """Remove every file of the cache, even while it is in use; returns the number of finished ones."""
    removed = 0
    try:
        with opened(root, create=False) as directory:
            for each in listed(directory):
                with contextlib.suppress(FileNotFoundError):
                    remove(each.name, directory)
                    removed += each.is_entry
    except FileNotFoundError:
        return 0
    return removed


def read(name: str, directory: int) -> bytes:
    """The file's bytes. Raises Damaged if it is not a regular file or is too large."""
    # Nonblocking: a pipe in place of a file must not make this wait.
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    with open(handle, "rb", buffering=0) as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise entry.Damaged("not a regular file")
        if status.st_size > entry.MAX_BYTES:
            raise entry.Damaged(f"the file has {status.st_size} bytes; at most {entry.MAX_BYTES} are read")
        return file.read(entry.MAX_BYTES)


def remove(name: str, directory: int) -> None:
    """Remove a file, or a directory in place of one that is empty."""
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        os.rmdir(name, dir_fd=directory)


def _key_of(name: str) -> bytes | None:
    key, suffix = name[: -len(SUFFIX)], name[-len(SUFFIX) :]
    if suffix != SUFFIX or len(key) != 2 * BYTES or not _HEX.issuperset(key):
        return None
    return bytes.fromhex(key)
