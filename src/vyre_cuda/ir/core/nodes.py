"""The nodes of a program: expressions without effects, statements with them.

All are frozen values compared by structure. `source`, the (file, line) that built a node, is not part of equality,
text, wire bytes or fingerprint. Every expression knows its `type`. Names of locals are unique in a program.

An expression is evaluated when the statement that holds it runs; `Load` of a buffer that the program writes sees the
memory at that moment. A statement reads all its operands before it has an effect.
"""

from __future__ import annotations

from functools import reduce
from typing import Literal, TypeAlias, final

from vyre_cuda.ir.core.ops import ORDERS as ORDERS
from vyre_cuda.ir.core.ops import SCOPES as SCOPES
from vyre_cuda.ir.core.types import Type, u64
from vyre_cuda.records import FrozenRecord, field

Source: TypeAlias = tuple[str, int]
IdKind = Literal["global_id", "block_id", "thread_id", "block_dim", "grid_dim", "lane_id"]
# Positions are wire numbers: append only. lane_id has one axis, 0.
ID_KINDS: tuple[IdKind, ...] = ("global_id", "block_id", "thread_id", "block_dim", "grid_dim", "lane_id")
AXES = ("x", "y", "z")

WARP_SIZE = 32


# ---- expressions ----------------------------------------------------------------------------------------------------


@final
class Const(FrozenRecord):
    """A literal, held as the bit pattern of its type, so that -0.0 and NaN payloads are kept."""

    type: Type
    bits: int
    source: Source | None = field(default=None, compare=False, repr=False)


@final
class Local(FrozenRecord):
    """The value of a `let`, a `var`, a loop counter or the result of an atomic."""

    type: Type
    name: str
    source: Source | None = field(default=None, compare=False, repr=False)


@final
class Scalar(FrozenRecord):
    """A scalar parameter, passed by value."""

    type: Type
    name: str
    source: Source | None = field(default=None, compare=False, repr=False)


@final
class Size(FrozenRecord):
    """The number of elements of a buffer parameter or shared array, in the program's index type; with `axis`, its
    extent on this axis, which it has where it is declared with several."""

    type: Type
    buffer: str
    source: Source | None = field(default=None, compare=False, repr=False)
    axis: int | None = None


@final
class Id(FrozenRecord):
    """A launch coordinate on one axis (0, 1, 2), in the program's index type."""

    type: Type
    kind: IdKind
    axis: int
    source: Source | None = field(default=None, compare=False, repr=False)


@final
class Load(FrozenRecord):
    """One element of a buffer parameter or shared array; 0 when the index is out of bounds.

    The index is a Position exactly where the buffer has several axes; the same holds for stores and atomics.
    """

    type: Type
    buffer: str
    index: Expr
    source: Source | None = field(default=None, compare=False, repr=False)


@final
class Position(FrozenRecord):
    """The place of an element in an array with several axes: an index for each, the last one counting neighbors.

    It is not a value: it stands only as the index of an access, which is out of bounds if any of the indices is.
    """

    type: Type
    indices: tuple[Expr, ...]
    source: Source | None = field(default=None, compare=False, repr=False)


@final
class Apply(FrozenRecord):
    """An op of the table applied to operands; `type` is the result's (for casts, the target)."""

    type: Type
    op: str
    operands: tuple[Expr, ...]
    source: Source | None = field(default=None, compare=False, repr=False)


Expr: TypeAlias = Const | Local | Scalar | Size | Id | Load | Position | Apply


# ---- statements -----------------------------------------------------------------------------------------------------


class Let(FrozenRecord):
    """An immutable local, visible to the end of its block."""

    name: str
    value: Expr
    source: Source | None = field(default=None, compare=False, repr=False)


class Var(FrozenRecord):
    """A mutable local with its first value, visible to the end of its block."""

    name: str
    value: Expr
    source: Source | None = field(default=None, compare=False, repr=False)


class Assign(FrozenRecord):
    """A new value for a `Var`."""

    name: str
    value: Expr
    source: Source | None = field(default=None, compare=False, repr=False)


class Store(FrozenRecord):
    """Write one element of an out or inout buffer or a shared array; does nothing when out of bounds."""

    buffer: str
    index: Expr
    value: Expr
    source: Source | None = field(default=None, compare=False, repr=False)


class Atomic(FrozenRecord):
    """Read, combine and write one element atomically; `result` names a let that holds the old value, or is None.

    `op` is a row of ops.ATOMICS. A "load" only reads, a "store" only writes and has no result.
    """

    result: str | None
    op: str
    buffer: str
    index: Expr
    operands: tuple[Expr, ...]
    order: str = "relaxed"
    scope: str = "device"
    source: Source | None = field(default=None, compare=False, repr=False)


class Warp(FrozenRecord):
    """An operation that the warp's threads perform together; `result` names a let that holds this thread's value.

    Needs warp-uniform control flow. `combine` is the op of a reduction or scan, "" for others (ops.WARP_OPS).
    """

    result: str
    op: str
    operands: tuple[Expr, ...]
    combine: str = ""
    source: Source | None = field(default=None, compare=False, repr=False)


class If(FrozenRecord):
    condition: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()
    source: Source | None = field(default=None, compare=False, repr=False)


class For(FrozenRecord):
    """Python's range on exact integers: bounds and step evaluated once, no wrap; with a step of 0 it never runs."""

    name: str
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[Stmt, ...]
    source: Source | None = field(default=None, compare=False, repr=False)


class While(FrozenRecord):
    """Before each pass `setup` runs and then `condition` is evaluated; locals of `setup` are visible in `body`."""

    setup: tuple[Stmt, ...]
    condition: Expr
    body: tuple[Stmt, ...]
    source: Source | None = field(default=None, compare=False, repr=False)


class Break(FrozenRecord):
    source: Source | None = field(default=None, compare=False, repr=False)


class Continue(FrozenRecord):
    source: Source | None = field(default=None, compare=False, repr=False)


class Return(FrozenRecord):
    """The thread ends."""

    source: Source | None = field(default=None, compare=False, repr=False)


class Barrier(FrozenRecord):
    """Waits until every thread of the block has arrived; shared and global writes before it are visible after it."""

    source: Source | None = field(default=None, compare=False, repr=False)


class GridBarrier(FrozenRecord):
    """Waits until every thread of the grid has arrived; makes the launch cooperative."""

    source: Source | None = field(default=None, compare=False, repr=False)


class Assert(FrozenRecord):
    """When the condition is false, report it and end the thread; outputs are then unspecified."""

    condition: Expr
    message: str
    source: Source | None = field(default=None, compare=False, repr=False)


class Print(FrozenRecord):
    """Print a line: `format` with the values in place of its `{}`, see ir.core.printing."""

    format: str
    values: tuple[Expr, ...] = ()
    source: Source | None = field(default=None, compare=False, repr=False)


Stmt: TypeAlias = (
    Let
    | Var
    | Assign
    | Store
    | Atomic
    | Warp
    | If
    | For
    | While
    | Break
    | Continue
    | Return
    | Barrier
    | GridBarrier
    | Assert
    | Print
)


# Statements that threads execute together, so that all of a warp, a block or the grid must reach them.
TOGETHER = (Warp, Barrier, GridBarrier)


# ---- declarations ---------------------------------------------------------------------------------------------------

ParameterKind = Literal["in", "inout", "out", "scalar"]
PARAMETER_KINDS: tuple[ParameterKind, ...] = ("in", "inout", "out", "scalar")


class Parameter(FrozenRecord):
    """A buffer ("in", "inout", "out") or by-value scalar.

    `size` is the element count, which an argument must have; of an out it may be None, if an array is passed by `out=`.
    `shape` is () for one axis, else the extent of each, None where any will do; if none is None, `size` is their
    product (`elements`). An out with `zeroed` is 0 where no thread writes; without, its contents there are unspecified.
    """

    name: str
    kind: ParameterKind
    type: Type
    size: Expr | None = None
    source: Source | None = field(default=None, compare=False, repr=False)
    shape: tuple[Expr | None, ...] = ()
    zeroed: bool = True

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape) or 1

    @property
    def declared(self) -> tuple[Expr, ...]:
        """The expressions of the declaration: the size, or the extents that are given."""
        extents = self.shape or (self.size,)
        return tuple(extent for extent in extents if extent is not None)

    @property
    def is_buffer(self) -> bool:
        return self.kind != "scalar"

    @property
    def is_writable(self) -> bool:
        return self.kind in ("inout", "out")


# What interpreter and emulator have in every byte of an out that is not zeroed, until it is written: neither 0 nor the
# result of an earlier run.
UNSPECIFIED_BYTE = 0xA5


def extent_name(buffer: str, axis: int) -> str:
    """What the kernel parameter with the extent of a buffer with several axes is called."""
    return f"{buffer}.{axis}"


def extent_names(parameters: tuple[Parameter, ...]) -> tuple[str, ...]:
    """All of them, in the order in which a call passes the extents after its scalars."""
    return tuple([extent_name(p.name, axis) for p in parameters for axis in range(len(p.shape))])


class SharedArray(FrozenRecord):
    """An array that the threads of one block share: `size` elements, zeroed when the block starts.

    `shape` is () for one axis, else the extents, whose product is `size`.
    """

    name: str
    type: Type
    size: int
    source: Source | None = field(default=None, compare=False, repr=False)
    shape: tuple[int, ...] = ()

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape) or 1


def elements(shape: tuple[Expr | None, ...]) -> Expr | None:
    """The number of elements of this shape as a u64, None if an extent is not given."""
    extents = [extent for extent in shape if extent is not None]
    if not extents or len(extents) < len(shape):
        return None
    wide = [extent if extent.type is u64 else Apply(u64, "cast", (extent,), extent.source) for extent in extents]
    return reduce(lambda count, extent: Apply(u64, "multiply", (count, extent), count.source), wide)


class LocalArray(FrozenRecord):
    """An array that each thread has for itself: `size` elements, zero when the thread starts.

    `shape` as in a SharedArray.
    """

    name: str
    type: Type
    size: int
    source: Source | None = field(default=None, compare=False, repr=False)
    shape: tuple[int, ...] = ()

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape) or 1


class Table(FrozenRecord):
    """Constants that are part of the program: `data` has the elements as they are in memory, little-endian.

    `shape` as in a SharedArray; the elements are row by row.
    """

    name: str
    type: Type
    data: bytes
    source: Source | None = field(default=None, compare=False, repr=False)
    shape: tuple[int, ...] = ()

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape) or 1

    @property
    def size(self) -> int:
        """The number of elements."""
        return len(self.data) // self.type.itemsize

    @property
    def patterns(self) -> list[int]:
        """The bit pattern of each element."""
        width = self.type.itemsize
        return [int.from_bytes(self.data[at : at + width], "little") for at in range(0, len(self.data), width)]


OwnArray: TypeAlias = LocalArray | Table
