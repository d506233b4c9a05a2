"""Sections of bytes by key in files, for every process of the user at once.

A file is complete or missing: it is written under another name and renamed. A damaged file counts as missing and is
removed, so that it is written again. When there are too many bytes, the least recently used files are removed first.
Nothing here fails a caller: what cannot be read counts as missing, and what cannot be written gives one RuntimeWarning.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from _thread import allocate_lock  # threading takes two milliseconds to import
from collections.abc import Callable, Sequence
from typing import TypeAlias

from vyre_cuda.cache import entry
from vyre_cuda.cache.directory import opened
from vyre_cuda.cache.files import PARTIAL, SUFFIX, Found, is_abandoned, listed, read, remove
from vyre_cuda.errors import CacheError

# Called with what happened: disk_cache_hits, _misses, _evictions, _read_bytes, _written_bytes, and _errors, which are
# files that were damaged or could not be written; and with how many.
Count: TypeAlias = Callable[[str, int], None]

MAX_BYTES = 256 << 20
# Files of other processes are noticed after this many of our own.
_WRITES_PER_LOOK = 16
# The fraction of the limit that is left after files were removed for new ones.
_KEPT = 7 / 8
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Store:
    """The files below `root`, of at most `max_bytes` together. Safe to use from many threads and processes."""

    def __init__(self, root: str, count: Count, max_bytes: int = MAX_BYTES) -> None:
        self.root = root
        self.max_bytes = max_bytes
        self._count = count
        self._lock = allocate_lock()
        self._warned = False
        self._bytes = 0  # of all files, as far as known
        self._writes = 0

    def read(self, key: str) -> tuple[bytes, ...] | None:
        """The sections written under the key, or None."""
        found = self._read(key)
        self._count("disk_cache_misses" if found is None else "disk_cache_hits", 1)
        return found

    def write(self, key: str, sections: Sequence[bytes]) -> None:
        """Store the sections; others can read them when this returns."""
        nbytes = entry.file_bytes(sections)
        if nbytes > min(self.max_bytes, entry.MAX_BYTES):
            return
        data = entry.encode(bytes.fromhex(key), sections)
        try:
            try:
                self._write(key, data)
            except FileNotFoundError:
                self._write(key, data)  # somebody removed it in the meantime, or the directory
        except FileNotFoundError as error:
            if not os.path.isdir(self.root):  # it cannot be made, as in /proc
                self._count("disk_cache_errors", 1)
                self._warn(error)
            return  # else somebody does so again: as if written and removed
        except (OSError, CacheError) as error:
            self._count("disk_cache_errors", 1)
            self._warn(error)
            return
        self._count("disk_cache_written_bytes", nbytes)
        self._keep_within(nbytes, key + SUFFIX)

    def discard(self, key: str) -> None:
        """Remove what was written under the key, because the driver rejected it."""
        self._count("disk_cache_errors", 1)
        with contextlib.suppress(OSError, CacheError), opened(self.root, create=False) as directory:
            os.unlink(key + SUFFIX, dir_fd=directory)

    # ---- files ------------------------------------------------------------------------------------------------------

    def _read(self, key: str) -> tuple[bytes, ...] | None:
        name = key + SUFFIX
        try:
            with opened(self.root, create=False) as directory:
                data = self._whole(name, directory)
                if data is None:
                    return None
                try:
                    sections = entry.decode(data, bytes.fromhex(key))
                except entry.Damaged:
                    self._remove_damaged(name, directory)
                    return None
                with contextlib.suppress(OSError):  # on a read-only disk
                    os.utime(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except (OSError, CacheError) as error:
            self._warn(error)
            return None
        self._count("disk_cache_read_bytes", len(data))
        return sections

    def _whole(self, name: str, directory: int) -> bytes | None:
        """The file's bytes. A file that exists and cannot be read, such as a symbolic link, counts as damaged, too."""
        try:
            return read(name, directory)
        except FileNotFoundError:
            return None
        except (OSError, entry.Damaged):
            self._remove_damaged(name, directory)
            return None

    def _remove_damaged(self, name: str, directory: int) -> None:
        self._count("disk_cache_errors", 1)
        with contextlib.suppress(OSError):
            remove(name, directory)

    def _write(self, key: str, data: bytes) -> None:
        with opened(self.root, create=True) as directory:
            partial = f"{PARTIAL}{os.getpid()}-{os.urandom(8).hex()}"
            try:
                _put(partial, directory, data)
                _replace(partial, key + SUFFIX, directory)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(partial, dir_fd=directory)
                raise

    def _keep_within(self, added: int, new: str) -> None:
        """Remove the least recently used files if there are too many bytes. All files are listed only now and then."""
        with self._lock:
            look = self._writes % _WRITES_PER_LOOK == 0 or self._bytes + added > self.max_bytes
            self._writes += 1
            self._bytes += added
        if not look:
            return
        try:
            with opened(self.root, create=False) as directory:
                left = self._remove_oldest(directory, listed(directory), new)
        except (OSError, CacheError):
            return  # what was written is kept; the next write checks again
        with self._lock:
            self._bytes = left

    def _remove_oldest(self, directory: int, found: list[Found], new: str) -> int:
        """Returns the bytes that are left. The file that was just written stays."""
        now = time.time()
        total = sum(each.nbytes for each in found)
        bound = self.max_bytes if total <= self.max_bytes else int(self.max_bytes * _KEPT)
        for each in sorted(found, key=lambda each: each.used(now)):
            if each.name != new and (total > bound or is_abandoned(each, now)):
                with contextlib.suppress(OSError):
                    remove(each.name, directory)
                    self._count("disk_cache_evictions", int(each.is_entry))
                total -= each.nbytes
        return total

    def _warn(self, error: Exception) -> None:
        with self._lock:
            first = not self._warned
            self._warned = True
        if first:
            reason = f"{error.filename or self.root}: {error.strerror}" if isinstance(error, OSError) else str(error)
            warnings.warn(f"kernels are not cached on disk: {reason}", RuntimeWarning, stacklevel=2)


def _put(name: str, directory: int, data: bytes) -> None:
    handle = os.open(name, _NEW, 0o600, dir_fd=directory)
    with open(handle, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]


def _replace(name: str, new: str, directory: int) -> None:
    try:
        os.replace(name, new, src_dir_fd=directory, dst_dir_fd=directory)
    except IsADirectoryError:
        remove(new, directory)
        os.replace(name, new, src_dir_fd=directory, dst_dir_fd=directory)
