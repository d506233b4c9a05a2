"""A kernel's entry for large launches, with several elements a thread. It is compiled before the first of them."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

from vyre_cuda._native.core.module import Module, link
from vyre_cuda.cache.store import Store
from vyre_cuda.codegen.core.lowered import Several
from vyre_cuda.descriptors import stored
from vyre_cuda.errors import CompileError, DriverError
from vyre_cuda.later import later
from vyre_cuda.runtime.kernel.kernels import Key, disk_key

if TYPE_CHECKING:
    from vyre_cuda._native.call.prepared import PreparedKernel
    from vyre_cuda.runtime.kernel import large_lowering, lowering
    from vyre_cuda.runtime.kernel.kernel import Kernel
else:
    large_lowering = later("vyre_cuda.runtime.kernel.large_lowering")
    lowering = later("vyre_cuda.runtime.kernel.lowering")


def several_of(kernel: Kernel) -> Several | None:
    """The form for large launches; None if these keep one element a thread."""
    if kernel.large_from != 0:
        provide(kernel)
    return kernel.several


def provide(kernel: Kernel) -> None:
    """Give a kernel its entry, if it has one; launches of all sizes are plain after this."""
    kernel.device._kernels.large_flights.run(id(kernel), lambda: _provide(kernel))


def _provide(kernel: Kernel) -> None:
    if kernel.large_from == 0:
        return  # another thread has just done it
    kernel.several = add_large(kernel, kernel.prepared, rows=False)
    kernel.large_from = 0
    kernel.leave_from(0)


def add_large(kernel: Kernel, prepared: PreparedKernel, *, rows: bool) -> Several | None:
    """Give `prepared`, which is the kernel or, with `rows`, its entry for many launches in one, its form for large
    launches; None: these keep one element a thread."""
    store = kernel.device._kernels.store
    large = _Large(kernel, prepared, rows=rows)
    return large.compiled() if store is None else large.stored(store)


class _Large:
    def __init__(self, kernel: Kernel, prepared: PreparedKernel, *, rows: bool) -> None:
        self._kernel = kernel
        self._prepared = prepared
        self._rows = rows

    def stored(self, store: Store) -> Several | None:
        """From a file or, if there is none that can be used, compiled and written to one."""
        kernel = self._kernel
        key: Key = (kernel.program.to_bytes(), kernel.precision, kernel.bounds, kernel.max_ulp, kernel.known)
        name = disk_key("large rows" if self._rows else "large", key, kernel.device.properties)
        sections = store.read(name)
        if sections is not None:
            try:
                facts, ptx, image = sections
                return self._loaded(stored.decode_several(facts, ptx, kernel.program), image) if facts else None
            except (ValueError, DriverError):
                store.discard(name)
        several = self._lowered()
        if several is None:
            store.write(name, (b"", b"", b""))
            return None
        ptx = several.ptx.encode("ascii")
        try:
            image = link(kernel.device.context, ptx)
            self._loaded(several, image)
        except CompileError as error:
            raise _explained(error, kernel) from None
        store.write(name, (stored.encode_several(several), ptx, image))
        return several

    def compiled(self) -> Several | None:
        several = self._lowered()
        try:
            return None if several is None else self._loaded(several, several.ptx.encode("ascii"))
        except CompileError as error:
            raise _explained(error, self._kernel) from None

    def _lowered(self) -> Several | None:
        kernel = self._kernel
        begin = perf_counter_ns()
        several = large_lowering.large_lowered(
            kernel.program,
            kernel.lowered,
            kernel.device.properties,
            precision=kernel.precision,
            bounds=kernel.bounds,
            max_ulp=kernel.max_ulp,
            known=kernel.known,
            rows=self._rows,
        )
        if several is not None:
            kernel.device._kernels.count_compile(perf_counter_ns() - begin)
        return several

    def _loaded(self, several: Several, image: bytes) -> Several:
        """It is launched from now on."""
        module = Module(self._kernel.device.context, image)
        self._prepared.add_several(module, several.entry, several.elements, several.threads)
        return several


def _explained(error: CompileError, kernel: Kernel) -> CompileError:
    return lowering.explained(error, kernel.program, bounds=kernel.bounds, known=kernel.known)
