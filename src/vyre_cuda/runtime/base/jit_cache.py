"""`configure_jit_cache`: sets up the driver's own cache, once per process, before the driver reads its settings."""

from __future__ import annotations

import os
import tempfile
import threading
import warnings

from vyre_cuda._native.core.context import driver_started
from vyre_cuda.cache.jit import DISABLE, PATH, jit_settings
from vyre_cuda.cache.jit import JitCache as JitCache
from vyre_cuda.errors import CacheError, type_name

_GIB = 1 << 30


class _Process:
    """What was configured. There is only one, as there is one environment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: tuple[str | None, int, bool] | None = None
        self._made: JitCache | None = None

    def configure(self, asked: tuple[str | None, int, bool]) -> JitCache:
        with self._lock:
            if self._made is not None:
                if asked != self._asked:
                    raise CacheError(
                        "the driver's cache was already configured with other arguments: call this once per process"
                    )
                return self._made
            if driver_started(os.environ.get("VYRE_CUDA_DRIVER") or None):
                raise CacheError(
                    "the CUDA driver has started in this process, by a Device or another library, and has read its "
                    f"settings: call configure_jit_cache before that, or set {PATH} in the environment of the process"
                )
            settings = jit_settings(os.environ, *asked)
            _require_writable(settings.directory)
            os.environ.update(settings.variables)
            self._asked, self._made = asked, settings
        if not settings.enabled:
            warnings.warn(
                f"{DISABLE}={os.environ[DISABLE]} is set, so the driver caches nothing (unset it, or force=True)",
                RuntimeWarning,
                stacklevel=3,
            )
        return settings


_PROCESS = _Process()


def configure_jit_cache(
    directory: str | os.PathLike[str] | None = None, max_bytes: int = _GIB, force: bool = False
) -> JitCache:
    """Let the driver cache what it compiles from PTX; call it before the driver starts.

    This is the driver's cache for all PTX of the process, including that of other libraries; kernels of programs are
    also in a cache of the package. CUDA_CACHE_PATH and CUDA_CACHE_MAXSIZE are respected where they are set, and so is
    CUDA_CACHE_DISABLE=1, with a RuntimeWarning.

    Parameters
    ----------
    directory
        Where the cache is, unless CUDA_CACHE_PATH is set; None for `vyre-cuda/cuda-jit` in XDG_CACHE_HOME or ~/.cache.
    max_bytes
        Its limit in bytes, unless CUDA_CACHE_MAXSIZE is set, which must not be less.
    force
        Whether the driver caches even where the environment has CUDA_CACHE_DISABLE=1; other variables stay as they are.

    Returns
    -------
    JitCache
        What is set now.

    Raises
    ------
    CacheError
        The driver has started, the environment has an empty path, a size that is not a number or is below `max_bytes`,
        or nothing that says where the cache is; the directory is not writable, or the process has configured the cache
        otherwise.
    TypeError, ValueError
        Wrong arguments.
    """
    path = None
    if directory is not None:
        if not isinstance(directory, (str, bytes, os.PathLike)):
            raise TypeError(f"directory is {type_name(directory)}; it must be a path, or None for the default one")
        path = os.fspath(directory)
        if not path:
            raise ValueError("the directory is an empty string: give a path, or None for the default one")
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int):
        raise TypeError(f"max_bytes must be an int, not {type_name(max_bytes)}")
    if max_bytes < 1:
        raise ValueError(
            f"max_bytes={max_bytes}: the cache needs at least 1 byte; set CUDA_CACHE_DISABLE=1 to have no cache"
        )
    return _PROCESS.configure((path, max_bytes, bool(force)))


def _require_writable(directory: str) -> None:
    try:
        os.makedirs(directory, 0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise CacheError(
            f"the driver cannot write to {directory} ({error.strerror}): give a directory that can be "
            f"written to, by {PATH} or the argument"
        ) from error
