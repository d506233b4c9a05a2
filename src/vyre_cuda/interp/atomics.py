"""Atomic read-combine-write on the elements of an array, as if the lanes came one after the other.

`address` has the element of each lane, in lane order; the old value of each lane is what the previous lanes left.
Independent elements are handled together; only lanes that access the same element need an order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vyre_cuda.ir.core.types import Type
from vyre_cuda.ir.semantics.bits import Array, from_order_keys, is_nan, order_keys
from vyre_cuda.ir.semantics.elementwise import apply

# Elements with more lanes than this are scanned one by one, the others in rounds of one lane each.
_ROUNDS = 64

_COMBINES: dict[str, np.ufunc] = {
    "minimum": np.minimum,
    "maximum": np.maximum,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


def combine(
    op: str, type_: Type, data: Array, address: Array, operands: Sequence[Array], *, flush: bool, need_old: bool
) -> Array | None:
    """Apply a row of `ops.ATOMICS` to the elements of `data`; the old values if `need_old` and there are any.

    With `flush`, an add of floats behaves as PTX atom.add.f32 on global memory: subnormal operands and results become 0
    of the same sign (PTX ISA, "atom"); the old value is what was in memory.
    """
    match op:
        case "load":
            return data[address]
        case "store":
            data[address] = operands[0]  # of several at one element, the last
            return None
        case "exchange":
            return _exchange(data, address, operands[0])
        case "compare_exchange":
            return _compare_exchange(data, address, operands[0], operands[1])
        case "add" | "subtract":
            if type_.is_float and type_.bits == 16:
                return _add_halves(type_, data, address, operands[0])
            value = operands[0] if op == "add" else np.negative(operands[0])
            return _add(data, address, value, flush=flush, need_old=need_old)
        case _:
            extreme = _extreme_floats if type_.is_float else _extreme_or_bits
            return extreme(op, type_, data, address, operands[0], need_old)


def _exchange(data: Array, address: Array, value: Array) -> Array:
    """Each lane finds the operand of the previous lane at the same element."""
    old = np.zeros(address.size, dtype=data.dtype)
    if address.size == 0:
        return old
    order, starts, _ = _groups(address)
    ordered = value[order]
    found = np.concatenate((ordered[:1], ordered[:-1]))
    found[starts] = data[address[order[starts]]]
    old[order] = found
    ends = np.concatenate((starts[1:], [address.size])) - 1
    data[address[order[ends]]] = ordered[ends]
    return old


def _compare_exchange(data: Array, address: Array, expected: Array, desired: Array) -> Array:
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


# ---- minimum, maximum, bits --------------------------------------------------------------------------------------


def _extreme_or_bits(op: str, _type: Type, data: Array, address: Array, value: Array, need_old: bool) -> Array | None:
    ufunc = _COMBINES[op]
    if not need_old:
        ufunc.at(data, address, value)
        return None
    return _in_order(data, address, value, ufunc, lambda first, rest: ufunc.accumulate(np.concatenate((first, rest))))


def _extreme_floats(op: str, type_: Type, data: Array, address: Array, value: Array, need_old: bool) -> Array | None:
    """Floats as integers in the same order, with NaN beyond the end that wins."""
    touched, which = np.unique(address, return_inverse=True)
    keys = _keys(op, type_, data[touched])
    old = _extreme_or_bits(op, type_, keys, which, _keys(op, type_, value), need_old)
    data[touched] = from_order_keys(type_, keys)
    return None if old is None else from_order_keys(type_, old)


def _keys(op: str, type_: Type, x: Array) -> Array:
    keys = order_keys(type_, x)
    limits = np.iinfo(keys.dtype)
    winner = keys.dtype.type(limits.min if op == "minimum" else limits.max)
    return np.where(is_nan(type_, x), winner, keys)


# ---- add ---------------------------------------------------------------------------------------------------------


def _add(data: Array, address: Array, value: Array, *, flush: bool, need_old: bool) -> Array | None:
    if data.dtype.kind == "f" and (flush or need_old):
        return _add_floats(data, address, value, flush)
    old = _running_sums(data, address, value) if need_old else None
    np.add.at(data, address, value)  # in the order of the lanes, each sum rounded to the dtype
    return old


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
    """Sums of floats depend on their order."""
    if not flush:
        return _in_order(data, address, value, np.add, lambda first, rest: np.add.accumulate(np.append(first, rest)))
    return _in_order(data, address, _flushed(value), _flushing_sum, _flushing_sums)


def _add_halves(type_: Type, data: Array, address: Array, value: Array) -> Array:
    """Each sum is rounded to the type once; subnormals stay."""

    def step(current: Array, one: Array) -> Array:
        return apply("add", type_, type_, [current, one])

    def chain(first: Array, values: Array) -> Array:
        states = [first]
        for place in range(values.size):
            states.append(step(states[-1], values[place : place + 1]))
        return np.concatenate(states)

    return _in_order(data, address, value, step, chain)


def _flushing_sum(current: Array, value: Array) -> Array:
    return _flushed(_flushed(current) + value)


def _flushing_sums(first: Array, value: Array) -> Array:
    """The element before each of the adds and after the last; `accumulate` rounds each sum, in order."""
    sums: Array = np.add.accumulate(np.append(_flushed(first), value))
    if _subnormal(sums).any():
        smallest = np.finfo(sums.dtype).smallest_normal
        total = sums[0]
        for step, one in enumerate(value, start=1):
            total = total + one
            if 0 < abs(total) < smallest:
                total = np.copysign(sums.dtype.type(0), total)
            sums[step] = total
    sums[0] = first[0]
    return sums


def _subnormal(x: Array) -> Array:
    subnormal: Array = (np.abs(x) < np.finfo(x.dtype).smallest_normal) & (x != 0)
    return subnormal


def _flushed(x: Array) -> Array:
    return np.where(_subnormal(x), np.copysign(x.dtype.type(0), x), x)


# ---- order -------------------------------------------------------------------------------------------------------


def _in_order(
    data: Array,
    address: Array,
    value: Array,
    step: Callable[[Array, Array], Array],
    chain: Callable[[Array, Array], Array],
) -> Array:
    """Combine lane by lane where lanes meet; returns the old values: rounds over short groups, a chain over each long
    one.

    `step` combines elements with one value each; `chain` returns the contents of one element before each value and
    after the last.
    """
    old = np.zeros(address.size, dtype=data.dtype)
    if address.size == 0:
        return old
    order, starts, counts = _groups(address)
    for start, count in zip(starts[counts > _ROUNDS].tolist(), counts[counts > _ROUNDS].tolist(), strict=True):
        lanes = order[start : start + count]
        place = int(address[lanes[0]])
        states = chain(data[place : place + 1].copy(), value[lanes])
        old[lanes], data[place] = states[:-1], states[-1]
    short = starts[counts <= _ROUNDS]
    left = counts[counts <= _ROUNDS]
    for turn in range(int(left.max(initial=0))):
        lanes = order[short[left > turn] + turn]
        at = address[lanes]
        current = data[at]
        old[lanes] = current
        data[at] = step(current, value[lanes])
    return old


def _groups(address: Array) -> tuple[Array, Array, Array]:
    """Lanes sorted by address, lane order kept within one; where each group starts; how many lanes it has."""
    order = np.argsort(address, kind="stable")
    ordered = address[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return order, starts, np.diff(starts, append=address.size)
