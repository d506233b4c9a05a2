"""The result of lowering: the text and everything a host must know to run it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from vyre_cuda.ir.core.nodes import Source
from vyre_cuda.ir.core.types import Type
from vyre_cuda.records import FrozenRecord

ParameterKind = Literal["buffer", "scalar", "size", "extent", "report", "grid_barrier"]
SiteKind = Literal["assert", "bounds", "race", "unwritten"]


class KernelParameter(FrozenRecord):
    """One value of the parameter block: `offset` and `size` in bytes, naturally aligned.

    "buffer" is a device pointer to elements of `type`, "scalar" a value of `type` (a bool is one byte), "size" the
    element count of the buffer `name` in the program's index type, "extent" that of one axis of a buffer (`name` has
    both, as in "x.1"), "report" a pointer to the record of failures (four
    u64: key, index, lock, reserved; the key preset to all ones, the rest to 0), "grid_barrier" a pointer to two u32 of
    device memory, which the host sets to 0 before each launch.
    """

    kind: ParameterKind
    name: str
    type: Type | None
    offset: int
    size: int


class Access(FrozenRecord):
    """How a kernel uses one buffer.

    `streaming`: every access is four or eight bytes wide and outside all loops, all are at the same global_id.x +
    constant, and none is atomic, so each element is accessed about once and may stay in host memory. `sectors`: the
    maximum number of 32-byte sectors that the accesses of 32 consecutive threads touch, if they are all loads or all
    stores; 0 if that is unknown or large.
    """

    loads: bool
    stores: bool
    atomics: bool
    streaming: bool
    sectors: int


class Cover(FrozenRecord):
    """Which launches write every element of an out.

    `elements` has a number for each axis of the launch along which the array goes, x first, which goes along the
    array's last axis: the launch must have so many threads that this number of elements for each of them is the extent
    or more; with a 0 any number of blocks will do. `loops`: loops over the grid fill it, and do so if the threads along
    x, times `elements[0]`, are fewer than 2^31; with several axes, if the threads along x are.
    """

    elements: tuple[int, ...]
    loops: bool


class Site(FrozenRecord):
    """A place in the program whose failure a thread reports by its number in `Lowered.sites`.

    `buffer` is the one that was accessed out of bounds, "" for an assertion. `statement` is its number in the program,
    in pre-order from 0. A "race" stands for all data races that the emulator reports, and "unwritten" for all elements
    that are read or returned before they are written; they are the last, in this order.
    """

    kind: SiteKind
    message: str
    buffer: str
    statement: int
    source: Source | None


class Several(FrozenRecord):
    """A kernel's other text, for large launches: an entry with the same parameters, whose threads work on several
    elements.

    It is launched in `elements` times fewer blocks where the grid follows from the work and has `threads` threads or
    more. Where the buffers `aligned` begin at multiples of these bytes, the elements of a thread are neighbors, else a
    block apart; without any they are always a block apart.
    """

    ptx: str
    entry: str
    elements: int
    threads: int
    aligned: tuple[tuple[str, int], ...] = ()


class Lowered(FrozenRecord):
    """A program as PTX.

    `shared_bytes` is all shared memory of a block, `dynamic_shared_bytes` the part of it to request at the launch.
    `covered` has the outs that are written as a whole by launches that are large enough.
    `sites` has the places of failures by number. `cooperative`: the launch must be cooperative, for its grid barriers.
    `prints`: the driver keeps lines of text that a wait must show.
    `aligned`: buffers and the bytes at whose multiples they must begin, so that a launch loads and stores vectors.
    """

    ptx: str
    entry: str
    parameters: tuple[KernelParameter, ...]
    parameter_bytes: int
    shared_bytes: int
    dynamic_shared_bytes: int
    access: Mapping[str, Access]
    covered: Mapping[str, Cover]
    sites: tuple[Site, ...]
    cooperative: bool
    prints: bool
    aligned: tuple[tuple[str, int], ...] = ()

    @property
    def asserts(self) -> tuple[Site, ...]:
        """The assertions among the sites."""
        return tuple(site for site in self.sites if site.kind == "assert")
