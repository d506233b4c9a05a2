"""Another library: it calls the driver itself, past vyre_cuda, and shares its arrays and streams by the public
protocols, as CuPy does. The driver is the emulator, or that of a GPU.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import vyre_cuda as vc

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2  # CUstreamCaptureMode
_SINCE = {
    "cuStreamCreate": 2000,
    "cuStreamDestroy": 4000,
    "cuStreamSynchronize": 2000,
    "cuStreamBeginCapture": 10010,
    "cuStreamEndCapture": 10000,
    "cuStreamGetCaptureInfo": 12000,
    "cuStreamWaitEvent": 3020,
    "cuEventCreate": 2000,
    "cuEventRecord": 2000,
    "cuEventDestroy": 4000,
    "cuGraphInstantiateWithFlags": 11040,
    "cuGraphLaunch": 10000,
    "cuGraphExecDestroy": 10000,
    "cuGraphDestroy": 10000,
    "cuMemAlloc": 3020,
    "cuMemFree": 3020,
    "cuMemHostRegister": 6050,
    "cuMemHostUnregister": 4000,
    "cuMemcpyHtoDAsync": 3020,
    "cuMemcpyDtoHAsync": 3020,
    "cuDevicePrimaryCtxRetain": 7000,
    "cuDevicePrimaryCtxRelease": 11000,
    "cuCtxGetCurrent": 4000,
    "cuCtxSetCurrent": 4000,
    "cuThreadExchangeStreamCaptureMode": 10010,
}


class Library:
    """The driver functions, with the device's context current in this thread."""

    def __init__(self, ordinal: int = 0, *, is_emulator: bool = True) -> None:
        self._ordinal = ordinal
        emulator = str(Path(vc.get_library_dir()) / "libvyre_cuda_emulator.so")
        library = ctypes.CDLL(emulator if is_emulator else os.environ.get("VYRE_CUDA_DRIVER") or "libcuda.so.1")
        self._lookup = library.cuGetProcAddress_v2
        self._lookup.argtypes = [
            ctypes.c_char_p,
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_uint64,
            ctypes.c_void_p,
        ]
        self._functions: dict[str, Any] = {}

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; RuntimeError when it fails."""
        result = self.try_call(name, *arguments)
        if result != 0:
            raise RuntimeError(f"{name} gave {result}")

    def try_call(self, name: str, *arguments: Any) -> int:
        function = self._functions.get(name)
        if function is None:
            address = ctypes.c_void_p()
            if self._lookup(name.encode(), ctypes.byref(address), _SINCE[name], 0, None) != 0 or not address.value:
                raise RuntimeError(f"the driver has no {name}")
            function = self._functions[name] = ctypes.CFUNCTYPE(ctypes.c_int)(address.value)
        return int(function(*arguments))

    @contextmanager
    def current(self) -> Iterator[Library]:
        """Hold the primary context, and make it current, as another library does."""
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._ordinal)
        self.call("cuCtxSetCurrent", context)
        try:
            yield self
        finally:
            self.call("cuCtxSetCurrent", None)
            self.call("cuDevicePrimaryCtxRelease", self._ordinal)

    def current_context(self) -> int | None:
        """The handle of what is current in this thread."""
        context = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(context))
        return context.value

    def stream(self, *, blocking: bool = False) -> ForeignStream:
        handle = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(handle), 0 if blocking else 1)
        assert handle.value is not None
        return ForeignStream(self, handle.value)

    def array(self, data: np.ndarray, stream: ForeignStream | None = None) -> ForeignArray:
        return ForeignArray(self, data, stream)


class ForeignStream:
    """A stream with `__cuda_stream__`; `handle` 1 and 2 are the default streams."""

    def __init__(self, library: Library, handle: int) -> None:
        self.library = library
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle

    def synchronize(self) -> None:
        self.library.call("cuStreamSynchronize", ctypes.c_void_p(self.handle))

    def destroy(self) -> None:
        self.library.call("cuStreamDestroy", ctypes.c_void_p(self.handle))

    def abandon(self) -> None:
        """Destroy it with the capture that could not be ended, which the thread's mode forbids as it is."""
        mode = ctypes.c_int(RELAXED)
        self.library.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            self.destroy()
        finally:
            self.library.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))

    def begin_capture(self, mode: int = GLOBAL) -> None:
        self.library.call("cuStreamBeginCapture", ctypes.c_void_p(self.handle), mode)

    def end_capture(self) -> CapturedGraph:
        """RuntimeError when something has ended the capture before."""
        graph = ctypes.c_void_p()
        self.library.call("cuStreamEndCapture", ctypes.c_void_p(self.handle), ctypes.byref(graph))
        return CapturedGraph(self.library, graph)

    def frontier(self) -> int:
        """How many nodes the next one that is captured comes behind."""
        status, count = ctypes.c_int(), ctypes.c_size_t()
        nodes = ctypes.c_void_p()
        arguments = (ctypes.byref(status), None, None, ctypes.byref(nodes), ctypes.byref(count))
        self.library.call("cuStreamGetCaptureInfo", ctypes.c_void_p(self.handle), *arguments)
        return count.value

    def wait(self, other: ForeignStream) -> None:
        """Come behind what the other has been given; inside a capture this one joins it."""
        event = ctypes.c_void_p()
        self.library.call("cuEventCreate", ctypes.byref(event), 2)
        self.library.call("cuEventRecord", event, ctypes.c_void_p(other.handle))
        self.library.call("cuStreamWaitEvent", ctypes.c_void_p(self.handle), event, 0)
        self.library.call("cuEventDestroy", event)


class CapturedGraph:
    """What was captured; replayed on a stream and waited for."""

    def __init__(self, library: Library, graph: ctypes.c_void_p) -> None:
        self.library = library
        self.graph = graph

    def replay(self, stream: ForeignStream) -> None:
        executable = ctypes.c_void_p()
        self.library.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), self.graph, ctypes.c_uint64(0))
        self.library.call("cuGraphLaunch", executable, ctypes.c_void_p(stream.handle))
        stream.synchronize()
        self.library.call("cuGraphExecDestroy", executable)

    def destroy(self) -> None:
        self.library.call("cuGraphDestroy", self.graph)


class ForeignArray:
    """Device memory with `__cuda_array_interface__`; written and read on the library's own stream."""

    def __init__(self, library: Library, data: np.ndarray, stream: ForeignStream | None) -> None:
        self.library = library
        self.stream = stream
        self.shape, self.dtype = data.shape, data.dtype
        self.interface: dict[str, Any] = {}  # entries that a test gives otherwise
        address = ctypes.c_uint64()
        library.call("cuMemAlloc", ctypes.byref(address), ctypes.c_size_t(max(data.nbytes, 1)))
        self.address = address.value
        self.write(data)

    @property
    def _on(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(1 if self.stream is None else self.stream.handle)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        described: dict[str, Any] = {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
        }
        if self.stream is not None:
            described["stream"] = self.stream.handle
        return {**described, **self.interface}

    def write(self, data: np.ndarray) -> None:
        """Enqueue a copy into the array; the driver takes the bytes at once."""
        source = np.ascontiguousarray(data)
        self.library.call(
            "cuMemcpyHtoDAsync",
            ctypes.c_uint64(self.address),
            ctypes.c_void_p(source.ctypes.data),
            ctypes.c_size_t(source.nbytes),
            self._on,
        )

    def read(self) -> np.ndarray:
        """A copy out, in the order of the library's stream."""
        result = np.empty(self.shape, self.dtype)
        self.library.call(
            "cuMemcpyDtoHAsync",
            ctypes.c_void_p(result.ctypes.data),
            ctypes.c_uint64(self.address),
            ctypes.c_size_t(result.nbytes),
            self._on,
        )
        return result

    def free(self) -> None:
        self.library.call("cuMemFree", ctypes.c_uint64(self.address))


class Wrapped:
    """Another library's array that only speaks DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.array.__dlpack_device__()
        return device
