"""`configure_jit_cache`: settings of the driver's own cache, made once in a process before the driver reads them."""

from __future__ import annotations

import os
import tempfile
import threading
import warnings

from vyre_cuda._native.context import driver_started
from vyre_cuda.cache.jit import DISABLE, PATH, jit_settings
from vyre_cuda.cache.jit import JitCache as JitCache
from vyre_cuda.errors import CacheError

_GIB = 1 << 30


class _Process:
    """What was configured. There is one of it, as there is one environment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: tuple[str | None, int, bool] | None = None
        self._made: JitCache | None = None

    def configure(self, asked: tuple[str | None, int, bool]) -> JitCache:
        with self._lock:
            if self._made is not None:
                if asked != self._asked:
                    raise CacheError(
                        "the driver's cache is configured already, with other arguments: call it once in a process"
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
    """Let the driver keep what it compiles from PTX, of at most `max_bytes`, in `directory`; before it starts.

    This is the cache of the driver for all PTX of the process, that of other libraries too; kernels of programs are
    in a cache of the package besides. The directory is `vyre-cuda/cuda-jit` in XDG_CACHE_HOME or ~/.cache if none is
    given. CUDA_CACHE_PATH and CUDA_CACHE_MAXSIZE are kept where they are set. CUDA_CACHE_DISABLE=1 is kept, with a
    RuntimeWarning, unless `force`.

    CacheError: the driver has started, the environment has an empty path or a size that is no number or below
    `max_bytes`, nothing can be written to the directory, or the process has configured it otherwise. TypeError and
    ValueError: wrong arguments.
    """
    path = None
    if directory is not None:
        path = os.fspath(directory)
        if not path:
            raise ValueError("an empty directory: give a path, or None for the default one")
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int):
        raise TypeError(f"max_bytes of type {type(max_bytes).__name__}; an int is needed")
    if max_bytes < 1:
        raise ValueError(f"max_bytes={max_bytes}: the cache needs room; set CUDA_CACHE_DISABLE=1 to have none")
    return _PROCESS.configure((path, max_bytes, bool(force)))


def _require_writable(directory: str) -> None:
    try:
        os.makedirs(directory, 0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise CacheError(
            f"the driver cannot keep anything in {directory} ({error.strerror}): give a directory that can be "
            f"written to, by {PATH} or the argument"
        ) from error
