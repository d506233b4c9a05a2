"""Kernels of a device compiled into a worker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.call.prepared import PreparedKernel
from vyre_cuda._native.core.module import Module, link
from vyre_cuda.cache.digest import key_of
from vyre_cuda.codegen.core.target import target_for
from vyre_cuda.codegen.emit.resident import ENTRY
from vyre_cuda.codegen.parts import Part
from vyre_cuda.codegen.worker import (
    LoweredWorker,
    clearing_program,
    clearing_threads,
    lower_worker,
    refused,
    threads_of,
)
from vyre_cuda.errors import DriverError, InternalError, UnsupportedError
from vyre_cuda.ir.core.program import Program, ProgramSource, no_program, program_of
from vyre_cuda.runtime.kernel.kernel import Kernel, kernel_label
from vyre_cuda.runtime.kernel.kernels import disk_key
from vyre_cuda.runtime.kernel.loaded_kernel import ForeignKernel
from vyre_cuda.runtime.kernel.lowering import body_of

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device

_TAKING = "a worker takes kernels, Programs and kernel functions"


def listed_of(given: Any) -> tuple[Any, ...]:
    """What `device.worker` was given, one kernel or an iterable of kernels, as a tuple."""
    if isinstance(given, (Kernel, Program, ProgramSource)):
        return (given,)
    if not isinstance(given, Iterable):
        raise no_program(_TAKING, given)
    return tuple(given)


def kernels_of(device: Device, given: tuple[Any, ...]) -> tuple[Kernel, ...]:
    """The kernels of a worker, of which programs and kernel functions are compiled first."""
    if not given:
        raise ValueError("a worker needs at least one kernel")
    return tuple(_kernel_of(device, kernel) for kernel in given)


def _kernel_of(device: Device, kernel: Kernel | Program | ProgramSource) -> Kernel:
    if isinstance(kernel, ForeignKernel):
        raise UnsupportedError(
            "a worker cannot run a kernel that was loaded from PTX or a cubin, because it compiles its kernels anew: "
            "launch it instead",
            capability="worker",
        )
    if not isinstance(kernel, Kernel) and program_of(kernel) is None:
        raise no_program(_TAKING, kernel)
    found = kernel if isinstance(kernel, Kernel) else device.compile(kernel)
    if found.device is not device:
        raise ValueError(f"{found.program.name} is a kernel on another device: compile it on this one")
    if found.is_without_body:
        raise UnsupportedError(
            f"{found.program.name} was loaded from a bundle without its body, which a worker needs",
            capability="worker",
        )
    return found


def entry_of(device: Device, kernels: Sequence[Kernel]) -> tuple[PreparedKernel, Kernel]:
    """The worker's own kernel, and the one of its kernels that clears results, whose number follows theirs."""
    clearing = device.compile(clearing_program(clearing_threads([kernel.program for kernel in kernels])))
    for kernel in kernels:
        what = refused(kernel.lowered, kernel.bounds)
        if what is not None:
            raise UnsupportedError(
                f"a worker cannot run {kernel.program.name}, which has {what}: launch it instead", capability="worker"
            )
    label = "worker of " + ", ".join(kernel_label(kernel.program) for kernel in kernels)
    return _entry(device, (*kernels, clearing), label), clearing


def _entry(device: Device, kernels: tuple[Kernel, ...], label: str) -> PreparedKernel:
    """From the disk cache, or compiled and kept there."""
    store = device._kernels.store
    name = _disk_key(kernels)
    sections = None if store is None else store.read(name)
    if store is not None and sections is not None:
        found = _revived(device, kernels, sections, label)
        if found is not None:
            return found
        store.discard(name)
    properties = device.properties
    target = target_for(properties.compute_capability, properties.driver_version)
    begin = perf_counter_ns()
    lowered = lower_worker([_part(kernel) for kernel in kernels], target)
    device._kernels.count_compile(perf_counter_ns() - begin)
    image = link(device.context, lowered.ptx.encode("ascii"))
    prepared = _prepared(device, image, lowered.threads, lowered.dynamic_shared_bytes, label)
    if store is not None:
        store.write(name, (_facts(lowered), image))
    return prepared


def _prepared(device: Device, image: bytes, threads: int, dynamic_shared_bytes: int, label: str) -> PreparedKernel:
    module = Module(device.context, image)
    return PreparedKernel(module, ENTRY, (threads, 1, 1), dynamic_shared_bytes, 0, [], [], 0, 0, False, label=label)


def _revived(
    device: Device, kernels: tuple[Kernel, ...], sections: tuple[bytes, ...], label: str
) -> PreparedKernel | None:
    """What a file has; None if this package or the driver cannot use it."""
    try:
        facts, image = sections
        threads, dynamic = (int(word) for word in facts.decode("ascii").split())
        if threads != threads_of([kernel.program for kernel in kernels]):
            return None
        return _prepared(device, image, threads, dynamic, label)
    except (ValueError, DriverError, InternalError):
        return None


def _facts(lowered: LoweredWorker) -> bytes:
    return f"{lowered.threads} {lowered.dynamic_shared_bytes}".encode("ascii")


def _disk_key(kernels: tuple[Kernel, ...]) -> str:
    """Of everything that the text depends on: the kernels in order, and where their launches have parameters."""
    words = []
    for kernel in kernels:
        key = (kernel.program.to_bytes(), kernel.precision, kernel.bounds, kernel.max_ulp, kernel.known)
        parameters = " ".join(f"{p.kind} {p.name} {p.offset} {p.size}" for p in kernel.lowered.parameters)
        words += [disk_key("worker", key, kernel.device.properties).encode(), parameters.encode()]
    return key_of(words)


def _part(kernel: Kernel) -> Part:
    body = body_of(kernel.program, bounds=kernel.bounds, known=kernel.known)
    return Part(body, kernel.lowered, kernel.precision, kernel.bounds, kernel.max_ulp)
