"""Which elements the threads of a launch reach with the indices that they surely store to.

An index is a sum of numbers that are 0 or more: ids, numbers of trips, and constants. Whoever finds for an element e a
thread and trips for which the exact sum is e has shown that e is stored: a sum modulo 2^n is exact where it is an
element's number, so it does not matter whether others wrap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from vyre_cuda.codegen.core.lowered import Cover
from vyre_cuda.codegen.lowering.linear import Linear
from vyre_cuda.ir.affine import Affine
from vyre_cuda.records import FrozenRecord

# One sum for each axis of the array.
Indices: TypeAlias = tuple[Affine, ...]

# The largest numbers of elements a thread that a binding has room for, of an out with one axis and with several.
_MOST_OF_ONE = (1 << 14) - 1
_MOST_OF_SEVERAL = 15


class UntilEnd(FrozenRecord):
    """A term that takes the values 0, step, 2 * step, ..., as long as an element of that number can exist.

    The step is one where no launch lets it wrap whose threads, times what `Cover` says of each, are fewer than 2^31.
    """

    step: Affine


# What a term for trips takes: 0 to n - 1, or what a loop says that goes on to the end of the array. They are negative.
Trips: TypeAlias = Mapping[int, "int | UntilEnd"]
# (elements a thread, 0 if any launch fills the axis; whether a loop over the grid does)
_Reach: TypeAlias = tuple[int, bool]
_ANY: _Reach = (0, False)


def filled(
    stored: Sequence[Indices], extents: Sequence[int | None], linear: Linear, block: Sequence[int], trips: Trips
) -> Cover | None:
    """Which launches fill an array of these extents (None: not constant) if every thread stores to these elements."""
    patterns: dict[tuple[tuple[tuple[int, int], ...], ...], set[tuple[int, ...]]] = {}
    for sums in stored:
        patterns.setdefault(tuple(s.terms for s in sums), set()).add(tuple(s.constant for s in sums))
    for terms, constants in patterns.items():
        cover = _of_pattern(terms, constants, extents, linear, block, trips)
        if cover is not None:
            return cover
    return None


def _of_pattern(
    terms: tuple[tuple[tuple[int, int], ...], ...],
    constants: set[tuple[int, ...]],
    extents: Sequence[int | None],
    linear: Linear,
    block: Sequence[int],
    trips: Trips,
) -> Cover | None:
    used = [term for axis in terms for term, _ in axis]
    offsets = [{each[axis] for each in constants} for axis in range(len(terms))]
    count = 1
    for of_axis in offsets:
        count *= len(of_axis)
    if len(set(used)) < len(used) or count != len(constants):  # axes that depend on each other
        return None
    several = len(terms) > 1
    elements, loops = [], False
    for place in range(len(terms)):
        axis = len(terms) - 1 - place  # of the launch: x goes along the last axis of an array
        reach = _axis(terms[place], offsets[place], extents[place], axis, linear, block, trips)
        if reach is None or (several and reach[1] and reach[0] != 1) or (axis > 2 and reach != _ANY):
            return None
        loops |= reach[1] or (not several and reach == _ANY)
        elements.append(0 if several and reach[1] else min(reach[0], _MOST_OF_SEVERAL if several else _MOST_OF_ONE))
    return Cover(tuple(reversed(elements))[:3], loops)


def _axis(
    terms: tuple[tuple[int, int], ...],
    offsets: set[int],
    extent: int | None,
    axis: int,
    linear: Linear,
    block: Sequence[int],
    trips: Trips,
) -> _Reach | None:
    """What of one axis is reached from 0 on without a gap."""
    counted = [_progression(offsets)] if len(offsets) > 1 else []
    if 0 not in offsets:
        return None
    grid = None
    endless: UntilEnd | None = None
    for term, coefficient in terms:
        trip, coordinate = trips.get(term), linear.coordinate(term)
        if isinstance(trip, int):
            counted.append((coefficient, trip))
        elif trip is not None:
            if endless is not None or coefficient != 1:
                return None
            endless = trip
        elif coordinate is None or coordinate.kind == "%nctaid":
            return None
        elif coordinate.kind == "%tid":
            counted.append((coefficient, block[coordinate.axis]))
        elif coordinate.axis == axis:  # block 0 of the other axes is always there
            grid = coefficient
    return _reach(_run(counted), grid, endless, extent, axis, linear, block)


def _reach(
    run: int,
    grid: int | None,
    endless: UntilEnd | None,
    extent: int | None,
    axis: int,
    linear: Linear,
    block: Sequence[int],
) -> _Reach | None:
    """`run`: every number below it is reached in block 0, `grid` further in each block that follows."""
    if extent is not None and extent <= run:
        return _ANY
    follows = grid is not None and grid <= run
    if endless is not None:
        if not endless.step.terms:
            return _ANY if 0 < endless.step.constant <= run else None
        return _over_the_grid(endless.step, grid, axis, linear, block) if grid is not None and follows else None
    return (grid // block[axis], False) if grid is not None and follows and grid >= block[axis] else None


def _over_the_grid(step: Affine, grid: int, axis: int, linear: Linear, block: Sequence[int]) -> _Reach | None:
    """The blocks leave no gap before `grid` times their number, and the next trip begins there or before."""
    ((term, coefficient), *others) = step.terms
    coordinate = linear.coordinate(term)
    if others or step.constant != 0 or coordinate is None or (coordinate.kind, coordinate.axis) != ("%nctaid", axis):
        return None
    each = grid // block[axis]
    fits = coefficient <= grid and grid % block[axis] == 0 and each <= _MOST_OF_ONE
    return (each, True) if fits else None


def _progression(offsets: set[int]) -> tuple[int, int]:
    """(step, count) of the longest 0, step, 2 * step, ... among several, where step is the least of them."""
    step = min(offset for offset in offsets if offset != 0)
    count = 1
    while count * step in offsets:
        count += 1
    return step, count


def _run(counted: list[tuple[int, int]]) -> int:
    """Up to where the sums of coefficient * k, each k from 0 to below its count, leave no gap."""
    run = 1
    for coefficient, count in sorted(counted):
        if coefficient > run:
            break  # and so are the rest, which can be 0
        run += (count - 1) * coefficient
    return run
