"""What a device reports about itself, as typed records."""

from __future__ import annotations

from typing import Any, Literal

from vyre_cuda.records import FrozenRecord


class DeviceInfo(FrozenRecord):
    """A device that could be opened, as `Device(f"{kind}:{ordinal}")`."""

    kind: Literal["cuda", "emulator"]
    ordinal: int
    name: str


class PeerInfo(FrozenRecord):
    """Another device of the same driver; `is_direct`: this device can reach its memory, so that copies go from memory
    to memory and kernels can be allowed to use it. Otherwise copies go by way of the host.
    """

    ordinal: int
    name: str
    is_direct: bool


class DeviceProperties(FrozenRecord):
    """All that is queried when a device is opened.

    Sizes are in bytes and rates in kHz, and `driver_version` is the CUDA version, major * 1000 + minor * 10. What a
    device either has or lacks is 1 or 0, and -1 stands for what the driver does not know.
    """

    name: str
    ordinal: int
    uuid: bytes
    is_emulator: bool
    compute_capability: tuple[int, int]
    driver_version: int
    total_memory: int
    max_threads_per_block: int
    max_block_dim_x: int
    max_block_dim_y: int
    max_block_dim_z: int
    max_grid_dim_x: int
    max_grid_dim_y: int
    max_grid_dim_z: int
    max_shared_memory_per_block: int
    max_shared_memory_per_block_optin: int
    max_shared_memory_per_multiprocessor: int
    reserved_shared_memory_per_block: int
    total_constant_memory: int
    warp_size: int
    max_registers_per_block: int
    max_registers_per_multiprocessor: int
    max_threads_per_multiprocessor: int
    max_blocks_per_multiprocessor: int
    multiprocessor_count: int
    l2_cache_size: int
    clock_rate_khz: int
    memory_clock_rate_khz: int
    memory_bus_width_bits: int
    cooperative_launch: int
    concurrent_kernels: int
    async_engine_count: int
    can_map_host_memory: int
    unified_addressing: int
    host_native_atomics: int
    pageable_memory_access: int
    memory_pools: int
    integrated: int
    ecc_enabled: int
    pci_domain_id: int
    pci_bus_id: int
    pci_device_id: int

    @property
    def label(self) -> str:
        """What names the device in messages and to `Device`: "cuda:0", "emulator:1"."""
        return f"{'emulator' if self.is_emulator else 'cuda'}:{self.ordinal}"

    @classmethod
    def of(cls, caps: dict[str, Any]) -> DeviceProperties:
        """The record from the C layer's table, which has exactly these names."""
        return cls(**{name: caps[name] for name in cls.__match_args__})


class MemoryStats(FrozenRecord):
    """Memory of one device.

    `live_bytes` are in use, in `live_count` blocks, `idle_bytes` are kept for reuse, and `peak_bytes` is the most that
    was in use at a time. `hits` are allocations served from idle blocks, `misses` those requested from the driver,
    `frees` blocks returned to it; at most `budget_bytes` are kept idle. Names with `pinned` say the same of page-locked
    memory.
    """

    live_bytes: int
    idle_bytes: int
    peak_bytes: int
    live_count: int
    hits: int
    misses: int
    pinned_live_bytes: int
    pinned_idle_bytes: int
    pinned_peak_bytes: int
    pinned_live_count: int
    pinned_hits: int
    pinned_misses: int
    frees: int
    pinned_frees: int
    budget_bytes: int
    pinned_budget_bytes: int


class KernelAttributes(FrozenRecord):
    """What the driver's compiler made of a kernel.

    `registers` and `local_bytes` (spilled values, local arrays) are those of a thread, `static_shared_bytes` those of a
    block. `resident_blocks` fit on a multiprocessor at the same time. Versions are major * 10 + minor.
    """

    max_threads_per_block: int
    registers: int
    static_shared_bytes: int
    local_bytes: int
    constant_bytes: int
    ptx_version: int
    binary_version: int
    resident_blocks: int
