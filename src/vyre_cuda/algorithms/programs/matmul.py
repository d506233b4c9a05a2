"""The program of a matrix product: tiles of 128 x 128, of which each thread has 8 x 8."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import fma
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.ids import block_id, thread_id
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, f64, u32

THREADS = 256
# Threads along a side of a tile, the elements of each along it, and the elements of a row that are brought at once.
ACROSS = 16
DEPTH = 8


def own_of(type_: Type) -> int:
    """The elements of a thread along each side of the tile."""
    return 4 if type_ is f64 else 8


def side_of(type_: Type) -> int:
    return ACROSS * own_of(type_)


@lru_cache(maxsize=32)
def program(type_: Type, index: Type, *, fours: bool) -> Program:
    """The product of matrices; each element is a chain of `fma` over the rows of the second, beginning with 0.

    Parameters of the program: x of m by depth, y of depth by n, the result, and the three numbers. With `fours`, the
    last two of them are multiples of four and are given in fours, so that rows are accessed as vectors.
    """
    own, side = own_of(type_), side_of(type_)
    b = Builder(f"matmul_{type_.name}", block=THREADS, index=index)
    x, y, out = b.input("x", type_), b.input("y", type_), b.output("out", type_, zeroed=False)
    m = b.scalar("m", index)
    n, depth = (_Extent(b.scalar(name, index), fours) for name in ("n", "depth"))
    across = b.let("across", (n.whole + (side - 1)) // side)
    row = b.let("row", block_id.x // across * side)
    column = b.let("column", block_id.x % across * side)
    # While the products of one tile are added, the next one is put beside it.
    left, right = b.shared("left", type_, (2, DEPTH, side)), b.shared("right", type_, (2, DEPTH, side))
    own_row, own_column = b.let("own_row", thread_id.x // ACROSS * 4), b.let("own_column", thread_id.x % ACROSS * 4)
    totals = [[b.var("total", type_(0.0)) for _ in range(own)] for _ in range(own)]
    bringing = [
        _Bringing(b, x, depth, left, side, DEPTH, transposed=True),
        _Bringing(b, y, n, right, DEPTH, side, transposed=False),
    ]
    stage = b.var("stage", u32(0))

    def load(k: Any) -> None:
        bringing[0].load((row, k), m)
        bringing[1].load((k, column), depth.whole)

    load(index(0))
    for each in bringing:
        each.put(stage.read())
    b.barrier()
    with b.for_(0, depth.whole, DEPTH) as k:
        now = b.let("now", stage.read())
        with b.if_(k + DEPTH < depth.whole):
            load(k + DEPTH)
        with b.if_(k + DEPTH <= depth.whole):
            for step in range(DEPTH):
                _add(b, left, right, (now, step), own_row, own_column, totals)
        with b.else_(), b.for_(0, depth.whole - k) as rest:
            _add(b, left, right, (now, rest), own_row, own_column, totals)
        stage.set(1 - now)
        with b.if_(k + DEPTH < depth.whole):
            for each in bringing:
                each.put(stage.read())
        b.barrier()
    for i, line in enumerate(totals):
        place = b.let("place", row + own_row + (i // 4 * ACROSS * 4 + i % 4))
        with b.if_(place < m):
            _store(b, out, place, column + own_column, n, [total.read() for total in line])
    b.work(m, n.whole)
    return b.build()


class _Extent:
    """The elements of a row, and where its rows begin."""

    def __init__(self, given: Value, fours: bool) -> None:
        self.given = given
        self.fours = fours
        self.whole: Value = given * 4 if fours else given

    def element(self, row: Value, column: Any) -> Any:
        """The number of an element; that this is a multiple of four can be seen where it is one."""
        return row * self.given * 4 + column if self.fours else row * self.given + column


class _Bringing:
    """How a tile of a matrix comes to shared memory, each thread with neighbors of a row."""

    def __init__(
        self, b: Builder, source: Buffer, extent: _Extent, tile: Buffer, height: int, width: int, *, transposed: bool
    ) -> None:
        self.b = b
        self.source = source
        self.extent = extent
        self.tile = tile
        self.height, self.width, self.transposed = height, width, transposed
        self.count = height * width // THREADS
        across = width // self.count
        self.line, self.place = b.let("line", thread_id.x // across), b.let("place", thread_id.x % across * self.count)
        self.found = [b.var("found", source.type(0.0)) for _ in range(self.count)]

    def load(self, corner: Any, lines: Value) -> None:
        """Read the thread's elements, and zeros where the matrix ends."""
        b, source, found, extent = self.b, self.source, self.found, self.extent
        i, j = b.let("i", corner[0] + self.line), b.let("j", corner[1] + self.place)
        with b.if_((corner[0] + self.height <= lines) & (corner[1] + self.width <= extent.whole)):
            for variable, value in zip(found, source.vector(extent.element(i, j), self.count), strict=True):
                variable.set(value)
        with b.else_():
            for k, variable in enumerate(found):
                variable.set(source.type(0.0))
                with b.if_((i < lines) & (j + k < extent.whole)):
                    variable.set(source[extent.element(i, j + k)])

    def put(self, stage: Value) -> None:
        values = [variable.read() for variable in self.found]
        if self.transposed:
            for k, value in enumerate(values):
                self.tile[stage, self.place + k, self.line] = value
        else:
            self.tile.vector((stage, self.line, self.place), self.count).set(*values)


def _add(
    b: Builder,
    left: Buffer,
    right: Buffer,
    step: tuple[Any, Any],
    own_row: Value,
    own_column: Value,
    totals: list[list[Any]],
) -> None:
    """One product for each element of the thread."""
    own = len(totals)
    rows = _read(left, step, own_row, own)
    columns = _read(right, step, own_column, own)
    for line, a in zip(totals, rows, strict=True):
        for total, c in zip(line, columns, strict=True):
            total.set(fma(a, c, total.read()))


def _read(tile: Buffer, step: tuple[Any, Any], first: Value, own: int) -> list[Value]:
    """The thread's elements along a side: fours, each of them a side of threads behind the last."""
    most = min(16 // tile.type.itemsize, 4)
    return [
        element
        for four in range(own // 4)
        for k in range(0, 4, most)
        for element in tile.vector((*step, first + (four * ACROSS * 4 + k)), most)
    ]


def _store(b: Builder, out: Buffer, row: Value, column: Value, n: _Extent, values: list[Value]) -> None:
    for four in range(len(values) // 4):
        place = b.let("place", column + four * ACROSS * 4)
        most = min(16 // out.type.itemsize, 4)
        part = values[4 * four : 4 * four + 4]
        with b.if_(place + 4 <= n.whole):
            for k in range(0, 4, most):
                out.vector(n.element(row, place) + k, most).set(*part[k : k + most])
        with b.else_():
            for k, value in enumerate(part):
                with b.if_(place + k < n.whole):
                    out[n.element(row, place + k)] = value
