"""Workers of a bundle on a device: their kernels, and the entry that was compiled with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.call.prepared import PreparedKernel
from vyre_cuda._native.core.module import Module
from vyre_cuda.codegen.emit.resident import ENTRY
from vyre_cuda.errors import UnsupportedError
from vyre_cuda.runtime.kernel.kernel import Kernel
from vyre_cuda.runtime.worker.worker import Worker

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device


def worker_of(
    device: Device,
    name: str,
    members: Mapping[str, Kernel],
    loaded: Mapping[str, tuple[int, bool]],
    row_of: Callable[[int], dict[str, Any]],
    *,
    blocks: int,
    idle: float,
) -> Worker:
    """The worker `name` of these kernels, the last of which clears results. `loaded`: the number of each one's variant,
    and whether that is machine code; `row_of`: that variant of the entry."""
    variants = {loaded[member] for member in members}
    if len(variants) > 1:  # the entry reads parameters where the kernels of its own variant have them
        raise UnsupportedError(
            f"the kernels of worker {name} were loaded for several GPU generations, or some as PTX: bundle it "
            "again for this one",
            capability="worker",
        )
    variant, is_cubin = variants.pop()
    row = row_of(variant)
    if row["entry"] != ENTRY:
        raise UnsupportedError(
            f"worker {name} was written by another version, whose workers take other calls: write the bundle again",
            capability="worker",
        )
    image = row["cubin"] if is_cubin else row["ptx"].encode("ascii")
    block = row["block"]
    module = Module(device.context, image)
    shared = row["dynamic_shared_bytes"]
    entry = PreparedKernel(module, row["entry"], block, shared, 0, [], [], 0, 0, False, label=f"worker {name}")
    *kernels, clearing = members.values()
    return Worker(device, kernels, blocks=blocks, idle=idle, entry=(entry, clearing))
