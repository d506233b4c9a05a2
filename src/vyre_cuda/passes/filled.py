"""Whether a step gives each element of an output a value before any is read, so that it needs no zeros first."""

from __future__ import annotations

from vyre_cuda.ir.core.nodes import Id, If, Position, Store
from vyre_cuda.ir.core.types import Type
from vyre_cuda.ir.core.walk import Body, bodies
from vyre_cuda.passes.accesses import reads
from vyre_cuda.passes.places import Conditions, Key, Places


def fills(places: Places, index: Type, body: Body, name: str, shape: tuple[int, ...]) -> bool:
    """Whether each element of an array of this shape gets one at the top of the body."""
    found_for = _threads(places, index, shape)
    if found_for is None:
        return False
    whole, own = found_for

    def stores(part: Body, here: Conditions) -> bool | None:
        """None: it neither reads nor fills the array."""
        for s in part:
            if reads((s,), name, nested=False):
                return False
            if isinstance(s, Store) and s.buffer == name and whole.within(here) and places.key(s.index, whole) == own:
                return True
            if isinstance(s, If) and (found := stores(s.then, places.assumed(here, s.condition))) is not None:
                return found
            if any(reads(inner, name) for _, inner in bodies(s)):
                return False
        return None

    return bool(stores(body, places.launched))


def _threads(places: Places, index: Type, shape: tuple[int, ...]) -> tuple[Conditions, Key | None] | None:
    """Which threads have an element each of an array of this shape, and which one; None: there are too few."""
    extents = shape[::-1]  # by axis of the threads: the last index is along x
    threads = places.launched.axes
    if len(extents) > len(threads) or any(n - 1 > high for n, (_, high) in zip(extents, threads, strict=False)):
        return None
    whole = Conditions(tuple((0, extents[axis] - 1 if axis < len(extents) else 0) for axis in range(len(threads))))
    ids = tuple(Id(index, "global_id", axis) for axis in range(len(extents)))[::-1]
    return whole, places.key(ids[0] if len(ids) == 1 else Position(index, ids), whole)
