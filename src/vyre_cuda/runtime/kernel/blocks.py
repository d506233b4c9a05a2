"""The block sizes that a device chose for programs: each is chosen once, by one process.

A choice is looked up in memory and then on disk, under the same key as a kernel.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.core.context import Context
from vyre_cuda.cache.lru import LRU
from vyre_cuda.cache.store import Store
from vyre_cuda.ir.builder.reblock import what_fixes_block, with_block
from vyre_cuda.ir.core.program import Program
from vyre_cuda.later import later
from vyre_cuda.runtime.base.properties import DeviceProperties
from vyre_cuda.runtime.kernel.kernels import disk_key

if TYPE_CHECKING:
    from vyre_cuda.ir.call.known import Known
    from vyre_cuda.runtime.kernel import lowering
else:
    lowering = later("vyre_cuda.runtime.kernel.lowering")

_KEPT = 1024


def given(program: Program, block: Any, properties: DeviceProperties) -> Program:
    """The valid program with this many threads per block. ValueError: it depends on its block, or the device has no
    block of this size. TypeError: `block` is not an int.
    """
    if isinstance(block, bool) or not isinstance(block, Integral):
        raise TypeError(
            f'block={block!r}; it must be a number of threads or "auto"; several axes are given where the program is '
            "built, by Builder(block=...) or @vc.kernel(block=...)"
        )
    block = int(block)
    most = properties.max_threads_per_block
    if not 1 <= block <= most:
        raise ValueError(f"block={block}; a block of this device has 1 to {most} threads")
    fixed = what_fixes_block(program)
    if fixed is not None and program.block != (block, 1, 1):
        what, source = fixed
        place = "" if source is None else f" ({source[0]}:{source[1]})"
        raise ValueError(
            f"block={block}, but {program.name} depends on its block of {program.block}: it has {what}{place}; "
            f"build it with Builder(block={block})"
        )
    return with_block(program, block)


class Blocks:
    """Programs with the blocks that one device chose for them; with `store` None, nothing is kept on disk."""

    def __init__(self, context: Context, properties: DeviceProperties, store: Store | None) -> None:
        self._context = context
        self._properties = properties
        self._store = store
        self._recent: LRU[Program] = LRU(_KEPT)

    def chosen(
        self, program: Program, precision: str, bounds: str, max_ulp: float | None, known: tuple[Known, ...]
    ) -> Program:
        """The valid program with its block. ValueError: it depends on its block."""
        key = (program.to_bytes(), precision, bounds, max_ulp, known)
        kept = self._recent.get(key)
        if kept is not None:
            return kept
        name = disk_key("block", key, self._properties)
        threads = self._read(name)
        if threads is None:
            options: dict[str, Any] = {"precision": precision, "bounds": bounds, "max_ulp": max_ulp, "known": known}
            threads = lowering.chosen_block(program, self._context, self._properties, **options)
            if self._store is not None:
                self._store.write(name, [b"%d" % threads])
        return self._recent.setdefault(key, with_block(program, threads))

    def _read(self, name: str) -> int | None:
        """The number of threads stored in a file, None if there is no number that this device can use."""
        found = None if self._store is None else self._store.read(name)
        if self._store is None or found is None:
            return None
        text = b",".join(found)
        threads = int(text) if text.isdigit() and len(text) < 10 else 0
        if 1 <= threads <= self._properties.max_threads_per_block:
            return threads
        self._store.discard(name)
        return None
