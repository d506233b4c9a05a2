"""The error for an element that was not written, which the emulator reported by its number."""

from __future__ import annotations

import ctypes
from pathlib import Path

from vyre_cuda.codegen.core.lowered import Lowered
from vyre_cuda.errors import Error, InternalError
from vyre_cuda.ir.call.unwritten import read_error, returned_error
from vyre_cuda.ir.core.program import Program
from vyre_cuda.locations import EMULATOR_LIBRARY, get_library_dir
from vyre_cuda.runtime.kernel.lines import statement_of

# VYRE_EMULATOR_PARAMETER: the rest of a binding is a parameter of the kernel, which points to a temporary array.
_PARAMETER = 1 << 31


class _Info(ctypes.Structure):
    """vyre_emulator_unwritten_info of csrc/emulator/control.h."""

    _fields_ = (
        ("binding", ctypes.c_uint32),
        ("line", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("block", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
    )


def unwritten_error(program: Program, lowered: Lowered, number: int, thread: int) -> Error:
    """The error for the finding with this number, which a kernel of `lowered` had in this thread."""
    library = ctypes.CDLL(str(Path(get_library_dir()) / EMULATOR_LIBRARY))
    read = library.vyre_emulator_unwritten
    read.argtypes = [ctypes.c_uint64, ctypes.POINTER(_Info)]
    info = _Info()
    if read(number, ctypes.byref(info)) != 0:
        return InternalError(
            f"program {program.name} used an element that no thread wrote; the emulator no longer has the details"
        )
    if info.binding & _PARAMETER:
        buffer = program.parameters[info.binding & ~_PARAMETER]
    else:
        buffer = [p for p in program.parameters if p.is_buffer][info.binding]
    index = info.offset // buffer.type.itemsize
    if info.line == 0:
        return returned_error(program, buffer.name, index, count=info.bytes // buffer.type.itemsize)
    statement = statement_of(program, lowered, info.line)
    is_temporary = bool(info.binding & _PARAMETER)
    return read_error(program, buffer.name, index, statement=statement, thread=thread, is_temporary=is_temporary)


def watch_temporary(address: int, nbytes: int) -> None:
    """These bytes belong to a graph alone, and are unspecified at the start of each replay; no bytes: no longer."""
    library = ctypes.CDLL(str(Path(get_library_dir()) / EMULATOR_LIBRARY))
    watch = library.vyre_emulator_temporary
    watch.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
    if watch(address, nbytes) != 0:
        raise MemoryError
