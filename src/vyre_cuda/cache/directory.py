"""Where cached files are: a directory of the user that nobody else can read.

`VYRE_CUDA_CACHE_DIR`, else `vyre-cuda` in `XDG_CACHE_HOME`, else in `~/.cache`. Files lie in its `kernels`, which has
mode 0700 and is accessed by one handle from then on, so that nobody can replace it between a check and a use.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping

from vyre_cuda.errors import CacheError

VARIABLE = "VYRE_CUDA_CACHE_DIR"
OFF = "off"
KERNELS = "kernels"
_PRIVATE = 0o700
_OTHERS = 0o077
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def cache_root(environment: Mapping[str, str]) -> str | None:
    """The directory that the environment names, None if it turns the cache off. CacheError: it names none."""
    named = environment.get(VARIABLE, "")
    if named.lower() == OFF:
        return None
    if named:
        return os.path.abspath(named)
    for base, *below in (("XDG_CACHE_HOME",), ("HOME", ".cache")):
        path = environment.get(base, "")
        if os.path.isabs(path):  # the XDG specification ignores others
            return os.path.join(path, *below, "vyre-cuda")
    raise CacheError(f"no directory for the cache: set {VARIABLE}, XDG_CACHE_HOME or HOME to an absolute path")


@contextlib.contextmanager
def opened(root: str, *, create: bool) -> Iterator[int]:
    """A handle of the directory of files. OSError: it does not exist and is not to be created, or cannot be.

    CacheError: it belongs to another user.
    """
    if create:
        os.makedirs(root, _PRIVATE, exist_ok=True)
    with _handle(root, root, _OPEN) as outer:
        path = os.path.join(root, KERNELS)
        if create:
            with contextlib.suppress(FileExistsError):
                os.mkdir(KERNELS, _PRIVATE, dir_fd=outer)
        with _handle(path, KERNELS, _OPEN | os.O_NOFOLLOW, outer) as inner:
            if stat.S_IMODE(os.fstat(inner).st_mode) & _OTHERS:
                os.fchmod(inner, _PRIVATE)
            yield inner


@contextlib.contextmanager
def _handle(path: str, name: str, flags: int, within: int | None = None) -> Iterator[int]:
    """A handle of a directory that belongs to the user; `path` is used in messages."""
    handle = os.open(name, flags, dir_fd=within)
    try:
        owner, user = os.fstat(handle).st_uid, os.geteuid()
        if owner != user:
            raise CacheError(
                f"{path} belongs to user {owner}, not to {user}: set {VARIABLE} to a directory of your own"
            )
        yield handle
    finally:
        os.close(handle)
