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
from vyre_cuda.runtime.kernel.kernels import Kernels, Key, disk_key

if TYPE_CHECKING:
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
    kernel.device._kernels.large_flights.run(id(kernel), lambda: _provide(kernel, kernel.device._kernels))


def _provide(kernel: Kernel, kernels: Kernels) -> None:
    if kernel.large_from == 0:
        return  # another thread has just done it
    store = kernels.store
    kernel.several = _compiled(kernel, kernels) if store is None else _stored(kernel, kernels, store)
    kernel.large_from = 0
    kernel.leave_from(0)


def _stored(kernel: Kernel, kernels: Kernels, store: Store) -> Several | None:
    """From a file or, if there is none that can be used, compiled and written to one."""
    key: Key = (kernel.program.to_bytes(), kernel.precision, kernel.bounds, kernel.max_ulp, kernel.known)
    name = disk_key("large", key, kernel.device.properties)
    sections = store.read(name)
    if sections is not None:
        try:
            facts, ptx, image = sections
            return _loaded(kernel, stored.decode_several(facts, ptx, kernel.program), image) if facts else None
        except (ValueError, DriverError):
            store.discard(name)
    several = _lowered(kernel, kernels)
    if several is None:
        store.write(name, (b"", b"", b""))
        return None
    ptx = several.ptx.encode("ascii")
    try:
        image = link(kernel.device.context, ptx)
        _loaded(kernel, several, image)
    except CompileError as error:
        raise _explained(error, kernel) from None
    store.write(name, (stored.encode_several(several), ptx, image))
    return several


def _compiled(kernel: Kernel, kernels: Kernels) -> Several | None:
    several = _lowered(kernel, kernels)
    try:
        return None if several is None else _loaded(kernel, several, several.ptx.encode("ascii"))
    except CompileError as error:
        raise _explained(error, kernel) from None


def _lowered(kernel: Kernel, kernels: Kernels) -> Several | None:
    begin = perf_counter_ns()
    several = large_lowering.large_lowered(
        kernel.program,
        kernel.lowered,
        kernel.device.properties,
        precision=kernel.precision,
        bounds=kernel.bounds,
        max_ulp=kernel.max_ulp,
        known=kernel.known,
    )
    if several is not None:
        kernels.count_compile(perf_counter_ns() - begin)
    return several


def _loaded(kernel: Kernel, several: Several, image: bytes) -> Several:
    """The kernel launches the entry from now on."""
    module = Module(kernel.device.context, image)
    kernel.prepared.add_several(module, several.entry, several.elements, several.threads)
    return several


def _explained(error: CompileError, kernel: Kernel) -> CompileError:
    return lowering.explained(error, kernel.program, bounds=kernel.bounds, known=kernel.known)
