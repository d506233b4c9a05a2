"""Many launches as one in a bundle: a kernel row whose code is the entry, and whose parameters have the names of its
kernels, and the kernel that clears results before them.

`csrc/bundle_device/kernel_rows.c` reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TypeAlias

from vyre_cuda.bundles.assemble import cubin
from vyre_cuda.bundles.graphs import GraphKernel
from vyre_cuda.bundles.kernels import ROWS, BundledKernel, Variant
from vyre_cuda.bundles.workers import entry_program, part_of
from vyre_cuda.codegen.clearing import clearing_program
from vyre_cuda.codegen.core.lowered import Lowered
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.codegen.tables import ENTRY, lower_tables
from vyre_cuda.codegen.worker import refused
from vyre_cuda.errors import UnsupportedError

# The names of the kernels of an entry.
Members: TypeAlias = tuple[str, ...]


def entry_names(groups: Collection[Members], taken: Collection[str]) -> dict[Members, str]:
    """A name for the entry of each group, which no other kernel of the bundle has."""
    found: dict[Members, str] = {}
    names = set(taken)
    for group in sorted(groups):
        what = group[0] if len(group) == 1 else sha256("\0".join(group).encode()).hexdigest()[:8]
        found[group] = _free(f"{what}_many" if len(group) == 1 else f"tables_{what}", names)
        names.add(found[group])
    return found


def clearing_kernel(taken: Collection[str]) -> GraphKernel:
    """The kernel that clears results, with a name that no other has."""
    return GraphKernel(clearing_program(_free("clear_results", taken)), "ieee", "check", None, ())


def leaves_gaps(kernel: BundledKernel) -> bool:
    """Whether a launch of it may leave elements of a result unwritten, which are to be zero."""
    outs = [p.name for p in kernel.program.parameters if p.kind == "out" and p.zeroed]
    return any(name not in variant.lowered.covered for variant in kernel.variants for name in outs)


def check_rows(groups: Collection[Members], kernels: Mapping[str, BundledKernel]) -> None:
    """Refuse what the bundle does not have, and what is launched row by row."""
    for group in groups:
        for name in group:
            if name not in kernels:
                raise ValueError(f"many={name!r}: the bundle has no such kernel; it has {', '.join(kernels)}")
            what = refused(kernels[name].variants[0].lowered, kernels[name].bounds)
            if what is not None:
                raise UnsupportedError(
                    f"{name} has {what}, so each launch of it stays separate; without its name in many= a host can "
                    "launch its rows one after the other",
                    capability="rows",
                )


def rows_entry(
    name: str,
    members: Members,
    sources: Mapping[str, GraphKernel],
    kernels: Mapping[str, BundledKernel],
    targets: Sequence[Target],
    *,
    cubins: bool,
) -> BundledKernel:
    """The entry of these kernels for the targets."""
    variants = []
    for at, target in enumerate(targets):
        lowered = _lowered([(sources[each], kernels[each].variants[at].lowered) for each in members], target)
        variants.append(Variant(target, lowered, cubin(lowered.ptx, target) if cubins else b""))
    program = entry_program(name, members, kernels[members[0]].program.block)
    return BundledKernel(program, "ieee", "check", None, variants, source=False, flags=ROWS)


def _lowered(members: Sequence[tuple[GraphKernel, Lowered]], target: Target) -> Lowered:
    """Without parameters: every entry has the same."""
    parts = [part_of(source, lowered) for source, lowered in members]
    if len(parts) > 1:
        made = lower_tables(parts, target)
        return _of_text(made.ptx, ENTRY, made.dynamic_shared_bytes)
    part = parts[0]
    found = lower(
        part.program, target, precision=part.precision, bounds=part.bounds, max_ulp=part.max_ulp, many=part.lowered
    )
    return _of_text(found.ptx, found.entry, part.lowered.dynamic_shared_bytes)


def _of_text(ptx: str, entry: str, dynamic: int) -> Lowered:
    return Lowered(ptx, entry, (), 0, dynamic, dynamic, {}, {}, (), cooperative=False, prints=False)


def _free(name: str, taken: Collection[str]) -> str:
    return next(each for each in _longer(name) if each not in taken)


def _longer(name: str) -> Iterator[str]:
    while True:
        yield name
        name += "_"
