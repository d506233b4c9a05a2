"""Atomic read-combine-write on the elements of an array, as if the lanes came one after the other.

`address` has the element of each lane, in lane order; the old value of each lane is what the lanes before it left.
Independent elements are handled together; only lanes that meet at one element need an order.
"""

from __future__ import annotations

import numpy as np

from vyre_cuda.ir.elementwise import Array

# Elements with more lanes than this are scanned one by one, the others in rounds of one lane each.
_ROUNDS = 64


def add(data: Array, address: Array, value: Array, *, flush: bool, need_old: bool) -> Array | None:
    """Add `value` to the elements; the old values if `need_old`.

    With `flush`, floats behave as PTX atom.add.f32 on global memory: subnormal operands and results become 0 of the
    same sign (PTX ISA, "atom"); the old value is what lay in memory.
    """
    if data.dtype.kind == "f" and (flush or need_old):
        return _add_floats(data, address, value, flush)
    old = _running_sums(data, address, value) if need_old else None
    np.add.at(data, address, value)  # in the order of the lanes, each sum rounded to the dtype
    return old


def compare_exchange(data: Array, address: Array, expected: Array, desired: Array) -> Array:
    """Write `desired` where the element equals `expected`; the old values."""
    touched, which = np.unique(address, return_inverse=True)
    if touched.size == address.size:
        old = data[address]
        data[address] = np.where(old == expected, desired, old)
        return old
    current = data[touched].tolist()
    found = []
    for place, want, new in zip(which.tolist(), expected.tolist(), desired.tolist(), strict=True):
        found.append(current[place])
        if current[place] == want:
            current[place] = new
    data[touched] = current
    return np.array(found, dtype=data.dtype)


def _groups(address: Array) -> tuple[Array, Array, Array]:
    """Lanes sorted by address, lane order kept within one; where each group starts; how many lanes it has."""
    order = np.argsort(address, kind="stable")
    ordered = address[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return order, starts, np.diff(starts, append=address.size)


def _running_sums(data: Array, address: Array, value: Array) -> Array:
    """What each lane of an integer add finds. Sums wrap, so differences of one running sum over all groups serve."""
    old = np.zeros(address.size, dtype=data.dtype)
    if address.size == 0:
        return old
    order, starts, counts = _groups(address)
    ordered = value[order]
    before = np.add.accumulate(ordered, dtype=data.dtype) - ordered
    before -= before[starts].repeat(counts)
    old[order] = data[address[order]] + before
    return old


def _add_floats(data: Array, address: Array, value: Array, flush: bool) -> Array:
    """Sums of floats depend on their order: rounds over short groups, a running sum over each long one."""
    old = np.zeros(address.size, dtype=data.dtype)
    if address.size == 0:
        return old
    if flush:
        value = _flushed(value)
    order, starts, counts = _groups(address)
    for start, count in zip(starts[counts > _ROUNDS].tolist(), counts[counts > _ROUNDS].tolist(), strict=True):
        lanes = order[start : start + count]
        old[lanes] = _add_one_by_one(data, int(address[lanes[0]]), value[lanes], flush)
    short = starts[counts <= _ROUNDS]
    left = counts[counts <= _ROUNDS]
    for turn in range(int(left.max(initial=0))):
        lanes = order[short[left > turn] + turn]
        place = address[lanes]
        current = data[place]
        old[lanes] = current
        total = (_flushed(current) if flush else current) + value[lanes]
        data[place] = _flushed(total) if flush else total
    return old


def _add_one_by_one(data: Array, place: int, value: Array, flush: bool) -> Array:
    """Add all of `value` to one element; the old values. `accumulate` rounds each sum, in order."""
    first = data[place : place + 1].copy()
    sums = np.add.accumulate(np.concatenate((_flushed(first) if flush else first, value)))
    if flush and _subnormal(sums).any():
        smallest = np.finfo(data.dtype).smallest_normal
        total = sums[0]
        for step, one in enumerate(value, start=1):
            total = total + one
            if 0 < abs(total) < smallest:
                total = np.copysign(data.dtype.type(0), total)
            sums[step] = total
    data[place] = sums[-1]
    sums[0] = first[0]
    return sums[:-1]


def _subnormal(x: Array) -> Array:
    subnormal: Array = (np.abs(x) < np.finfo(x.dtype).smallest_normal) & (x != 0)
    return subnormal


def _flushed(x: Array) -> Array:
    return np.where(_subnormal(x), np.copysign(x.dtype.type(0), x), x)
