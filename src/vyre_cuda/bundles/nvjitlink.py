"""PTX to machine code by NVIDIA's nvJitLink library, in this process and without a GPU.

The library comes from the wheel nvidia-nvjitlink, else from where the loader finds it. Its functions carry the version
that introduced them; those of the first minor version remain (CUDA toolkit, nvJitLink.h).
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from vyre_cuda.codegen.core.target import Target
from vyre_cuda.errors import CompileError

_MAJORS = (13, 12)
_INPUT_PTX = 2


class NvJitLink:
    """The functions of one library."""

    def __init__(self, library: ctypes.CDLL, major: int) -> None:
        self._library = library
        self._suffix = f"_{major}_0"

    def cubin(self, ptx: str, target: Target) -> bytes:
        """The machine code. CompileError, with the log, if the library rejects the text."""
        handle = ctypes.c_void_p()
        text = ptx.encode("ascii") + b"\0"
        options = (ctypes.c_char_p * 1)(f"-arch={target}".encode())
        result = self._call("Create", ctypes.byref(handle), ctypes.c_uint32(1), options)
        if result != 0:
            raise CompileError(
                f"nvJitLink does not support {target} (error {result}): update nvidia-nvjitlink, or write cubins=False",
                op="nvJitLinkCreate",
                status=result,
            )
        try:
            result = self._call("AddData", handle, _INPUT_PTX, text, ctypes.c_size_t(len(text)), b"kernel")
            result = result or self._call("Complete", handle)
            if result != 0:
                log = self._bytes(handle, "ErrorLog").rstrip(b"\0").decode("utf-8", "replace")
                raise CompileError(
                    f"nvJitLink refused a kernel for {target}:\n{log}",
                    op="nvJitLinkComplete",
                    status=result,
                    log=log,
                    ptx=ptx,
                )
            return self._bytes(handle, "LinkedCubin")
        finally:
            self._call("Destroy", ctypes.byref(handle))

    def _bytes(self, handle: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        if self._call(f"Get{what}Size", handle, ctypes.byref(size)) != 0:
            return b""
        room = ctypes.create_string_buffer(size.value)
        return room.raw if self._call(f"Get{what}", handle, room) == 0 else b""

    def _call(self, name: str, *arguments: object) -> int:
        result: int = getattr(self._library, f"__nvJitLink{name}{self._suffix}")(*arguments)
        return result


@functools.cache
def find_nvjitlink() -> NvJitLink | None:
    """The newest library that can be found."""
    for path, major in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        if hasattr(library, f"__nvJitLinkCreate_{major}_0"):
            return NvJitLink(library, major)
    return None


def _candidates() -> Iterator[tuple[str, int]]:
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or [])] if spec is not None else []
    for major in _MAJORS:
        name = f"libnvJitLink.so.{major}"
        for root in roots:
            for found in sorted(root.glob(f"*/lib/{name}")):
                yield str(found), major
        yield name, major
