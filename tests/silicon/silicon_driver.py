"""As much of the CUDA driver API as running the silicon kernels takes, from any library that has it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

# Function and the CUDA version whose ABI is meant.
_FUNCTIONS = {
    "cuInit": 2000,
    "cuDriverGetVersion": 2020,
    "cuGetErrorName": 6000,
    "cuDeviceGet": 2000,
    "cuDeviceGetName": 2000,
    "cuDevicePrimaryCtxRetain": 7000,
    "cuDevicePrimaryCtxRelease": 11000,
    "cuCtxSetCurrent": 4000,
    "cuCtxSynchronize": 2000,
    "cuMemAlloc": 3020,
    "cuMemFree": 3020,
    "cuMemcpyHtoDAsync": 3020,
    "cuMemcpyDtoHAsync": 3020,
    "cuMemsetD8Async": 3020,
    "cuModuleLoadDataEx": 2010,
    "cuModuleUnload": 2000,
    "cuModuleGetFunction": 2000,
    "cuLaunchKernel": 4000,
}
_JIT_ERROR_LOG_BUFFER, _JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 5, 6
_LOG_BYTES = 4096


class DriverCallError(RuntimeError):
    """A driver function returned an error."""


class Device:
    """The first device of a driver library, its primary context current in this thread."""

    def __init__(self, library: str | Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._functions = {name: self._look_up(name, version) for name, version in _FUNCTIONS.items()}
        self.call("cuInit", ctypes.c_uint(0))
        self._device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self._device), ctypes.c_int(0))
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self.call("cuCtxSetCurrent", context)

    def _look_up(self, name: str, version: int) -> ctypes._FuncPointer:
        address, status = ctypes.c_void_p(), ctypes.c_int()
        result = self._library.cuGetProcAddress_v2(
            name.encode(), ctypes.byref(address), ctypes.c_int(version), ctypes.c_uint64(0), ctypes.byref(status)
        )
        if result != 0 or not address.value:
            raise DriverCallError(f"the driver has no {name} of CUDA {version / 1000}")
        return ctypes.CFUNCTYPE(ctypes.c_int)(address.value)

    def call(self, name: str, *arguments: object) -> None:
        """Call a driver function. Raises DriverCallError unless it succeeds."""
        function = self._functions[name]
        function.argtypes = [type(a) if not hasattr(a, "_obj") else ctypes.c_void_p for a in arguments]
        result = function(*arguments)
        if result != 0:
            raise DriverCallError(f"{name} failed with CUresult {result}")

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.call("cuDevicePrimaryCtxRelease", self._device)

    @property
    def name(self) -> str:
        """The device's own name."""
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, ctypes.c_int(256), self._device)
        return text.value.decode()

    @property
    def driver_version(self) -> int:
        """CUDA version of the driver, major * 1000 + minor * 10."""
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return version.value

    def load(self, text: str) -> ctypes.c_void_p:
        """Assemble a PTX text. The error carries the assembler's log."""
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(_JIT_ERROR_LOG_BUFFER, _JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        try:
            self.call(
                "cuModuleLoadDataEx",
                ctypes.byref(module),
                ctypes.c_char_p(text.encode()),
                ctypes.c_uint(2),
                options,
                values,
            )
        except DriverCallError as error:
            raise DriverCallError(f"{error}: {log.value.decode(errors='replace')}") from None
        return module

    def unload(self, module: ctypes.c_void_p) -> None:
        """Free a module."""
        self.call("cuModuleUnload", module)

    def allocate(self, size_bytes: int) -> int:
        """Device memory, zeroed; its address."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc", ctypes.byref(address), ctypes.c_size_t(size_bytes))
        self.call("cuMemsetD8Async", address, ctypes.c_ubyte(0), ctypes.c_size_t(size_bytes), ctypes.c_void_p())
        return address.value

    def free(self, address: int) -> None:
        """Free device memory."""
        self.call("cuMemFree", ctypes.c_uint64(address))

    def write(self, address: int, data: npt.NDArray[np.uint64]) -> None:
        """Copy host words to device memory and wait."""
        source = np.ascontiguousarray(data)
        pointer = ctypes.c_void_p(source.ctypes.data)
        self.call(
            "cuMemcpyHtoDAsync", ctypes.c_uint64(address), pointer, ctypes.c_size_t(source.nbytes), ctypes.c_void_p()
        )
        self.call("cuCtxSynchronize")

    def read(self, address: int, words: int) -> npt.NDArray[np.uint64]:
        """Wait, then copy device memory to the host."""
        self.call("cuCtxSynchronize")
        target = np.zeros(words, np.uint64)
        pointer = ctypes.c_void_p(target.ctypes.data)
        self.call(
            "cuMemcpyDtoHAsync", pointer, ctypes.c_uint64(address), ctypes.c_size_t(target.nbytes), ctypes.c_void_p()
        )
        self.call("cuCtxSynchronize")
        return target

    def launch(self, module: ctypes.c_void_p, kernel: str, threads: int, arguments: Sequence[bytes]) -> None:
        """Start one block of a kernel; each argument is the bytes of one parameter."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(kernel.encode()))
        buffers = [ctypes.create_string_buffer(argument, len(argument)) for argument in arguments]
        pointers = (ctypes.c_void_p * len(buffers))(*(ctypes.addressof(b) for b in buffers))
        one, none = ctypes.c_uint(1), ctypes.c_void_p()
        self.call(
            "cuLaunchKernel",
            function,
            one,
            one,
            one,
            ctypes.c_uint(threads),
            one,
            one,
            ctypes.c_uint(0),
            none,
            pointers,
            none,
        )
