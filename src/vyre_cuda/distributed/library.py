"""Where libnccl.so.2 is: what is named, what is loaded or on the loader's path, or the wheel that PyTorch brings."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from vyre_cuda._native.collective.collective import nccl_open, nccl_version
from vyre_cuda.errors import UnsupportedError

_NAME = "libnccl.so.2"


def open_nccl() -> None:
    """Open it, once for the process. UnsupportedError says what to install."""
    try:
        nccl_version()
        return
    except UnsupportedError:
        pass
    named = os.environ.get("VYRE_CUDA_NCCL")
    failures: list[str] = []
    for path in [named] if named else [*wheels(), None]:
        try:
            nccl_open(path)
            return
        except UnsupportedError as error:
            failures.append(str(error))
    raise UnsupportedError(
        f"NCCL cannot be used: {'; '.join(failures)}. Install it (pip install nvidia-nccl-cu12, or nvidia-nccl-cu13 "
        f"for CUDA 13), or name {_NAME} in VYRE_CUDA_NCCL",
        capability="nccl",
    )


def wheels() -> list[str]:
    """That of the wheel nvidia-nccl, where it is installed: PyTorch uses that too, and both share it then."""
    spec = find_spec("nvidia") if find_spec("nvidia") is not None else None
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return [str(path) for folder in folders if (path := Path(folder, "nccl", "lib", _NAME)).is_file()]
