"""The kernels of a bundle on a device."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from vyre_cuda._native.core.context import refuse_pickle
from vyre_cuda._native.core.status import AssertReport
from vyre_cuda.bundles.graphs import LAUNCH, ROWS
from vyre_cuda.codegen.core.lowered import Access, KernelParameter, Lowered, ParameterKind, Site, SiteKind
from vyre_cuda.descriptors.signature import OF_NO_PARAMETER, STREAMING, cover_of
from vyre_cuda.errors import Error, UnsupportedError
from vyre_cuda.ir.call import call as calls
from vyre_cuda.ir.core.nodes import extent_names
from vyre_cuda.ir.core.program import Program
from vyre_cuda.later import later
from vyre_cuda.runtime.bundle.bundle import Bundle, known_values, unknown
from vyre_cuda.runtime.bundle.bundled_graph import record
from vyre_cuda.runtime.graph.graph import Graph
from vyre_cuda.runtime.kernel.assertions import Checks, signed_index
from vyre_cuda.runtime.kernel.kernel import Kernel

if TYPE_CHECKING:
    from vyre_cuda._native.call.prepared import PreparedKernel
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel import rows_entry, tables_entry
    from vyre_cuda.runtime.worker.worker import Worker
else:
    rows_entry = later("vyre_cuda.runtime.kernel.rows_entry")
    tables_entry = later("vyre_cuda.runtime.kernel.tables_entry")


_KINDS: Final[dict[int, ParameterKind]] = {1: "buffer", 2: "scalar", 3: "size", 4: "report", 5: "grid_barrier"}
_SITE_KINDS: Final[dict[int, SiteKind]] = {1: "assert", 2: "bounds"}


class LoadedBundle(Mapping[str, Kernel]):
    """The kernels of a bundle on a device, by name; made by `Bundle.on`.

    What the bundle has for these alone, such as workers, is not among them. A look-up raises KeyError for an unknown
    name, UnsupportedError for a worker and where the bundle has no code that the device can run, and CompileError if
    the driver rejects the code.
    """

    def __init__(self, bundle: Bundle, device: Device) -> None:
        self.bundle = bundle
        self.device = device
        self._names = dict.fromkeys(name for name, kernel in bundle.kernels.items() if not kernel.is_entry)
        self._loaded: dict[str, Kernel] = {}
        self._variants: dict[str, tuple[int, bool]] = {}  # of each: its number, and whether that is machine code
        self._lock = threading.Lock()

    __reduce_ex__ = refuse_pickle

    def __getitem__(self, name: str) -> Kernel:
        kernel = self._loaded.get(name)
        if kernel is not None:
            return kernel
        if name not in self.bundle.kernels or self.bundle.kernels[name].is_rows:
            raise unknown("kernel", name, self)
        if self.bundle.kernels[name].is_worker:
            raise UnsupportedError(
                f"{name} is a worker, not a kernel: worker({name!r}) gives it, and [...] each of its kernels",
                capability="worker",
            )
        with self._lock:
            if name not in self._loaded:
                self._loaded[name], self._variants[name] = _load(self.bundle, self.device, name)
            return self._loaded[name]

    def graph(self, name: str) -> Graph:
        """A graph of the bundle, recorded on the device, with its own arrays.

        Parameters
        ----------
        name
            The graph's name.

        Returns
        -------
        Graph
            The graph.

        Raises
        ------
        KeyError
            There is none.
        UnsupportedError
            The device cannot run one of its kernels.
        ResourceError
            The device has no memory left.
        """
        if name not in self.bundle.graphs:
            raise unknown("graph", name, self.bundle.graphs)
        row = self.bundle._file.graph(list(self.bundle.graphs).index(name))
        launched = {step[1] for step in row["steps"] if step[0] == LAUNCH}
        kernels = [self[each] if number in launched else None for number, each in enumerate(self.bundle.kernels)]
        entries = {step[1]: self._tables_entry(step[1]) for step in row["steps"] if step[0] == ROWS}
        return record(self.device, row, kernels, entries)

    def _tables_entry(self, index: int) -> PreparedKernel | None:
        """The entry for launches as one of several kernels, or with arrays that are symbols; None: it is neither, or
        none that fits these."""
        entry = list(self.bundle.kernels.values())[index]
        members = [p.name for p in entry.program.parameters if not p.is_buffer]
        arrays = [p for p in entry.program.parameters if p.is_buffer]
        if len(members) == 1 and not arrays:
            return None
        kernels = [self[member] for member in members]
        variants = {self._variants[member] for member in members}
        if len({variant for variant, _ in variants}) > 1:
            return None
        (variant, is_cubin), *_ = variants
        found = self.bundle._file.variant(index, variant)
        image = found["cubin"] if is_cubin and found["cubin"] else found["ptx"].encode("ascii")
        places = tuple(tables_entry.Place(p.type.itemsize, p.is_writable) for p in arrays)
        return tables_entry.loaded(kernels, image, found["dynamic_shared_bytes"], places)

    def worker(self, name: str, *, blocks: int = 1, idle: float = 1.0) -> Worker:
        """A worker of the bundle on the device, without compiling anything.

        Parameters
        ----------
        name
            The worker's name.
        blocks, idle
            As for `Device.worker`.

        Returns
        -------
        Worker
            The worker; its `kernels` are those of this mapping, in the order in which the bundle was given them.

        Raises
        ------
        KeyError
            There is none.
        ValueError, TypeError
            `blocks` or `idle` is out of range, or not a number.
        UnsupportedError
            The bundle has no code that the device can run.
        """
        from vyre_cuda.runtime.bundle.bundled_worker import worker_of

        bundle = self.bundle
        if name not in bundle.kernels or not bundle.kernels[name].is_worker:
            raise unknown("worker", name, [each for each, kernel in bundle.kernels.items() if kernel.is_worker])
        index, program = list(bundle.kernels).index(name), bundle.kernels[name].program

        def row_of(variant: int) -> dict[str, Any]:
            return {**bundle._file.variant(index, variant), "block": program.block}

        members = {p.name: self[p.name] for p in program.parameters}
        return worker_of(self.device, name, members, self._variants, row_of, blocks=blocks, idle=idle)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __repr__(self) -> str:
        return f"<vyre_cuda.LoadedBundle of {', '.join(self)} on {self.device.properties.name}>"


class BundledChecks(Checks):
    """Checks whose places are stored in the bundle, because the program's body may be missing."""

    __slots__ = ()

    def error(self, report: AssertReport) -> Error:
        number, thread = report.report & 0xFFFFF, report.report >> 20
        site = self.sites[number]
        return calls.failure(
            self.program,
            site.message,
            statement=site.statement,
            source=site.source,
            thread=thread,
            index=None if site.kind == "assert" else signed_index(report.index),
        )


def _load(bundle: Bundle, device: Device, name: str) -> tuple[Kernel, tuple[int, bool]]:
    kernel_row = bundle.kernels[name]
    tag = device._kernels.new_tag()
    prepared, variant, is_cubin, (many, *clearing) = bundle._file.load(device.context, name, tag)
    lowered = _lowered(bundle._file.variant(list(bundle.kernels).index(name), variant), kernel_row.program)
    kernel = Kernel(
        device,
        kernel_row.program,
        lowered,
        tag,
        precision=kernel_row.precision,
        bounds=kernel_row.bounds,
        max_ulp=kernel_row.max_ulp,
        known=known_values(bundle._file.kernel(list(bundle.kernels).index(name)), kernel_row.program),
        prepared=prepared,
        checks=BundledChecks(kernel_row.program, lowered),
    )
    kernel.is_without_body = not kernel_row.has_source
    if many is not None:
        kernel.rows_entry = rows_entry.Entry.of_bundle(many, *clearing)
    device._kernels.checks.add(tag, kernel.checks)
    return kernel, (variant, is_cubin)


def _lowered(row: Mapping[str, Any], program: Program) -> Lowered:
    """What lowering produced when the bundle was made."""
    buffers = [p for p in program.parameters if p.is_buffer]
    bindings = {p.name: binding for p, binding in zip(buffers, row["bindings"], strict=True)}
    sites = tuple(
        Site(_SITE_KINDS[kind], message, buffer, statement, (file, line) if file else None)
        for kind, message, buffer, file, line, statement in row["sites"]
    )
    return Lowered(
        ptx=row["ptx"],
        entry=row["entry"],
        parameters=tuple(_parameter(entry, program) for entry in row["entries"]),
        parameter_bytes=row["parameter_bytes"],
        shared_bytes=row["shared_bytes"],
        dynamic_shared_bytes=row["dynamic_shared_bytes"],
        access={
            name: Access(True, True, False, bool(flags & STREAMING), sectors)
            for name, (_, flags, _, sectors) in bindings.items()
        },
        covered={name: cover for name, (_, flags, _, _) in bindings.items() if (cover := cover_of(flags)) is not None},
        sites=sites,
        cooperative=row["cooperative"],
        prints=row["prints"],
    )


def _parameter(entry: tuple[int, int, int, int], program: Program) -> KernelParameter:
    kind, slot, offset, size = entry
    word = _KINDS[kind]
    if word in OF_NO_PARAMETER:
        return KernelParameter(word, word, None, offset, size)
    group = [p for p in program.parameters if p.is_buffer != (word == "scalar")]
    if word == "scalar" and slot >= len(group):
        name = extent_names(program.parameters)[slot - len(group)]
        return KernelParameter("extent", name, program.index, offset, size)
    return KernelParameter(word, group[slot].name, group[slot].type, offset, size)
