"""Kernels of a device compiled into a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.call.prepared import PreparedKernel
from vyre_cuda._native.core.module import Module, link
from vyre_cuda.codegen.core.target import target_for
from vyre_cuda.codegen.emit.resident import ENTRY, WARP
from vyre_cuda.codegen.worker import Part, lower_worker, refused, threads_of
from vyre_cuda.errors import UnsupportedError
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import global_id
from vyre_cuda.ir.core.program import Program, ProgramSource
from vyre_cuda.ir.core.types import u8
from vyre_cuda.runtime.kernel.kernel import Kernel, kernel_label
from vyre_cuda.runtime.kernel.loaded_kernel import ForeignKernel
from vyre_cuda.runtime.kernel.lowering import body_of

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device


def kernels_of(device: Device, given: tuple[Any, ...]) -> tuple[Kernel, ...]:
    """The kernels of a worker, of which programs and kernel functions are compiled first."""
    if not given:
        raise ValueError("a worker needs a kernel")
    return tuple(_kernel_of(device, kernel) for kernel in given)


def _kernel_of(device: Device, kernel: Kernel | Program | ProgramSource) -> Kernel:
    if isinstance(kernel, ForeignKernel):
        raise UnsupportedError(
            "a worker cannot run a kernel that was loaded from PTX or a cubin, because it compiles its kernels anew: "
            "launch it instead",
            capability="worker",
        )
    found = kernel if isinstance(kernel, Kernel) else device.compile(kernel)
    if found.device is not device:
        raise ValueError(f"{found.program.name} is a kernel on another device")
    if found.is_without_body:
        raise UnsupportedError(
            f"{found.program.name} was loaded from a bundle without its body, which a worker needs",
            capability="worker",
        )
    return found


def entry_of(device: Device, kernels: Sequence[Kernel]) -> tuple[PreparedKernel, Kernel]:
    """The worker's own kernel, and the one of its kernels that clears results, whose number follows theirs."""
    # As many whole warps as the worker has, so that its block is theirs.
    warps = threads_of([kernel.program for kernel in kernels]) // WARP
    clearing = device.compile(_clearing_program(), block=warps * WARP)
    for kernel in kernels:
        what = refused(kernel.lowered, kernel.bounds)
        if what is not None:
            raise UnsupportedError(
                f"a worker cannot run {kernel.program.name}, which has {what}: launch it instead", capability="worker"
            )
    properties = device.properties
    target = target_for(properties.compute_capability, properties.driver_version)
    found = lower_worker([_part(kernel) for kernel in (*kernels, clearing)], target)
    label = "worker of " + ", ".join(kernel_label(kernel.program) for kernel in kernels)
    module = Module(device.context, link(device.context, found.ptx.encode("ascii")))
    prepared = PreparedKernel(
        module, ENTRY, (found.threads, 1, 1), found.dynamic_shared_bytes, 0, [], [], 0, 0, False, label=label
    )
    return prepared, clearing


def _part(kernel: Kernel) -> Part:
    body = body_of(kernel.program, bounds=kernel.bounds, known=kernel.known)
    return Part(body, kernel.lowered, kernel.precision, kernel.bounds, kernel.max_ulp)


def _clearing_program() -> Program:
    """out[i] = 0 for bytes, as the C layer expects it."""
    b = Builder("clear_bytes", block=256)
    out = b.output("out", u8, zeroed=False)
    i = b.let("i", global_id.x)
    with b.if_(i < out.size):
        out[i] = u8(0)
    return b.build()
