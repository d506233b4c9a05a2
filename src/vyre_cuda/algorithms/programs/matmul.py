"""The program of a matrix product: tiles of 128 x 128, of which each thread has 8 x 8."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import block_id, fma, thread_id
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, f64

THREADS = 256
# Threads along a side of a tile, the elements of each along it, and the elements of a row that are brought at once.
ACROSS = 16
DEPTH = 8


def own_of(type_: Type) -> int:
    """The elements of a thread along each side of the tile."""
    return 4 if type_ is f64 else 8


def side_of(type_: Type) -> int:
    return ACROSS * own_of(type_)


@lru_cache(maxsize=16)
def program(type_: Type, index: Type) -> Program:
    """The product of matrices; each element is a chain of `fma` over the rows of the second, beginning with 0.

    Parameters of the program: x of m by depth, y of depth by n, the result, and the three numbers.
    """
    own, side = own_of(type_), side_of(type_)
    b = Builder(f"matmul_{type_.name}", block=THREADS, index=index)
    x, y, out = b.input("x", type_), b.input("y", type_), b.output("out", type_, zeroed=False)
    m, n, depth = (b.scalar(name, index) for name in ("m", "n", "depth"))
    across = b.let("across", (n + (side - 1)) // side)
    row = b.let("row", block_id.x // across * side)
    column = b.let("column", block_id.x % across * side)
    left, right = b.shared("left", type_, (DEPTH, side)), b.shared("right", type_, (DEPTH, side))
    own_row, own_column = b.let("own_row", thread_id.x // ACROSS * 4), b.let("own_column", thread_id.x % ACROSS * 4)
    totals = [[b.var("total", type_(0.0)) for _ in range(own)] for _ in range(own)]
    bringing = [_Bringing(b, x, left, transposed=True), _Bringing(b, y, right, transposed=False)]

    def load(k: Any) -> None:
        bringing[0].load((row, k), (m, depth))
        bringing[1].load((k, column), (depth, n))

    load(index(0))
    with b.for_(0, depth, DEPTH) as k:
        for each in bringing:
            each.put()
        b.barrier()
        # The next tiles are on their way while these are used.
        with b.if_(k + DEPTH < depth):
            load(k + DEPTH)
        with b.if_(k + DEPTH <= depth):
            for step in range(DEPTH):
                _add(b, left, right, step, own_row, own_column, totals)
        with b.else_(), b.for_(0, depth - k) as rest:
            _add(b, left, right, rest, own_row, own_column, totals)
        b.barrier()
    for i, line in enumerate(totals):
        place = b.let("place", row + own_row + (i // 4 * ACROSS * 4 + i % 4))
        with b.if_(place < m):
            _store(b, out, place, column + own_column, n, [total.read() for total in line])
    b.work(m, n)
    return b.build()


class _Bringing:
    """How a tile of a matrix comes to shared memory, each thread with neighbors of a row."""

    def __init__(self, b: Builder, source: Buffer, tile: Buffer, *, transposed: bool) -> None:
        self.b = b
        self.source = source
        self.tile = tile
        self.transposed = transposed
        side = side_of(source.type)
        self.height, self.width = (side, DEPTH) if transposed else (DEPTH, side)
        self.count = side * DEPTH // THREADS
        first = b.let("first", thread_id.x * self.count)
        self.line, self.place = b.let("line", first // self.width), b.let("place", first % self.width)
        self.found = [b.var("found", source.type(0.0)) for _ in range(self.count)]

    def load(self, corner: Any, extents: Any) -> None:
        """Read the thread's elements, and zeros where the matrix ends."""
        b, source, found = self.b, self.source, self.found
        i, j = b.let("i", corner[0] + self.line), b.let("j", corner[1] + self.place)
        with b.if_((corner[0] + self.height <= extents[0]) & (corner[1] + self.width <= extents[1])):
            for variable, value in zip(found, source.vector(i * extents[1] + j, self.count), strict=True):
                variable.set(value)
        with b.else_():
            for k, variable in enumerate(found):
                variable.set(source.type(0.0))
                with b.if_((i < extents[0]) & (j + k < extents[1])):
                    variable.set(source[i * extents[1] + j + k])

    def put(self) -> None:
        for k, variable in enumerate(self.found):
            at = (self.place + k, self.line) if self.transposed else (self.line, self.place + k)
            self.tile[at] = variable.read()


def _add(
    b: Builder, left: Buffer, right: Buffer, step: Any, own_row: Value, own_column: Value, totals: list[list[Any]]
) -> None:
    """One product for each element of the thread."""
    own = len(totals)
    rows = _read(left, step, own_row, own)
    columns = _read(right, step, own_column, own)
    for line, a in zip(totals, rows, strict=True):
        for total, c in zip(line, columns, strict=True):
            total.set(fma(a, c, total.read()))


def _read(tile: Buffer, step: Any, first: Value, own: int) -> list[Value]:
    """The thread's elements along a side: fours, each of them a side of threads behind the last."""
    most = min(16 // tile.type.itemsize, 4)
    return [
        element
        for four in range(own // 4)
        for k in range(0, 4, most)
        for element in tile.vector((step, first + (four * ACROSS * 4 + k)), most)
    ]


def _store(b: Builder, out: Buffer, row: Value, column: Value, n: Value, values: list[Value]) -> None:
    for four in range(len(values) // 4):
        place = b.let("place", column + four * ACROSS * 4)
        most = min(16 // out.type.itemsize, 4)
        part = values[4 * four : 4 * four + 4]
        with b.if_(place + 4 <= n):
            for k in range(0, 4, most):
                out.vector(row * n + place + k, most).set(*part[k : k + most])
        with b.else_():
            for k, value in enumerate(part):
                with b.if_(place + k < n):
                    out[row * n + place + k] = value
