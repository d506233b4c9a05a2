"""Axes in another order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vyre_cuda.algorithms.programs import move
from vyre_cuda.algorithms.work import Shape, Work, delivered, index_type, normal_axis, require_array, tiles
from vyre_cuda.errors import type_name
from vyre_cuda.runtime.memory.array import DeviceArray


def merged(shape: Shape, axes: Sequence[int]) -> tuple[Shape, tuple[int, ...]]:
    """The same order of axes with as few of them as possible: without those of one element, neighbors as one."""
    kept = [axis for axis in axes if shape[axis] != 1]
    runs: list[list[int]] = []
    present = [axis for axis in range(len(shape)) if shape[axis] != 1]
    follows = dict(itertools.pairwise(present))
    for axis in kept:
        if runs and follows.get(runs[-1][-1]) == axis:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    ordered = sorted(runs)
    return tuple(math.prod(shape[k] for k in run) for run in ordered), tuple(ordered.index(run) for run in runs)


def move_axes(work: Work, x: DeviceArray, axes: Sequence[int], out: DeviceArray) -> None:
    """The elements of `x` with its axes in this order, written to `out`."""
    if not x.size:
        return
    shape, order = merged(x.shape, axes)
    if len(order) <= 1:
        flat_out, flat_x = out.reshape(x.size), x.reshape(x.size)
        flat_out.copy_from(flat_x)
        return
    strides = _strides(shape)
    result_strides = dict(zip(order, _strides(tuple(shape[k] for k in order)), strict=True))
    index = index_type(2 * x.size)
    last, result_last = len(shape) - 1, order[-1]
    if last == result_last:
        rows = [part for axis in reversed(order) for part in (shape[axis], strides[axis])]
        program = move.gathered(x.type, len(order), index)
        work.launch(program, x, out, x.size, *rows, blocks=tiles(x.size, move.GATHER_THREADS))
        return
    others = [axis for axis in reversed(order) if axis not in (last, result_last)]
    rows = [part for axis in others for part in (shape[axis], strides[axis], result_strides[axis])]
    sides = (shape[last], result_strides[last], shape[result_last], strides[result_last])
    count = tiles(shape[last], move.SIDE) * tiles(shape[result_last], move.SIDE) * math.prod(shape[k] for k in others)
    work.launch(move.tiled(x.type, len(others), index), x, out, *sides, *rows, blocks=count)


def moved_last(work: Work, x: DeviceArray, axes: Sequence[int]) -> DeviceArray:
    """`x`, or where these axes are not its last ones, a copy in which they are."""
    order = (*(k for k in range(x.ndim) if k not in axes), *axes)
    if merged(x.shape, order)[1] in ((), (0,)):
        return x
    made = work.scratch(x.size, x.type)
    move_axes(work, x, order, made)
    return made


def transposed(x: Any, axes: Sequence[int] | None, out: Any) -> Any:
    """`transpose` on either kind of array."""
    require_array("transpose", x)
    if axes is not None and not isinstance(axes, Sequence):
        raise TypeError(f"axes is {type_name(axes)}; it must be a tuple of ints")
    order = tuple(reversed(range(x.ndim))) if axes is None else tuple(normal_axis(axis, x.ndim) for axis in axes)
    if len(order) != x.ndim:
        raise ValueError("axes don't match array")
    if len(set(order)) != len(order):
        raise ValueError("repeated axis in transpose")
    shape = tuple(x.shape[axis] for axis in order)
    if isinstance(x, np.ndarray):
        return delivered(np.array(np.transpose(x, order), order="C"), out, x)
    work = Work(x)
    result = work.result(shape, x.type, out, x)
    move_axes(work, x, order, result)
    return result


def _strides(shape: Shape) -> Shape:
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))
