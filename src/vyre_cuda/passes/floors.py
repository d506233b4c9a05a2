"""What the steps of a graph cost on an architecture, and from how many on they are rows of a launch.

What is fused is decided from these figures and the recorded graph alone, so it is the same on every machine of an
architecture and in every run; `vyre-cuda doctor` says where a machine differs.
"""

from __future__ import annotations

from vyre_cuda.records import FrozenRecord


class Floors(FrozenRecord):
    """Microseconds of a kernel of 4 KiB or less, and least numbers of rows."""

    chained: float  # of a node that needs the one before
    beside: float  # of a node that needs no other
    barrier: float  # of a step of one block that follows another in the same kernel
    rows: int  # of a launch with a table, which takes as long as a node
    rows_of_merged: int  # of launches that would be one merged kernel otherwise: of fewer that is as fast
    rows_of_block: int  # of launches that would be one with what they depend on, in one block
    chains: int  # for each launch of a chain, of chains that would be a kernel each, beside each other


# By compute capability. sm_90: an H200 with driver 580, graphs of 1,000 kernels and loops in one block of 256 threads.
FLOORS = {(9, 0): Floors(0.91, 0.79, 0.18, rows=2, rows_of_merged=6, rows_of_block=16, chains=8)}


def floors_of(compute_capability: tuple[int, int]) -> Floors:
    """Those of the newest known architecture that is not newer; else of the oldest."""
    return FLOORS[max((known for known in FLOORS if known <= compute_capability), default=min(FLOORS))]
