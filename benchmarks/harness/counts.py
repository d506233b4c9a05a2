"""How large the tasks are and how often each is done: one table for Python, the twins and the peers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True, slots=True)
class Counts:
    """Sizes in elements of f32. A series has `blocks` blocks of `block_calls` calls, or so many single trips.

    `nodes` are the kernels of a recorded graph, `thread_blocks` the blocks of each thread of the scaling curve,
    `starts` the processes of the start-up rows. A tenth more goes before each series, as warm-up.
    """

    elements: int
    sets: int
    large_elements: int
    large_sets: int
    copy_elements: int
    copy_sets: int
    nodes: int
    blocks: int
    block_calls: int
    trips: int
    long_trips: int
    copy_trips: int
    thread_blocks: int
    starts: int

    @property
    def chains(self) -> int:
        """Recorded graphs, one for each of the first input sets."""
        return min(self.sets, 4)

    def long(self) -> Counts:
        """For trips of a fraction of a millisecond."""
        return replace(self, trips=self.long_trips)

    def few_blocks(self) -> Counts:
        """For blocks that other threads hold up."""
        return replace(self, blocks=-(-self.blocks // 5))

    def copying(self) -> Counts:
        """For trips of many milliseconds."""
        return replace(self, trips=self.copy_trips)

    def words(self) -> list[str]:
        """As the C programs take them."""
        return [
            word for name, value in asdict(self).items() if name != "starts" for word in ("--count", f"{name}={value}")
        ]


FULL = Counts(
    elements=1024,  # 4 KiB
    sets=16,
    large_elements=4 << 20,  # 16 MiB
    large_sets=4,
    copy_elements=64 << 20,  # 256 MiB
    copy_sets=2,
    nodes=1000,
    blocks=1000,
    block_calls=100,
    trips=10000,
    long_trips=200,
    copy_trips=10,
    thread_blocks=300,
    starts=7,
)
PEER = replace(FULL, blocks=200, trips=3000, long_trips=100)
QUICK = replace(
    FULL,
    sets=8,
    large_elements=1 << 12,
    large_sets=2,
    copy_elements=1 << 14,
    nodes=6,
    blocks=2,
    block_calls=2,
    trips=4,
    long_trips=2,
    copy_trips=2,
    thread_blocks=2,
    starts=1,
)
