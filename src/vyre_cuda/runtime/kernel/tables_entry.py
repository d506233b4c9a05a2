"""The entry of several kernels that does many launches of each in one. It is compiled once for these kernels."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, TypeAlias

from vyre_cuda._native.call.prepared import PreparedKernel
from vyre_cuda._native.core.module import Module, link
from vyre_cuda.cache.digest import key_of
from vyre_cuda.codegen.emit import rows
from vyre_cuda.descriptors.signature import PARAMETER_KINDS, ROLES
from vyre_cuda.errors import DriverError, UnsupportedError, counted
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord
from vyre_cuda.runtime.base.properties import KernelAttributes
from vyre_cuda.runtime.kernel.kernel import Kernel, kernel_label
from vyre_cuda.runtime.kernel.kernels import Kernels, Key, disk_key

if TYPE_CHECKING:
    from vyre_cuda.runtime.kernel import tables_lowering
else:
    tables_lowering = later("vyre_cuda.runtime.kernel.tables_lowering")

_ENTRY = "vyre_tables"
MOST_ARRAYS = 16  # of an entry; the C layer has the same number
_DYNAMIC_BYTES = 4  # of the number in a file that says how much shared memory a launch requests


class TablesEntry(FrozenRecord, eq=False):
    """The prepared entry; None: `why` says why the kernels are faster apart."""

    prepared: PreparedKernel | None
    why: str = ""


class Place(FrozenRecord):
    """An array that a launch of the entry can replace: the bytes of its elements, and whether rows write it."""

    itemsize: int
    is_written: bool


Places: TypeAlias = tuple[Place, ...]


def entry_of(kernels: Sequence[Kernel], blocks: int, places: Places = ()) -> TablesEntry:
    """The entry for launches of so many blocks in all, of kernels of one device that have the same block and nothing
    that keeps rows apart. Raises the errors of `Device.compile`."""
    of_device = kernels[0].device._kernels
    key = (tuple(_key(kernel) for kernel in kernels), places)
    prepared = of_device.tables.get(key)
    if prepared is None:
        try:
            prepared = of_device.tables_flights.run(key, lambda: of_device.tables.get(key) or _made(kernels, *key))
        except UnsupportedError as error:
            if error.capability != "tables":
                raise
            return TablesEntry(None, str(error))
    why = _too_large(prepared, kernels, blocks)
    return TablesEntry(None if why else prepared, why)


def _key(kernel: Kernel) -> Key:
    return kernel.program.to_bytes(), kernel.precision, kernel.bounds, kernel.max_ulp, kernel.known


def _made(kernels: Sequence[Kernel], keys: tuple[Key, ...], places: Places) -> PreparedKernel:
    of_device = kernels[0].device._kernels
    store = of_device.store
    key = keys, places
    if store is None:
        ptx, dynamic = _lowered(kernels, of_device, places)
        return of_device.tables.setdefault(key, loaded(kernels, ptx, dynamic, places), len(ptx))
    words = [disk_key("tables", each, kernels[0].device.properties).encode() for each in keys]
    name = key_of([*words, f"{len(places)} arrays".encode()] if places else words)
    sections = store.read(name)
    if sections is not None:
        try:
            dynamic_bytes, _, image = sections
            dynamic = int.from_bytes(dynamic_bytes, "little")
            return of_device.tables.setdefault(key, loaded(kernels, image, dynamic, places), len(image))
        except (ValueError, DriverError):
            store.discard(name)
    ptx, dynamic = _lowered(kernels, of_device, places)
    image = link(kernels[0].device.context, ptx)
    made = of_device.tables.setdefault(key, loaded(kernels, image, dynamic, places), len(image))
    store.write(name, (dynamic.to_bytes(_DYNAMIC_BYTES, "little"), ptx, image))
    return made


def _lowered(kernels: Sequence[Kernel], of_device: Kernels, places: Places) -> tuple[bytes, int]:
    begin = perf_counter_ns()
    found = tables_lowering.lowered(kernels, len(places))
    of_device.count_compile(perf_counter_ns() - begin)
    return found.ptx.encode("ascii"), found.dynamic_shared_bytes


def loaded(kernels: Sequence[Kernel], image: bytes, dynamic: int, places: Places = ()) -> PreparedKernel:
    """The entry of this image, which requests so many bytes of shared memory."""
    words = [*rows.WORDS, *rows.ends(len(kernels))]
    at = [rows.TABLE_AT + 8 + 4 * n for n in range(len(words))]
    parameters = [(PARAMETER_KINDS["buffer"], 0, rows.TABLE_AT, 8)]
    parameters += [(PARAMETER_KINDS["scalar"], n, offset, 4) for n, offset in enumerate(at)]
    begin = -(-(at[-1] + 4) // 8) * 8 if places else at[-1] + 4
    parameters += [(PARAMETER_KINDS["buffer"], 1 + n, begin + 8 * n, 8) for n in range(len(places))]
    return PreparedKernel(
        Module(kernels[0].device.context, image),
        _ENTRY,
        kernels[0].program.block,
        dynamic,
        begin + 8 * len(places),
        parameters,
        [
            (ROLES["in"], 0, rows.ALIGN, 0),
            *((ROLES["inout" if place.is_written else "in"], 0, place.itemsize, 0) for place in places),
        ],
        len(words),
        0,
        False,
        label=f"many launches of {', '.join(kernel_label(kernel.program) for kernel in kernels)} as one",
    )


def _too_large(entry: PreparedKernel, kernels: Sequence[Kernel], blocks: int) -> str:
    """Why they are faster apart: the entry spills, or too few of its blocks fit."""
    made = KernelAttributes(**entry.function_info())
    apart = [kernel.attributes for kernel in kernels]
    most = max(each.local_bytes for each in apart)
    if made.local_bytes > most:
        return f"one kernel for all would spill {made.local_bytes} bytes a thread, the kernels apart {most}"
    multiprocessors = kernels[0].device.properties.multiprocessor_count
    needed = min(-(-blocks // multiprocessors), min(each.resident_blocks for each in apart))
    if made.resident_blocks < needed:
        return (
            f"a multiprocessor would hold {counted(made.resident_blocks, 'block')} of one kernel for all, but {needed} "
            "of each"
        )
    return ""
