"""The rows of one kernel: its signature, and for each target its code and what is known about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vyre_cuda.bundles.layout import NO_DATA, Range, Writer
from vyre_cuda.bundles.shapes import shape
from vyre_cuda.codegen.core.lowered import Lowered, Site
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.descriptors.signature import ROLE_SCALAR, ROLES, Signature, Step, has_contracts, signature
from vyre_cuda.errors import UnsupportedError, counted
from vyre_cuda.ir.call.known import Known
from vyre_cuda.ir.call.walked import walks, work_of
from vyre_cuda.ir.core import walk
from vyre_cuda.ir.core.limits import MAX_PARAMETERS
from vyre_cuda.ir.core.nodes import Assert, extent_name, extent_names
from vyre_cuda.ir.core.program import Program, primary_buffer

_WHOLE_PROGRAM = 1
WORKER, ROWS, CLEARS = 2, 4, 8
_COOPERATIVE = 1
_PRINTS = 4
_SITE_KINDS = {"assert": 1, "bounds": 2}


@dataclass(frozen=True, slots=True)
class Variant:
    """A program for one target; `cubin` is empty if there is only PTX."""

    target: Target
    lowered: Lowered
    cubin: bytes


@dataclass(frozen=True, slots=True)
class BundledKernel:
    """A program with its options and its variants, by ascending target; `source`: whether its body is included.
    `flags`: what it is, if not a kernel of its own."""

    program: Program
    precision: str
    bounds: str
    max_ulp: float | None
    variants: Sequence[Variant]
    source: bool
    known: tuple[Known, ...] = ()
    flags: int = 0


def interface(program: Program) -> Program:
    """The program without its body: what a caller must know about it, as also which arrays its threads go through."""
    primary = primary_buffer(program)
    work = (work_of(program, primary),) if primary is not None and walks(program) else program.work
    return replace(program, body=(), work=work)


def add_kernel(writer: Writer, kernel: BundledKernel) -> None:
    """Append the rows of a kernel. UnsupportedError: a size or the work is too complicated for a bundle."""
    program = kernel.program
    parameters = _parameters(writer, program)
    sizes, work = _shape(writer, program)
    wire = program.to_bytes() if kernel.source else interface(program).to_bytes()
    place = writer.data(wire)
    for each in kernel.known:
        _known(writer, program, each)
    if kernel.flags:
        has_arrays = kernel.flags == ROWS and any(p.is_buffer for p in program.parameters)
        writer.needs(5 if kernel.flags == WORKER else 7 if has_arrays else 6)
    variants = writer.count("variants"), len(kernel.variants)
    for variant in kernel.variants:
        _variant(writer, program, variant)
    writer.row(
        "kernels",
        *writer.text(program.name),
        bytes.fromhex(program.fingerprint),
        *writer.text(kernel.precision),
        *writer.text(kernel.bounds),
        *program.block,
        program.index.value_bits,
        _WHOLE_PROGRAM * kernel.source | kernel.flags,
        len(work),
        *parameters,
        *sizes,
        *(number for axis in [*work, *[(0, 0)] * 3][:3] for number in axis),
        *variants,
        *place,
        0.0 if kernel.max_ulp is None else kernel.max_ulp,
    )


def _parameters(writer: Writer, program: Program) -> Range:
    first = writer.count("parameters")
    slots = {True: 0, False: 0}
    for parameter in program.parameters:
        role = ROLES.get(parameter.kind, ROLE_SCALAR)
        slot = slots[parameter.is_buffer]
        writer.row("parameters", *writer.text(parameter.name), role, parameter.type.code, slot)
        slots[parameter.is_buffer] += 1
    extents = extent_names(program.parameters)
    if len(program.parameters) + len(extents) > MAX_PARAMETERS:
        raise UnsupportedError(
            f"program {program.name} has {counted(len(program.parameters), 'parameter')} and "
            f"{counted(len(extents), 'extent')} of shapes; a bundle allows {MAX_PARAMETERS} in all",
            capability="bundle_parameters",
        )
    for number, name in enumerate(extents, start=slots[False]):
        writer.row("parameters", *writer.text(name), ROLE_SCALAR, program.index.code, number)
    return first, len(program.parameters) + len(extents)


def _known(writer: Writer, program: Program, known: Known) -> None:
    writer.needs(3)
    names = [*(p.name for p in program.parameters), *extent_names(program.parameters)]
    name = known.parameter if known.axis is None else extent_name(known.parameter, known.axis)
    writer.row("known", *writer.text(known.name), writer.count("kernels"), names.index(name), known.bits)


def _shape(writer: Writer, program: Program) -> tuple[Range, list[Range]]:
    found = shape(program)
    sizes = writer.count("sizes"), len(found.sizes)
    if has_contracts(program):
        writer.needs(2)
    for number, steps in found.sizes:
        writer.row("sizes", number, *_steps(writer, steps))
    return sizes, [_steps(writer, steps) for steps in found.work]


def _steps(writer: Writer, steps: Sequence[Step]) -> Range:
    first = writer.count("steps")
    for step in steps:
        writer.row("steps", *step)
    return first, len(steps)


def _variant(writer: Writer, program: Program, variant: Variant) -> None:
    lowered, target = variant.lowered, variant.target
    tables = signature(program, lowered)
    entries, bindings = _tables(writer, tables)
    sites = writer.count("sites"), len(lowered.sites)
    for site in numbered_sites(program, lowered):
        _site(writer, site)
    if lowered.prints:
        writer.needs(3)
    if not all(parameter.zeroed for parameter in program.parameters):
        writer.needs(4)
    major, minor = target.version
    writer.row(
        "variants",
        *writer.text(lowered.entry),
        target.sm,
        major * 10 + minor,
        _COOPERATIVE * lowered.cooperative | _PRINTS * lowered.prints,
        lowered.shared_bytes,
        lowered.dynamic_shared_bytes,
        lowered.parameter_bytes,
        *entries,
        *bindings,
        *sites,
        *writer.data(lowered.ptx.encode("ascii") + b"\0"),
        *(writer.data(variant.cubin) if variant.cubin else NO_DATA),
    )


def _tables(writer: Writer, tables: Signature) -> tuple[Range, Range]:
    entries = writer.count("entries"), len(tables.parameters)
    for entry in tables.parameters:
        writer.row("entries", *entry)
    bindings = writer.count("bindings"), len(tables.bindings)
    for binding in tables.bindings:
        writer.row("bindings", *binding)
    return entries, bindings


def numbered_sites(program: Program, lowered: Lowered) -> list[Site]:
    """The sites with the statements of the program as it was written; lowering may have counted those of a shorter
    one."""
    asserts = iter([(at, s) for at, s in enumerate(walk.statements(program.body)) if isinstance(s, Assert)])
    sites = []
    for site in lowered.sites:
        if site.kind == "assert":
            at, statement = next(asserts)
            site = replace(site, statement=at, source=statement.source)
        sites.append(site)
    return sites


def _site(writer: Writer, site: Site) -> None:
    file, line = site.source or ("", 0)
    writer.row(
        "sites",
        *writer.text(site.message),
        *writer.text(site.buffer),
        *writer.text(file),
        _SITE_KINDS[site.kind],
        site.statement,
        line,
    )
