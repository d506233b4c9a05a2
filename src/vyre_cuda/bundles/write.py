"""Programs to a bundle: one file with everything that a host needs to run them, made without a GPU."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vyre_cuda.bundles.assemble import cubin, has_assembler
from vyre_cuda.bundles.graphs import Bundled, GraphKernel, Group, RecordedGraph, add_graphs, groups_of, named_apart
from vyre_cuda.bundles.kernels import CLEARS, BundledKernel, Variant, add_kernel
from vyre_cuda.bundles.layout import Writer
from vyre_cuda.bundles.rows import check_rows, clearing_kernel, entry_names, leaves_gaps, rows_entry
from vyre_cuda.bundles.workers import clearing_kernels, entry_kernel
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.errors import type_name
from vyre_cuda.ir.call.known import known_values
from vyre_cuda.ir.check.validate import check
from vyre_cuda.ir.core.program import Program, ProgramSource, no_program, program_of
from vyre_cuda.passes.pipeline import prepared
from vyre_cuda.passes.specialize import specialized

# PTX for the first GPU of a major generation runs on all of it and, compiled by the driver, on newer ones.
DEFAULT_TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
# The version of this package, encoded as in vyc_version.
PRODUCER = 100


def bundle(
    programs: Program | ProgramSource | Iterable[Program | ProgramSource],
    path: str | os.PathLike[str],
    *,
    graphs: Mapping[str, Bundled] | None = None,
    targets: Sequence[str] = DEFAULT_TARGETS,
    precision: str = "ieee",
    bounds: str = "check",
    max_ulp: float | None = None,
    specialize: Mapping[str, Any] | None = None,
    source: bool = True,
    cubins: bool | None = None,
    workers: Mapping[str, Sequence[str]] | None = None,
    many: Sequence[str] = (),
) -> None:
    """Compile programs for GPU generations and write them to one file; no GPU is needed.

    `vc.load_bundle` and `vyc_bundle_open` read it. A device runs the machine code of its own generation, else the PTX
    of the newest target that it supports.

    Parameters
    ----------
    programs
        Programs, or kernel functions without open parameters, with names of their own.
    path
        The file.
    graphs
        Recorded graphs by name; their kernels are included, with the options that they were compiled with.
    targets
        GPU generations, such as "sm_90".
    precision, bounds, max_ulp, specialize
        The options of `Device.compile`. A kernel for known values refuses others in C too.
    source
        Whether the bodies of the programs are included.
    cubins
        Whether machine code is included besides PTX; None for what is available: ptxas from the wheel nvidia-cuda-nvcc
        or PATH, else nvJitLink.
    workers
        Workers by name, each with the names of its kernels, in the order in which the host numbers them; for
        `vyc_bundled_worker_load`.
    many
        The names of kernels of which a host does many launches as one, with `launch_many` or
        `vyc_bundled_kernel_launch_many`; for these the bundle has one more entry. Rows of others are launched one after
        the other in C.

    Raises
    ------
    ProgramError
        A program is not valid.
    ValueError
        An option's unknown word, no program or target, two programs with one name, a known value that a program cannot
        have, or a worker of kernels, or one in `many`, that the bundle does not have.
    TypeError
        Not a program, `targets` is one name instead of a list, or `workers` has something else than names.
    RecordingError
        A graph is still being recorded.
    UnsupportedError
        A target is too small, a size too complicated, both assemblers are missing, or a worker cannot run a kernel, or
        many launches of one cannot be a single one.
    CompileError
        The assembler rejected a kernel.
    OSError
        The file cannot be written, and what was there before still is.
    """
    if not isinstance(graphs or {}, Mapping):
        raise TypeError(f'graphs= is {type_name(graphs)}; it must be a dict, such as {{"step": graph}}')
    for name, value in (("source", source), ("cubins", cubins)):
        if not isinstance(value, (bool, np.bool_)) and (name != "cubins" or value is not None):
            also = ", or None" if name == "cubins" else ""
            raise TypeError(f"{name}= is {type_name(value)}; it must be True or False{also}")
    given = []
    for each in programs if isinstance(programs, Iterable) else [programs]:
        program = program_of(each)
        if program is None:
            raise no_program("a bundle takes Programs", each)
        check(program)
        given.append(program)
    recorded = {name: graph.bundled() for name, graph in (graphs or {}).items()}
    if len({program.name for program in given}) < len(given):
        raise ValueError("two programs have the same name; names in a bundle must be unique, so rename one")
    alone = [GraphKernel(p, precision, bounds, max_ulp, known_values(p, specialize)) for p in given]
    wanted, recorded = named_apart(alone, recorded)
    wanted += clearing_kernels(workers or {}, wanted)
    chosen = parse_targets(targets)
    with_cubins = has_assembler() if cubins is None else cubins
    kernels = [compiled(kernel, chosen, source=source, cubins=with_cubins) for kernel in wanted]
    entries = [
        entry_kernel(name, members, wanted, kernels, chosen, cubins=with_cubins)
        for name, members in (workers or {}).items()
    ]
    groups = groups_of(recorded) | {Group((name,)) for name in many}
    for_rows, names = _rows_entries(groups, wanted, kernels, entries, chosen, source=source, cubins=with_cubins)
    write_file(path, packed([*kernels, *entries, *for_rows], recorded, names))


def _rows_entries(
    groups: set[Group],
    sources: Sequence[GraphKernel],
    kernels: Sequence[BundledKernel],
    workers: Sequence[BundledKernel],
    targets: Sequence[Target],
    *,
    source: bool,
    cubins: bool,
) -> tuple[list[BundledKernel], dict[Group, str]]:
    """The entries for many launches as one, what clears results before these, and the entries' names."""
    of_source = {each.program.name: each for each in sources}
    by_name = {each.program.name: each for each in kernels}
    check_rows(groups, by_name)
    found: list[BundledKernel] = []
    if any(leaves_gaps(by_name[name]) for group in groups for name in group.members):
        taken = by_name.keys() | {each.program.name for each in workers}
        clearing = clearing_kernel(taken)
        name = clearing.program.name
        found.append(replace(compiled(clearing, targets, source=source, cubins=cubins), flags=CLEARS))
        of_source[name], by_name[name] = clearing, found[0]
        groups = groups | {Group((name,))}
    names = entry_names(groups, by_name.keys() | {each.program.name for each in workers})
    found += [rows_entry(name, group, of_source, by_name, targets, cubins=cubins) for group, name in names.items()]
    return found, names


def compiled(kernel: GraphKernel, targets: Sequence[Target], *, source: bool, cubins: bool) -> BundledKernel:
    """A valid program, compiled for the targets."""
    program, precision, bounds = kernel.program, kernel.precision, kernel.bounds
    body = prepared(specialized(program, kernel.known), bounds=bounds)
    variants = []
    for target in targets:
        lowered = lower(body, target, precision=precision, bounds=bounds, max_ulp=kernel.max_ulp)
        variants.append(Variant(target, lowered, cubin(lowered.ptx, target) if cubins else b""))
    return BundledKernel(program, precision, bounds, kernel.max_ulp, variants, source, kernel.known)


def parse_targets(targets: Sequence[str]) -> list[Target]:
    """The targets in ascending order, without duplicates."""
    if isinstance(targets, str) or not isinstance(targets, Iterable):
        raise TypeError(f"targets={targets!r} must be a list of names such as sm_90")
    chosen = {target.sm: target for target in map(Target.parse, targets)}
    if not chosen:
        raise ValueError("a bundle needs at least one target, such as sm_90")
    return [chosen[sm] for sm in sorted(chosen)]


def packed(
    kernels: Sequence[BundledKernel],
    graphs: Mapping[str, RecordedGraph],
    entries: Mapping[Group, str] | None = None,
) -> bytes:
    """The bytes of a bundle; `entries` has the names of those for launches as one."""
    if not kernels:
        raise ValueError("a bundle needs at least one program")
    writer = Writer()
    ordered = sorted(kernels, key=lambda kernel: kernel.program.name.encode("utf-8"))
    for kernel in ordered:
        add_kernel(writer, kernel)
    numbers = {kernel.program.name: number for number, kernel in enumerate(ordered)}
    add_graphs(writer, graphs, numbers, entries or {})
    return writer.pack(PRODUCER)


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace the file in one step, so that nobody reads a partial one; that of a link, not the link. Pipes and devices
    are written to."""
    named, path = path, Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise type(error)(error.errno, error.strerror, os.fspath(named)) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
