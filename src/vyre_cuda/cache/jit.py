"""Settings for the driver's own cache of compiled PTX, worked out from an environment.

Nothing here changes the environment or accesses a disk.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from vyre_cuda.errors import CacheError
from vyre_cuda.records import FrozenRecord

PATH: Final = "CUDA_CACHE_PATH"
MAXSIZE: Final = "CUDA_CACHE_MAXSIZE"
DISABLE: Final = "CUDA_CACHE_DISABLE"
_OFF: Final = ("", "0")


class JitCache(FrozenRecord):
    """The driver's cache of compiled PTX: its directory, its limit in bytes, whether the driver uses it.

    `variables` are the environment variables that were set here and had another value, or none, before.
    """

    directory: str
    max_bytes: int
    enabled: bool
    variables: Mapping[str, str]


def jit_settings(environment: Mapping[str, str], directory: str | None, max_bytes: int, force: bool) -> JitCache:
    """What `configure_jit_cache` with these arguments sets in this environment.

    CacheError, which says what to set, if something in the environment is wrong.
    """
    wanted = {PATH: _path(environment, directory), MAXSIZE: str(_size(environment, max_bytes))}
    disabled = environment.get(DISABLE, "") not in _OFF
    if disabled and force:
        wanted[DISABLE] = "0"
    return JitCache(
        directory=wanted[PATH],
        max_bytes=int(wanted[MAXSIZE]),
        enabled=force or not disabled,
        variables={name: value for name, value in wanted.items() if name == DISABLE or name not in environment},
    )


def _path(environment: Mapping[str, str], directory: str | None) -> str:
    given = environment.get(PATH)
    if given is not None:
        if not given:
            raise CacheError(f"{PATH} is empty: set it to a directory, or unset it")
        return given
    if directory is not None:
        return os.path.abspath(directory)
    for base, *below in (("XDG_CACHE_HOME",), ("HOME", ".cache")):
        path = environment.get(base, "")
        if os.path.isabs(path):
            return os.path.join(path, *below, "vyre-cuda", "cuda-jit")
    raise CacheError(f"no directory for the driver's cache: set {PATH}, XDG_CACHE_HOME or HOME to an absolute path")


def _size(environment: Mapping[str, str], least: int) -> int:
    given = environment.get(MAXSIZE)
    if given is None:
        return least
    if not (given.isascii() and given.isdigit()):
        raise CacheError(f"{MAXSIZE}={given!r} is not a number of bytes: set it to at least {least}, or unset it")
    if int(given) < least:
        raise CacheError(
            f"{MAXSIZE}={given} is below the {least} bytes that were asked for: set it to at least that, unset it, "
            f"or ask for max_bytes={given}"
        )
    return int(given)
