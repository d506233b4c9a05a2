"""Workers in a bundle: a kernel row whose code is the entry, and whose parameters have the names of the kernels.

`csrc/bundle_device/worker.c` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from vyre_cuda.bundles.assemble import cubin
from vyre_cuda.bundles.graphs import EntryArray, GraphKernel
from vyre_cuda.bundles.kernels import WORKER, BundledKernel, Variant
from vyre_cuda.bundles.layout import CLEARING_SUFFIX
from vyre_cuda.codegen.core.lowered import Lowered
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.emit.resident import ENTRY
from vyre_cuda.codegen.parts import Part
from vyre_cuda.codegen.worker import clearing_program, clearing_threads, lower_worker, refused
from vyre_cuda.errors import UnsupportedError, type_name
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import BY_CODE, u32
from vyre_cuda.passes.pipeline import prepared
from vyre_cuda.passes.specialize import specialized


def clearing_kernels(workers: Mapping[str, Sequence[str]], kernels: Sequence[GraphKernel]) -> list[GraphKernel]:
    """The kernel of each worker that clears its results. ValueError: a name that no kernel has, or that one has;
    TypeError: not names."""
    if not isinstance(workers, Mapping):
        raise TypeError(f'workers= is {type_name(workers)}; it must be a dict, such as {{"fast": ["saxpy", "norm"]}}')
    by_name = {kernel.program.name: kernel for kernel in kernels}
    found = []
    for name, members in workers.items():
        listed = isinstance(members, Iterable) and not isinstance(members, str)
        if not listed or not all(isinstance(each, str) for each in (name, *members)):
            raise TypeError(f"workers= has {name!r}: {members!r}; it must be a name and a list of names of kernels")
        taken = [each for each in (name, name + CLEARING_SUFFIX) if each in by_name]
        missing = [each for each in members if each not in by_name]
        if taken:
            raise ValueError(f"worker {name}: the bundle has a kernel {taken[0]}: give the worker another name")
        if not members:
            raise ValueError(f"worker {name} needs at least one kernel")
        if missing:
            raise ValueError(f"worker {name}: the bundle has no kernel {missing[0]}; it has {', '.join(by_name)}")
        if len(set(members)) < len(members):
            raise ValueError(f"worker {name}: each kernel can be named once")
        threads = clearing_threads([by_name[each].program for each in members])
        found.append(GraphKernel(clearing_program(threads, name + CLEARING_SUFFIX), "ieee", "check", None, ()))
    return found


def entry_kernel(
    name: str,
    members: Sequence[str],
    sources: Sequence[GraphKernel],
    kernels: Sequence[BundledKernel],
    targets: Sequence[Target],
    *,
    cubins: bool,
) -> BundledKernel:
    """The entry of a worker for the targets; `sources` and `kernels` are all of the bundle, in one order."""
    order = [kernel.program.name for kernel in sources]
    places = [order.index(each) for each in (*members, name + CLEARING_SUFFIX)]
    for place in places:
        what = refused(kernels[place].variants[0].lowered, sources[place].bounds)
        if what is not None:
            raise UnsupportedError(
                f"a worker cannot run {order[place]}, which has {what}: launch it instead", capability="worker"
            )
    variants = []
    threads = 0
    for at, target in enumerate(targets):
        made = lower_worker([part_of(sources[place], kernels[place].variants[at].lowered) for place in places], target)
        threads = made.threads
        shared = made.static_shared_bytes + made.dynamic_shared_bytes, made.dynamic_shared_bytes
        lowered = Lowered(made.ptx, ENTRY, (), 0, *shared, {}, {}, (), cooperative=False, prints=False)
        variants.append(Variant(target, lowered, cubin(made.ptx, target) if cubins else b""))
    program = entry_program(name, [order[place] for place in places], (threads, 1, 1))
    return BundledKernel(program, "ieee", "check", None, variants, source=False, flags=WORKER)


def part_of(source: GraphKernel, lowered: Lowered) -> Part:
    """The kernel as a part of an entry."""
    body = prepared(specialized(source.program, source.known), bounds=source.bounds)
    return Part(body, lowered, source.precision, source.bounds, source.max_ulp)


def entry_program(
    name: str, kernels: Sequence[str], block: tuple[int, int, int], arrays: Sequence[EntryArray] = ()
) -> Program:
    """An entry for several kernels: its scalars have their names."""
    b = Builder(name, block=block)
    for kernel in kernels:
        b.scalar(kernel, u32)
    names = (each for each in map("array{}".format, count(1)) if each not in kernels)
    for array in arrays:
        declare = b.inout if array.is_written else b.input
        declare(next(names), BY_CODE[array.type])
    return b.build()
