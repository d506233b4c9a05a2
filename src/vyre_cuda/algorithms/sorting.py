"""Sorting: sort, argsort, searchsorted."""

from __future__ import annotations

from typing import Any

import numpy as np

from vyre_cuda.algorithms.moving import move_axes, moved_last
from vyre_cuda.algorithms.programs import block_sort, merge_sort, radix
from vyre_cuda.algorithms.programs.keys import keys_of
from vyre_cuda.algorithms.programs.ranking import DIGITS, Sorted
from vyre_cuda.algorithms.reductions import Array
from vyre_cuda.algorithms.work import (
    Work,
    delivered,
    index_type,
    normal_axis,
    refuse_shared,
    require_array,
    tiles,
    type_of,
)
from vyre_cuda.ir.core.types import Type, i64
from vyre_cuda.runtime.memory.array import DeviceArray

# A place is u32 on its way.
MOST_KEYS = 1 << 31


def sorted_arrays(keys: Any, values: Any, axis: Any, out: Any) -> Any:
    """`sort` on either kind of array."""
    require_array("sort", keys)
    keys, axis = (keys.reshape(keys.size), 0) if axis is None else (keys, normal_axis(axis, keys.ndim))
    if values is not None:
        if isinstance(values, np.ndarray) != isinstance(keys, np.ndarray):
            raise TypeError("keys and values must be arrays of one kind: both on the device, or both NumPy arrays")
        if values.size == keys.size and keys.ndim == 1:
            values = values.reshape(values.size)
        if values.shape != keys.shape:
            raise ValueError(f"values have the shape {values.shape}, keys {keys.shape}: give a value for each key")
    if isinstance(keys, np.ndarray):
        return _on_host(keys, values, axis, out)
    work = Work(keys) if values is None else Work(keys, values)
    outs = (out, None) if values is None else ((None, None) if out is None else _pair(out))
    sorted_keys = work.result(keys.shape, keys.type, outs[0], *((keys,) if values is None else (keys, values)))
    if values is None:
        _sort(work, keys, None, axis, sorted_keys, None)
        return sorted_keys
    sorted_values = work.result(values.shape, values.type, outs[1], keys, values)
    refuse_shared("out", sorted_keys, sorted_values)
    _sort(work, keys, values, axis, sorted_keys, sorted_values)
    return sorted_keys, sorted_values


def argsorted(x: Any, axis: Any, out: Any) -> Any:
    """`argsort` on either kind of array."""
    require_array("argsort", x)
    x, axis = (x.reshape(x.size), 0) if axis is None else (x, normal_axis(axis, x.ndim))
    if isinstance(x, np.ndarray):
        return delivered(np.argsort(keys_of(x, type_of(x)), axis=axis, kind="stable"), out, x)
    work = Work(x)
    places = work.result(x.shape, i64, out, x)
    _sort(work, x, None, axis, work.scratch(x.size, x.type).reshape(x.shape), places)
    return places


def _pair(out: Any) -> tuple[Any, Any]:
    if not isinstance(out, tuple) or len(out) != 2:
        raise TypeError("out of a sort with values is a pair: (keys, values)")
    return out


def _on_host(keys: Array, values: Array | None, axis: int, out: Any) -> Any:
    order = np.argsort(keys_of(keys, type_of(keys)), axis=axis, kind="stable")
    sorted_keys = np.take_along_axis(keys, order, axis=axis)
    if values is None:
        return delivered(sorted_keys, out, keys)
    outs = (None, None) if out is None else _pair(out)
    sorted_values = np.take_along_axis(values, order, axis=axis)
    return delivered(sorted_keys, outs[0], keys, values, outs[1]), delivered(sorted_values, outs[1], keys, values)


# ---- devices --------------------------------------------------------------------------------------------------------


def _sort(
    work: Work,
    keys: DeviceArray,
    values: DeviceArray | None,
    axis: int,
    sorted_keys: DeviceArray,
    sorted_values: DeviceArray | None,
) -> None:
    """Keys along an axis; without `values`, `sorted_values` gets the keys' places."""
    if not keys.size:
        return
    n = keys.shape[axis]
    source = moved_last(work, keys, (axis,))
    if source is keys:
        _sort_rows(work, keys, values, n, sorted_keys, sorted_values)
        return
    moved = None if values is None else moved_last(work, values, (axis,))
    made = work.scratch(keys.size, keys.type)
    made_values = None if sorted_values is None else work.scratch(keys.size, sorted_values.type)
    _sort_rows(work, source, moved, n, made, made_values)
    others = [k for k in range(keys.ndim) if k != axis]
    shape = (*(keys.shape[k] for k in others), n)
    back = list(range(len(others)))
    back.insert(axis, len(others))
    move_axes(work, made.reshape(shape), back, sorted_keys)
    if made_values is not None and sorted_values is not None:
        move_axes(work, made_values.reshape(shape), back, sorted_values)


def _sort_rows(
    work: Work,
    keys: DeviceArray,
    values: DeviceArray | None,
    n: int,
    sorted_keys: DeviceArray,
    sorted_values: DeviceArray | None,
) -> None:
    how = Sorted(
        keys.type,
        None if values is None else values.type,
        None if sorted_values is None else sorted_values.type,
        votes=_votes(work),
    )
    if n > MOST_KEYS:
        raise ValueError(f"{n} keys; a sort takes at most {MOST_KEYS}: sort parts of them")
    index = index_type(keys.size)
    shape = block_sort.shape_of(how, n, _shared_bytes(work))
    if shape is not None:
        given = [each for each in (keys, values, sorted_keys, sorted_values) if each is not None]
        if n <= merge_sort.MOST:
            program = merge_sort.program(how, max(32, 1 << (n - 1).bit_length()), index)
        else:
            program = block_sort.program(how, *shape, index)
        work.launch(program, *given, n, blocks=keys.size // n)
        return
    for row in range(keys.size // n):
        part = [None if each is None else _row(each, row, n) for each in (keys, values, sorted_keys, sorted_values)]
        _sort_large(work, how, index, part, n)


def _votes(work: Work) -> bool:
    return not work.device.properties.is_emulator


def _shared_bytes(work: Work) -> int:
    return work.device.properties.max_shared_memory_per_block_optin


def _row(array: DeviceArray, row: int, n: int) -> DeviceArray:
    return array if array.size == n else array._flat(row * n, row * n + n)


def _sort_large(work: Work, how: Sorted, index: Type, part: list[Any], n: int) -> None:
    """One row, by a launch for each digit, between the result and memory of the call."""
    keys, values, sorted_keys, sorted_values = part
    size = radix.tile_of(how, _shared_bytes(work))
    blocks = tiles(n, size.keys)
    # Where digits begin, and what the blocks of each pass publish: zeroed at once, where that takes little memory.
    word = radix.word_type(n)
    length, first = radix.published_words(blocks), how.digits * DIGITS
    together = blocks <= radix.MOST_AT_ONCE
    words = work.scratch(first + length * (how.digits if together else 1), word)
    words.fill(0)
    counting = min(tiles(n, radix.COUNT_THREADS * radix.COUNT_ITEMS), radix.MOST_COUNT_BLOCKS)
    begins = words._flat(0, first)
    work.launch(radix.histogram(how.keys, index, word), keys, begins, n, blocks=counting)
    work.launch(radix.starts(word), begins, blocks=how.digits)
    spare = [work.scratch(n, how.keys) for _ in range(min(how.digits - 1, 2))]
    moved = how.moved
    spare_values = [] if moved is None else [work.scratch(n, moved) for _ in spare]
    for digit in range(how.digits):
        is_last = digit + 1 == how.digits
        target = sorted_keys if is_last else spare[digit % 2]
        given = [keys]
        if moved is not None and values is not None:
            given.append(values)
        given.append(target)
        if moved is not None:
            given.append(sorted_values if is_last else spare_values[digit % 2])
        at = first + (digit * length if together else 0)
        published = words._flat(at, at + length)
        if digit and not together:
            published.fill(0)
        program = radix.one_pass(how, size, index, word, implicit=moved is not None and values is None, final=is_last)
        own = words._flat(digit * DIGITS, (digit + 1) * DIGITS)
        work.launch(program, *given, own, published, n, 8 * digit, blocks=blocks)
        keys, values = target, given[-1] if moved is not None else None
