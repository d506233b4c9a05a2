"""The kernels of a device: each program is compiled once, by one thread of one process.

A kernel is looked up in memory, then on disk as the image that the device's linker made; a file that cannot be
used counts as missing. Without a disk cache the driver compiles the text itself, and may have a cache of its own.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Collection
from contextlib import suppress
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeAlias

from vyre_cuda._native.core.context import STATS, Context
from vyre_cuda._native.core.module import link
from vyre_cuda.cache.digest import key_of
from vyre_cuda.cache.directory import cache_root
from vyre_cuda.cache.flight import SingleFlight
from vyre_cuda.cache.lru import LRU
from vyre_cuda.cache.store import Count, Store
from vyre_cuda.descriptors import stored
from vyre_cuda.errors import CacheError, CompileError, DeviceUnavailableError, DriverError, InternalError
from vyre_cuda.ir.core.program import Program
from vyre_cuda.later import later
from vyre_cuda.records import replace
from vyre_cuda.runtime.kernel.assertions import ChecksByTag
from vyre_cuda.runtime.kernel.compiler_fingerprint import generator_digest
from vyre_cuda.runtime.kernel.kernel import CompileTimes, Kernel

if TYPE_CHECKING:
    from vyre_cuda._native.call.prepared import PreparedKernel
    from vyre_cuda.codegen.core.lowered import Lowered
    from vyre_cuda.ir.call.known import Known
    from vyre_cuda.runtime.base.properties import DeviceProperties
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel import lowering
    from vyre_cuda.runtime.kernel.rows_entry import Entry
else:
    lowering = later("vyre_cuda.runtime.kernel.lowering")

_KEPT = 1024
_TABLES_KEPT = 64
_BYTES_KEPT = 256 << 20
# Wire bytes, precision, bounds, max_ulp, known values.
Key: TypeAlias = "tuple[bytes, str, str, float | None, tuple[Known, ...]]"


class Kernels:
    """The kernels of one device by program and options, and the checks of all that were made."""

    def __init__(self, context: Context, *, checks: Collection[str]) -> None:
        self.checks = ChecksByTag()
        self._context = context
        self.made_for = checks
        self._recent: LRU[Kernel] = LRU(_KEPT, _BYTES_KEPT, self._count_change)
        self._flights: SingleFlight[Kernel] = SingleFlight()
        self.rows_flights: SingleFlight[Entry] = SingleFlight()
        self.large_flights: SingleFlight[None] = SingleFlight()
        # Entries for many launches of several kernels, by the keys of these, and the arrays that they have themselves.
        self.tables: LRU[PreparedKernel] = LRU(_TABLES_KEPT, _BYTES_KEPT)
        self.tables_flights: SingleFlight[PreparedKernel] = SingleFlight()
        self._tags = itertools.count(1)
        self.store = None if checks else _store(self._count)

    def kernel(
        self,
        device: Device,
        program: Program,
        precision: str,
        bounds: str,
        max_ulp: float | None,
        known: tuple[Known, ...],
        label: str = "",
    ) -> Kernel:
        """The kernel of a valid program; `label` is what messages call it, by default its name and line."""
        key = (program.to_bytes(), precision, bounds, max_ulp, known)
        kernel = self._known(key)
        return self._flights.run(key, lambda: self._new(device, program, key, label)) if kernel is None else kernel

    def looks_for(self, check: str) -> bool:
        """Whether the emulator looks for this mistake."""
        return check in self.made_for

    def clear(self) -> None:
        """Forget the kernels; those that are still held keep working."""
        self._recent.clear()
        self.tables.clear()

    def _known(self, key: Key) -> Kernel | None:
        kernel = self._recent.get(key)
        if kernel is not None:
            self._count("kernel_cache_hits", 1)
        return kernel

    def _new(self, device: Device, program: Program, key: Key, label: str) -> Kernel:
        kernel = self._known(key)  # another thread may just have finished it
        if kernel is not None:
            return kernel
        self._count("kernel_cache_misses", 1)
        store = self.store
        if store is None:
            return self._keep(key, self._compiled(device, program, key, label)[0])
        name = disk_key("kernel", key, device.properties)
        begin = perf_counter_ns()
        found = store.read(name)
        kernel = None if found is None else self._revived(device, program, key, label, found, perf_counter_ns() - begin)
        if kernel is not None:
            return self._keep(key, kernel)
        if found is not None:
            store.discard(name)
        kernel, sections = self._compiled(device, program, key, label, linked=True)
        kept = self._keep(key, kernel)
        begin = perf_counter_ns()
        store.write(name, sections)
        kernel.compile_times = replace(kernel.compile_times, writing_ns=perf_counter_ns() - begin)
        return kept

    def _keep(self, key: Key, kernel: Kernel) -> Kernel:
        return self._recent.setdefault(key, kernel, kernel.nbytes)

    def _count(self, name: str, n: int) -> None:
        with suppress(DeviceUnavailableError):  # in a forked child, where the counters belong to the parent
            self._context.count(STATS[name], n)

    def _count_change(self, entries: int, nbytes: int, dropped: int) -> None:
        self._count("kernel_cache_entries", entries)
        self._count("kernel_cache_bytes", nbytes)
        self._count("kernel_cache_evictions", dropped)

    def _revived(
        self, device: Device, program: Program, key: Key, label: str, sections: tuple[bytes, ...], read_ns: int
    ) -> Kernel | None:
        """The kernel in a file; None if this program, this package or the driver cannot use it."""
        begin = perf_counter_ns()
        try:
            facts, ptx, image = sections
            kernel = self._kernel(device, program, key, label, stored.decode(facts, ptx, program), image)
        except (ValueError, DriverError, InternalError):
            return None
        kernel.compile_times = CompileTimes(reading_ns=read_ns, loading_ns=perf_counter_ns() - begin)
        return kernel

    def _compiled(
        self, device: Device, program: Program, key: Key, label: str, *, linked: bool = False
    ) -> tuple[Kernel, tuple[bytes, ...]]:
        """A new kernel and, if linked, the contents of its file."""
        found, passes_ns, lowering_ns = lowering.lowered(
            program,
            device.properties,
            precision=key[1],
            bounds=key[2],
            checks=self.made_for,
            max_ulp=key[3],
            known=key[4],
        )
        self.count_compile(passes_ns + lowering_ns)
        ptx = found.ptx.encode("ascii")
        try:
            begin = perf_counter_ns()
            image = link(device.context, ptx) if linked else None
            loading = perf_counter_ns()
            kernel = self._kernel(device, program, key, label, found, image)
            kernel.compile_times = CompileTimes(
                passes_ns=passes_ns,
                lowering_ns=lowering_ns,
                linking_ns=loading - begin if linked else 0,
                loading_ns=perf_counter_ns() - loading,
            )
        except CompileError as error:
            if self.made_for:
                raise
            raise lowering.explained(error, program, bounds=key[2], known=key[4]) from None
        return kernel, () if image is None else (stored.encode(found), ptx, image)

    def count_compile(self, ns: int) -> None:
        """Count a program that was lowered."""
        self._count("compiles", 1)
        self._count("compile_ns_total", ns)

    def new_tag(self) -> int:
        """A number for the checks of a kernel, which identifies its reports."""
        return next(self._tags)

    def _kernel(
        self, device: Device, program: Program, key: Key, label: str, lowered: Lowered, image: bytes | None
    ) -> Kernel:
        tag = self.new_tag()
        _, precision, bounds, max_ulp, known = key
        options: dict[str, Any] = {"precision": precision, "bounds": bounds, "max_ulp": max_ulp, "known": known}
        kernel = Kernel(device, program, lowered, tag, **options, image=image, label=label)
        self.checks.add(tag, kernel.checks)
        return kernel


def _store(count: Count) -> Store | None:
    try:
        root = cache_root(os.environ)
    except CacheError as error:
        warnings.warn(f"kernels are not cached on disk: {error}", RuntimeWarning, stacklevel=4)
        return None
    return None if root is None else Store(root, count)


def disk_key(kind: str, key: Key, properties: DeviceProperties) -> str:
    """A key of everything that changes what is stored for a program: its `kernel` or its `block`."""
    wire, precision, bounds, max_ulp, known = key
    words = (
        *(kind, precision, bounds, str(max_ulp), "emulator" if properties.is_emulator else "cuda"),
        *map(str, (*properties.compute_capability, properties.driver_version)),
        *(f"{each.name}={each.bits}" for each in known),
    )
    return key_of([generator_digest(), wire, *(word.encode() for word in words)])
