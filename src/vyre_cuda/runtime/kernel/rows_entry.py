"""The entry of a kernel that does many launches in one. It is compiled when it is first needed."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, TypeAlias

from vyre_cuda._native.call.prepared import PreparedKernel
from vyre_cuda._native.core.module import Module, link
from vyre_cuda.codegen.clearing import clearing_program
from vyre_cuda.codegen.core.lowered import Lowered
from vyre_cuda.codegen.emit import rows
from vyre_cuda.codegen.emit.text import entry_name
from vyre_cuda.descriptors import stored
from vyre_cuda.descriptors.signature import PARAMETER_KINDS, ROLES
from vyre_cuda.errors import CompileError, DriverError, UnsupportedError
from vyre_cuda.ir.core import limits
from vyre_cuda.later import later
from vyre_cuda.records import replace
from vyre_cuda.runtime.kernel.assertions import Checks
from vyre_cuda.runtime.kernel.kernel import kernel_label
from vyre_cuda.runtime.kernel.kernels import Kernels, Key, disk_key

if TYPE_CHECKING:
    from vyre_cuda.runtime.kernel import large_entry, lowering, many
    from vyre_cuda.runtime.kernel.kernel import Kernel
else:
    large_entry = later("vyre_cuda.runtime.kernel.large_entry")
    lowering = later("vyre_cuda.runtime.kernel.lowering")
    many = later("vyre_cuda.runtime.kernel.many")

_Kernels: TypeAlias = tuple[PreparedKernel | None, PreparedKernel | None, PreparedKernel | None]

CHECKS = "checks of the emulator, which name the buffers of a launch"


def what_keeps_apart(kernel: Kernel) -> str | None:
    """Why the rows of a kernel are launched one after the other; None: they can be one launch."""
    if kernel.is_without_body:
        return "its body, which is not in the bundle"
    if kernel.bounds == "trap":
        return 'bounds="trap"'
    if kernel.lowered.asserts:
        return "assertions"
    if kernel.lowered.cooperative:
        return "grid barriers"
    if kernel.lowered.prints:
        return "lines that it prints, whose order is that of the launches"
    if kernel.lowered.sites:
        return CHECKS
    return None


def clearing_of(kernel: Kernel) -> Kernel | None:
    """The kernel that clears results where this one may leave gaps; None: it leaves none."""
    outs = (p.name for p in kernel.program.parameters if p.kind == "out" and p.zeroed)
    if all(name in kernel.lowered.covered for name in outs):
        return None
    return kernel.device.compile(clearing_program())


class Entry:
    """The prepared entry, what explains its failed checks, and the kernel that clears results where it leaves gaps."""

    def __init__(self, kernel: Kernel) -> None:
        self.prepared: PreparedKernel | None = None
        self._checks: Checks | None = None
        self._clearing: Kernel | None = None
        self._of_bundle: _Kernels | None = None
        # How many threads the first launch has that needs to know of the form for large launches; 0: it is known.
        self.large_from = 0
        if what_keeps_apart(kernel) is not None:
            return
        try:
            self._make(kernel, kernel.device._kernels)
        except UnsupportedError as error:
            if error.capability != "rows":
                raise
            return
        self._clearing = clearing_of(kernel)
        if self._clearing is not None or kernel.large_from != 0 or kernel.several is not None:
            self.large_from = limits.LARGE_LAUNCH

    def provide_large(self, kernel: Kernel) -> None:
        """The form for large launches, of the kernel that clears too, if they have one."""
        kernel.device._kernels.large_flights.run(id(self), lambda: self._provide(kernel))

    def _provide(self, kernel: Kernel) -> None:
        if self.large_from == 0:
            return  # another thread has just done it
        if self.prepared is not None and (kernel.large_from != 0 or kernel.several is not None):
            large_entry.add_large(kernel, self.prepared, rows=True)
        if self._clearing is not None and (of_clearing := many.entry(self._clearing)).large_from != 0:
            of_clearing.provide_large(self._clearing)
        self.large_from = 0

    def kernels(self) -> _Kernels:
        """The prepared entry, the kernel that clears, and its entry."""
        if self._of_bundle is not None:
            return self._of_bundle
        clearing = self._clearing
        if clearing is None:
            return self.prepared, None, None
        return self.prepared, clearing.prepared, many.entry(clearing).prepared

    @classmethod
    def of_bundle(
        cls, prepared: PreparedKernel, clearing: PreparedKernel | None, many_clearing: PreparedKernel | None
    ) -> Entry:
        """The entry that a bundle has for one of its kernels; it knows no form for large launches."""
        made = cls.__new__(cls)
        made.prepared, made.large_from = prepared, 0
        made._checks = made._clearing = None
        made._of_bundle = (prepared, clearing, many_clearing)
        return made

    def _make(self, kernel: Kernel, kernels: Kernels) -> None:
        key: Key = (kernel.program.to_bytes(), kernel.precision, kernel.bounds, kernel.max_ulp, kernel.known)
        tag = kernels.new_tag()
        store = kernels.store
        if store is None:
            found = _lowered(kernel, kernels)
            # Without the parameters, which are not those of the launch that is checked.
            self._checks = Checks(kernel.program, replace(found, parameters=()))
            kernels.checks.add(tag, self._checks)
            self.prepared = _loaded(kernel, found.ptx.encode("ascii"), tag)
            return
        name = disk_key("rows", key, kernel.device.properties)
        sections = store.read(name)
        if sections is not None:
            self.prepared = _revived(kernel, sections, tag)
            if self.prepared is not None:
                return
            store.discard(name)
        found = _lowered(kernel, kernels)
        ptx = found.ptx.encode("ascii")
        try:
            image = link(kernel.device.context, ptx)
            self.prepared = _loaded(kernel, image, tag)
        except CompileError as error:
            raise lowering.explained(error, kernel.program, bounds=kernel.bounds, known=kernel.known) from None
        store.write(name, (stored.encode(found), ptx, image))


def _lowered(kernel: Kernel, kernels: Kernels) -> Lowered:
    begin = perf_counter_ns()
    found = lowering.many_lowered(
        kernel.program,
        kernel.lowered,
        kernel.device.properties,
        precision=kernel.precision,
        bounds=kernel.bounds,
        max_ulp=kernel.max_ulp,
        checks=kernels.made_for,
        known=kernel.known,
    )
    kernels.count_compile(perf_counter_ns() - begin)
    return found


def _revived(kernel: Kernel, sections: tuple[bytes, ...], tag: int) -> PreparedKernel | None:
    """None: this package or the driver cannot use the file."""
    try:
        _, _, image = sections
        return _loaded(kernel, image, tag)
    except (ValueError, DriverError):
        return None


def _loaded(kernel: Kernel, image: bytes, tag: int) -> PreparedKernel:
    """The entry as a kernel of its own, with the table as its one array."""
    reports = bool(kernel.lowered.sites)
    parameters = [
        (PARAMETER_KINDS["buffer"], 0, rows.TABLE_AT, 8),
        *((PARAMETER_KINDS["scalar"], n, rows.TABLE_AT + 8 + 4 * n, 4) for n in range(len(rows.WORDS))),
    ]
    if reports:
        parameters.append((PARAMETER_KINDS["report"], 0, rows.REPORT_AT, 8))
    return PreparedKernel(
        Module(kernel.device.context, image),
        rows.rows_entry(entry_name(kernel.program)),
        kernel.program.block,
        kernel.lowered.dynamic_shared_bytes,
        rows.BYTES_WITH_REPORT if reports else rows.BYTES,
        parameters,
        [(ROLES["in"], 0, rows.ALIGN, 0)],
        len(rows.WORDS),
        tag,
        False,
        label=f"many launches of {kernel_label(kernel.program)}",
    )
