"""The error for a data race that the emulator reported by its number: buffer, element, statements and threads."""

from __future__ import annotations

import ctypes
from pathlib import Path

from vyre_cuda.codegen.core.lowered import Access, Lowered, ParameterKind
from vyre_cuda.codegen.lowering.isel_memory import symbol_name
from vyre_cuda.errors import DataRaceError, Error, InternalError, RacingAccess
from vyre_cuda.ir.call.geometry import array_sizes
from vyre_cuda.ir.core import walk
from vyre_cuda.ir.core.nodes import Const, Size, extent_name
from vyre_cuda.ir.core.program import Program
from vyre_cuda.locations import EMULATOR_LIBRARY, get_library_dir
from vyre_cuda.runtime.kernel.lines import statement_of

_SYMBOL_BYTES = 128
_SHARED_ALIGN = 16


class _Info(ctypes.Structure):
    """vyre_emulator_race_info of csrc/emulator/control.h."""

    _fields_ = (
        ("address", ctypes.c_uint64),
        ("bytes", ctypes.c_uint32),
        ("shared", ctypes.c_uint32),
        ("line", ctypes.c_uint32 * 2),
        ("block", ctypes.c_uint32 * 3 * 2),
        ("thread", ctypes.c_uint32 * 3 * 2),
        ("symbol_address", ctypes.c_uint64),
        ("symbol", ctypes.c_char * _SYMBOL_BYTES),
    )


def race_error(program: Program, lowered: Lowered, number: int) -> Error:
    """The error for the race with this number, which a kernel of `lowered` had."""
    library = ctypes.CDLL(str(Path(get_library_dir()) / EMULATOR_LIBRARY))
    read = library.vyre_emulator_race
    read.argtypes = [ctypes.c_uint64, ctypes.POINTER(_Info), ctypes.c_char_p, ctypes.c_uint64]
    info = _Info()
    parameters = ctypes.create_string_buffer(max(lowered.parameter_bytes, 1))
    if read(number, ctypes.byref(info), parameters, lowered.parameter_bytes) != 0:
        return InternalError(f"program {program.name} had a data race of which the emulator no longer has the details")
    buffer, index = _shared(program, info) if info.shared else _global(program, lowered, info, parameters.raw)
    first, second = (_access(program, lowered, info, which) for which in range(2))
    return DataRaceError(
        f"data race in program {program.name} at {buffer}[{index}]: "
        f"{_shown(first)} and {_shown(second)} are not ordered",
        program=program.name,
        buffer=buffer,
        index=index,
        first=first,
        second=second,
    )


def _access(program: Program, lowered: Lowered, info: _Info, which: int) -> RacingAccess:
    number = statement_of(program, lowered, info.line[which])
    found = next((s for n, s in enumerate(walk.statements(program.body)) if n == number), None)
    return RacingAccess(
        block=tuple(info.block[which]),
        thread=tuple(info.thread[which]),
        instruction=lowered.ptx.splitlines()[info.line[which] - 1].strip(),
        statement=number,
        source=found.source if found else None,
    )


def _shown(access: RacingAccess) -> str:
    where = "" if access.statement is None else f" of statement {access.statement}"
    if access.source is not None:
        where += f" ({access.source[0]}:{access.source[1]})"
    return f"thread {access.thread} of block {access.block} in '{access.instruction}'{where}"


def _global(program: Program, lowered: Lowered, info: _Info, parameters: bytes) -> tuple[str, int]:
    """The last buffer in use that begins at or before the address and is not known to end before it."""
    values: dict[tuple[ParameterKind, str], int] = {
        (p.kind, p.name): int.from_bytes(parameters[p.offset : p.offset + p.size], "little") for p in lowered.parameters
    }

    def used(access: Access) -> bool:
        return access.loads or access.stores or access.atomics

    def reaches(name: str, index: int) -> bool:
        size = _size(program, name)
        return used(lowered.access[name]) and index < (size if isinstance(size, int) else values.get(size, index + 1))

    found = [
        (values["buffer", p.name], p.name)
        for p in lowered.parameters
        if p.kind == "buffer"
        and p.type is not None
        and p.type.itemsize == info.bytes
        and values["buffer", p.name] <= info.address
        and reaches(p.name, (info.address - values["buffer", p.name]) // info.bytes)
    ]
    if not found:
        return f"address {info.address:#x}", 0
    start, name = max(found)
    return name, (info.address - start) // info.bytes


def _size(program: Program, name: str, axis: int | None = None) -> int | tuple[ParameterKind, str]:
    """The size or an extent of a buffer if it is declared as a number, else the kernel parameter that has it."""
    constant = array_sizes(program).get(name if axis is None else (name, axis))
    if constant is not None:
        return constant
    parameter = next(p for p in program.parameters if p.name == name)
    declared = parameter.size if axis is None else parameter.shape[axis]
    if isinstance(declared, Const):
        return declared.bits
    if isinstance(declared, Size):
        return _size(program, declared.buffer, declared.axis)
    return ("size", name) if axis is None else ("extent", extent_name(name, axis))


def _shared(program: Program, info: _Info) -> tuple[str, int]:
    """The shared array with this symbol; without one, the arrays lie one after the other."""
    start = 0
    for number, array in enumerate(program.shared):
        if info.symbol:
            if symbol_name("s", number, array.name)[: _SYMBOL_BYTES - 1] == info.symbol.decode():
                return array.name, (info.address - info.symbol_address) // array.type.itemsize
            continue
        end = start + array.size * array.type.itemsize
        if start <= info.address < end:
            return array.name, (info.address - start) // array.type.itemsize
        start += -(-(end - start) // _SHARED_ALIGN) * _SHARED_ALIGN
    return f"shared memory from byte {info.address}", 0
