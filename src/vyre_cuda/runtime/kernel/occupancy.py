"""What a kernel needs of a device and what there is: limits of a launch, resident blocks, the best block size."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from vyre_cuda._native.core.module import Module
from vyre_cuda.codegen.core.lowered import Lowered
from vyre_cuda.errors import Limit, UnsupportedError
from vyre_cuda.ir.core.nodes import AXES
from vyre_cuda.records import FrozenRecord
from vyre_cuda.runtime.base.properties import DeviceProperties, KernelAttributes

if TYPE_CHECKING:
    from vyre_cuda._native.core.context import Context

# Registers are allocated to warps in units of this many (CUDA C++ programming guide, occupancy).
_REGISTER_UNIT = 256
# With smaller blocks, too few warps run between the starts of two blocks.
_SMALLEST = 128


class Occupancy(FrozenRecord):
    """How blocks of a kernel fill a multiprocessor, by the driver's own calculator.

    `limited_by` is the resource that is used up first: "threads", "blocks", "registers" or "shared memory".
    """

    threads_per_block: int
    resident_blocks: int
    resident_threads: int
    most_threads: int
    limited_by: str

    @property
    def fraction(self) -> float:
        """The fraction of the threads that a multiprocessor can hold."""
        return self.resident_threads / self.most_threads


def block_limits(properties: DeviceProperties, block: tuple[int, int, int], shared_bytes: int) -> list[Limit]:
    """The limits that are known before the driver has seen the kernel."""
    most = (properties.max_block_dim_x, properties.max_block_dim_y, properties.max_block_dim_z)
    return [
        Limit("threads of a block", prod(block), properties.max_threads_per_block, "block="),
        *(
            Limit(f"threads of a block along {axis}", extent, limit, "block=")
            for axis, extent, limit in zip(AXES, block, most, strict=True)
        ),
        Limit(
            "bytes of shared memory of a block",
            shared_bytes,
            properties.max_shared_memory_per_block_optin,
            "the sizes of shared arrays",
        ),
    ]


def kernel_limits(
    properties: DeviceProperties, block: tuple[int, int, int], lowered: Lowered, attributes: KernelAttributes
) -> list[Limit]:
    """Every limit of a kernel on this device; for a cooperative grid they include the resident blocks."""
    threads = prod(block)
    shared = attributes.static_shared_bytes + lowered.dynamic_shared_bytes
    found = block_limits(properties, block, shared)
    found.append(
        Limit(
            "registers of a block",
            registers_of_block(attributes.registers, threads, properties.warp_size),
            properties.max_registers_per_block,
            "block=, or the values that the program keeps",
        )
    )
    found.append(
        Limit(
            "threads of a block of this kernel", threads, attributes.max_threads_per_block, "block=, or shared arrays"
        )
    )
    return found


def grid_limits(
    properties: DeviceProperties, grid: tuple[int, int, int], attributes: KernelAttributes, *, cooperative: bool
) -> list[Limit]:
    """The limits that a grid adds."""
    most = (properties.max_grid_dim_x, properties.max_grid_dim_y, properties.max_grid_dim_z)
    found = [
        Limit(f"blocks along {axis}", extent, limit, "grid= or the work")
        for axis, extent, limit in zip(AXES, grid, most, strict=True)
    ]
    if cooperative:
        resident = attributes.resident_blocks * properties.multiprocessor_count
        found.append(Limit("resident blocks, for grid barriers", prod(grid), resident, "grid=, the work, or block="))
    return found


def require(name: str, properties: DeviceProperties, limits: list[Limit]) -> None:
    """Raise UnsupportedError that names every exceeded limit, if there are any."""
    exceeded = [limit for limit in limits if limit.is_exceeded]
    if exceeded:
        lines = [f"kernel {name} cannot be launched on {properties.name}:", *map(str, exceeded)]
        raise UnsupportedError("\n  ".join(lines), capability=exceeded[0].name, limits=exceeded)


def registers_of_block(registers: int, threads: int, warp: int) -> int:
    """The registers that a block takes, in allocation units."""
    of_warp = -(-registers * warp // _REGISTER_UNIT) * _REGISTER_UNIT
    return of_warp * -(-threads // warp)


def occupancy(
    properties: DeviceProperties, block: tuple[int, int, int], lowered: Lowered, attributes: KernelAttributes
) -> Occupancy:
    """The driver's count of resident blocks, and which resource bounds it."""
    threads = prod(block)
    has = of_multiprocessor(properties)
    takes = of_block(properties, block, lowered, attributes)
    bounds = {name: has[name] // max(takes[name], 1) for name in has}
    resident = attributes.resident_blocks
    return Occupancy(
        threads_per_block=threads,
        resident_blocks=resident,
        resident_threads=resident * threads,
        most_threads=properties.max_threads_per_multiprocessor,
        limited_by=min(bounds, key=lambda name: bounds[name]),
    )


def of_multiprocessor(properties: DeviceProperties) -> dict[str, int]:
    """The resources that blocks share, and how much of each a multiprocessor has."""
    return {
        "threads": properties.max_threads_per_multiprocessor,
        "blocks": properties.max_blocks_per_multiprocessor,
        "registers": properties.max_registers_per_multiprocessor,
        "shared memory": properties.max_shared_memory_per_multiprocessor,
    }


def of_block(
    properties: DeviceProperties, block: tuple[int, int, int], lowered: Lowered, attributes: KernelAttributes
) -> dict[str, int]:
    """What a block takes of them: threads in whole warps, registers in allocation units."""
    threads = prod(block)
    warp = properties.warp_size
    reserved = max(properties.reserved_shared_memory_per_block, 0)
    return {
        "threads": -(-threads // warp) * warp,
        "blocks": 1,
        "registers": registers_of_block(attributes.registers, threads, warp),
        "shared memory": attributes.static_shared_bytes + lowered.dynamic_shared_bytes + reserved,
    }


def best_block(context: Context, lowered: Lowered, warp: int) -> int:
    """The smallest block of at least 128 threads with as many resident threads as the driver's own choice.

    `lowered` has no fixed block. Smaller blocks end closer together, so that a multiprocessor is not held up by
    the last warp of a large one.
    """
    module = Module(context, lowered.ptx.encode("ascii"))
    shared = lowered.dynamic_shared_bytes
    largest = module.block_size(lowered.entry, shared, 0)

    def resident_at(threads: int) -> int:
        return module.resident_blocks(lowered.entry, threads, shared) * threads

    resident = resident_at(largest)
    for threads in (_SMALLEST, 2 * _SMALLEST, 4 * _SMALLEST):
        if threads % warp == 0 and threads < largest and resident_at(threads) >= resident:
            return threads
    return largest
