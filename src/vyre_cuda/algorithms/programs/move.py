"""Programs that bring elements into another order of axes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.ids import block_id, thread_id
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_

# Elements along each side of a tile, and rows of threads that move one.
SIDE = 32
STEP = 8
GATHER_THREADS = 256


def output(b: Builder, name: str, type_: Type) -> Buffer:
    """A buffer that the program writes all of; nothing is cleared before."""
    return b.inout(name, type_) if type_ is bool_ else b.output(name, type_, zeroed=False)


@lru_cache(maxsize=256)
def tiled(type_: Type, others: int, index: Type) -> Program:
    """Where the last axes of source and result are two axes: tiles of both, through shared memory.

    Parameters of the program: source, result; the extent of the source's last axis and its stride in the result; the
    extent of the result's last axis and its stride in the source; for each other axis its extent and its strides in
    source and result.
    """
    b = Builder(f"transpose_{type_.name}", block=(SIDE, STEP), index=index)
    x, out = b.input("x", type_), output(b, "out", type_)
    width, width_stride = b.scalar("width", index), b.scalar("width_stride", index)
    height, height_stride = b.scalar("height", index), b.scalar("height_stride", index)
    axes = [tuple(b.scalar(f"{what}{k}", index) for what in ("extent", "from", "to")) for k in range(others)]
    tile = b.shared("tile", type_, (SIDE, SIDE + 1))
    across = b.let("across", (width + (SIDE - 1)) // SIDE)
    down = b.let("down", (height + (SIDE - 1)) // SIDE)
    block = b.let("block", block_id.x // across)
    column = b.let("column", (block_id.x - block * across) * SIDE)
    rest = b.let("rest", block // down)
    row = b.let("row", (block - rest * down) * SIDE)
    source, target = _places(b, rest, axes, index)
    x_in, y_in = b.let("x_in", column + thread_id.x), b.let("y_in", row + thread_id.y)
    for k in range(0, SIDE, STEP):
        with b.if_((x_in < width) & (y_in + k < height)):
            tile[thread_id.y + k, thread_id.x] = x[source + (y_in + k) * height_stride + x_in]
    b.barrier()
    x_out, y_out = b.let("x_out", row + thread_id.x), b.let("y_out", column + thread_id.y)
    for k in range(0, SIDE, STEP):
        with b.if_((x_out < height) & (y_out + k < width)):
            out[target + (y_out + k) * width_stride + x_out] = tile[thread_id.x, thread_id.y + k]
    b.work(width, height)
    return b.build()


@lru_cache(maxsize=256)
def gathered(type_: Type, count: int, index: Type) -> Program:
    """Each element of the result read from where it is in the source.

    Parameters of the program: source, result, the number of elements; for each axis of the result, the last one first,
    its extent and its stride in the source.
    """
    b = Builder(f"gather_{type_.name}", block=GATHER_THREADS, index=index)
    x, out = b.input("x", type_), output(b, "out", type_)
    n = b.scalar("n", index)
    axes = [(b.scalar(f"extent{k}", index), b.scalar(f"stride{k}", index)) for k in range(count)]
    i = b.let("i", block_id.x * GATHER_THREADS + thread_id.x)
    with b.if_(i < n):
        rest: Value = i
        place: Any = index(0)
        for k, (extent, stride) in enumerate(axes):
            if k + 1 == count:
                place = place + rest * stride
                break
            quotient = b.let("quotient", rest // extent)
            place = place + (rest - quotient * extent) * stride
            rest = quotient
        out[i] = x[place]
    b.work(n)
    return b.build()


def _places(b: Builder, rest: Value, axes: list[Any], index: Type) -> tuple[Value, Value]:
    """Where a tile's other coordinates begin in source and result."""
    source: Any = index(0)
    target: Any = index(0)
    for extent, stride_from, stride_to in axes:
        quotient = b.let("quotient", rest // extent)
        coordinate = b.let("coordinate", rest - quotient * extent)
        source, target = source + coordinate * stride_from, target + coordinate * stride_to
        rest = quotient
    return b.let("source", source), b.let("target", target)
