"""Many launches as one in a bundle: a kernel row whose code is the entry, whose scalars have the names of its kernels,
and whose arrays are those that each launch of it may replace; and the kernel that clears results before them.

`csrc/bundle_device/kernel_rows.c` reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256

from vyre_cuda.bundles.assemble import cubin
from vyre_cuda.bundles.graphs import GraphKernel, Group
from vyre_cuda.bundles.kernels import ROWS, BundledKernel, Variant
from vyre_cuda.bundles.workers import entry_program, part_of
from vyre_cuda.codegen.clearing import clearing_program
from vyre_cuda.codegen.core.lowered import Access, Lowered
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.codegen.parts import Part
from vyre_cuda.codegen.tables import ENTRY, lower_tables
from vyre_cuda.codegen.worker import refused
from vyre_cuda.errors import UnsupportedError
from vyre_cuda.ir.core.program import Program


def entry_names(groups: Collection[Group], taken: Collection[str]) -> dict[Group, str]:
    """A name for the entry of each group, which no other kernel of the bundle has."""
    found: dict[Group, str] = {}
    names = set(taken)
    for group in sorted(groups):
        found[group] = _free(_name_of(group), names)
        names.add(found[group])
    return found


def _name_of(group: Group) -> str:
    if len(group.members) == 1 and not group.arrays:
        return f"{group.members[0]}_many"
    words = [*group.members, *(f"{type_} {is_written}" for type_, is_written in group.arrays)]
    digest = sha256("\0".join(words).encode()).hexdigest()
    return f"tables_{digest[:8]}"


def clearing_kernel(taken: Collection[str]) -> GraphKernel:
    """The kernel that clears results, with a name that no other has."""
    return GraphKernel(clearing_program(_free("clear_results", taken)), "ieee", "check", None, ())


def leaves_gaps(kernel: BundledKernel) -> bool:
    """Whether a launch of it may leave elements of a result unwritten, which are to be zero."""
    outs = [p.name for p in kernel.program.parameters if p.kind == "out" and p.zeroed]
    return any(name not in variant.lowered.covered for variant in kernel.variants for name in outs)


def check_rows(groups: Collection[Group], kernels: Mapping[str, BundledKernel]) -> None:
    """Refuse what the bundle does not have, and what is launched row by row."""
    for group in groups:
        for name in group.members:
            if name not in kernels:
                raise ValueError(f"many={name!r}: the bundle has no such kernel; it has {', '.join(kernels)}")
            what = refused(kernels[name].variants[0].lowered, kernels[name].bounds)
            if what is not None:
                raise UnsupportedError(
                    f"{name} has {what}, so each launch of it stays separate; leave it out of many=: a host can then "
                    "launch its rows one after the other",
                    capability="rows",
                )


def rows_entry(
    name: str,
    group: Group,
    sources: Mapping[str, GraphKernel],
    kernels: Mapping[str, BundledKernel],
    targets: Sequence[Target],
    *,
    cubins: bool,
) -> BundledKernel:
    """The entry of these kernels for the targets."""
    program = entry_program(name, group.members, kernels[group.members[0]].program.block, group.arrays)
    variants = []
    for at, target in enumerate(targets):
        parts = [part_of(sources[each], kernels[each].variants[at].lowered) for each in group.members]
        lowered = _lowered(parts, program, target)
        variants.append(Variant(target, lowered, cubin(lowered.ptx, target) if cubins else b""))
    return BundledKernel(program, "ieee", "check", None, variants, source=False, flags=ROWS)


def _lowered(parts: Sequence[Part], program: Program, target: Target) -> Lowered:
    """Without parameters, which follow from the program of the entry."""
    arrays = [p.name for p in program.parameters if p.is_buffer]
    if len(parts) > 1 or arrays:
        made = lower_tables(parts, target, arrays=len(arrays))
        return _of_text(made.ptx, ENTRY, made.dynamic_shared_bytes, arrays)
    part = parts[0]
    found = lower(
        part.program, target, precision=part.precision, bounds=part.bounds, max_ulp=part.max_ulp, many=part.lowered
    )
    return _of_text(found.ptx, found.entry, part.lowered.dynamic_shared_bytes)


def _of_text(ptx: str, entry: str, dynamic: int, arrays: Sequence[str] = ()) -> Lowered:
    access = dict.fromkeys(arrays, Access(True, True, False, False, 0))
    return Lowered(ptx, entry, (), 0, dynamic, dynamic, access, {}, (), cooperative=False, prints=False)


def _free(name: str, taken: Collection[str]) -> str:
    return next(each for each in _longer(name) if each not in taken)


def _longer(name: str) -> Iterator[str]:
    while True:
        yield name
        name += "_"
