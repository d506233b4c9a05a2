"""What kernel functions call besides the functions on values: declarations, barriers, atomics, warp operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vyre_cuda.frontend.building.declarations import Declaration
from vyre_cuda.frontend.current import running
from vyre_cuda.ir.builder.operators import Operand
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.types import Type


def output(type: Type, size: Any, /) -> Any:
    """An array that the kernel writes and a call returns: `out = vc.output(vc.f32, x.size)`.

    It is zero where the kernel does not write. Outputs follow the parameters in the order of a launch.

    Parameters
    ----------
    type
        The type of an element.
    size
        The number of elements, or a tuple with the shape: numbers, scalars, sizes and what is computed from them.
    """
    shape = size if isinstance(size, tuple) else None

    def make(builder: Any, name: str) -> Any:
        return builder.output(name, type, size=size) if shape is None else builder.output(name, type, shape=shape)

    running("output")
    return Declaration("output", make)


def shared(type: Type, size: Any, /) -> Any:
    """An array that the threads of one block share, zero when the block starts: `t = vc.shared(vc.f32, 256)`.

    Parameters
    ----------
    type
        The type of an element.
    size
        A number, or a tuple of numbers for its shape, known when the kernel is built.
    """
    shape = size if isinstance(size, tuple) else None

    def make(builder: Any, name: str) -> Any:
        return builder.shared(name, type, size) if shape is None else builder.shared(name, type, shape=shape)

    running("shared")
    return Declaration("shared", make)


def local(type: Type, size: int, /) -> Any:
    """An array of each thread, zero when it starts: `t = vc.local(vc.f32, 16)`."""
    running("local")
    return Declaration("local", lambda builder, name: builder.local(name, type, size))


def work(*items: Operand) -> None:
    """The number of work items per axis (1 to 3), each a number or an expression over scalars and sizes."""
    running("work").work(*items)


def unrolled(*values: Any) -> Iterable[Any]:
    """What a `for` takes one by one when the kernel is built: `vc.unrolled(4)` counts as range does, other values are
    given as one tuple, list or range."""
    if len(values) == 1 and not isinstance(values[0], int):
        return tuple(values[0])
    return range(*values)


def barrier() -> None:
    """Wait until every thread of the block has arrived."""
    running("barrier").barrier()


def grid_barrier() -> None:
    """Wait until every thread of the grid has arrived; the launch is cooperative."""
    running("grid_barrier").grid_barrier()


def atomic_add(
    buffer: Any, index: Operand, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
) -> Value:
    """Add; the result is the old value."""
    result: Value = running("atomic_add").atomic_add(buffer, index, value, order=order, scope=scope)
    return result


def atomic_sub(
    buffer: Any, index: Operand, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
) -> Value:
    """Subtract; the result is the old value."""
    result: Value = running("atomic_sub").atomic_sub(buffer, index, value, order=order, scope=scope)
    return result


def atomic_min(
    buffer: Any, index: Operand, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
) -> Value:
    """Keep the smaller value, or NaN if either is NaN; the result is the old value."""
    result: Value = running("atomic_min").atomic_min(buffer, index, value, order=order, scope=scope)
    return result


def atomic_max(
    buffer: Any, index: Operand, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
) -> Value:
    """Keep the larger value, or NaN if either is NaN; the result is the old value."""
    result: Value = running("atomic_max").atomic_max(buffer, index, value, order=order, scope=scope)
    return result


def atomic_and(
    buffer: Any, index: Operand, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
) -> Value:
    """Bitwise and; the result is the old value."""
    result: Value = running("atomic_and").atomic_and(buffer, index, value, order=order, scope=scope)
    return result


def atomic_or(
    buffer: Any, index: Operand, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
) -> Value:
    """Bitwise or; the result is the old value."""
    result: Value = running("atomic_or").atomic_or(buffer, index, value, order=order, scope=scope)
    return result


def atomic_xor(
    buffer: Any, index: Operand, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
) -> Value:
    """Bitwise exclusive or; the result is the old value."""
    result: Value = running("atomic_xor").atomic_xor(buffer, index, value, order=order, scope=scope)
    return result


def atomic_exchange(
    buffer: Any, index: Operand, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
) -> Value:
    """Replace; the result is the old value."""
    result: Value = running("atomic_exchange").atomic_exchange(buffer, index, value, order=order, scope=scope)
    return result


def atomic_compare_exchange(
    buffer: Any,
    index: Operand,
    expected: Operand,
    desired: Operand,
    /,
    *,
    order: str = "relaxed",
    scope: str = "device",
) -> Value:
    """Replace one element by `desired` if it equals `expected`; the result is the old value."""
    result: Value = running("atomic_compare_exchange").atomic_compare_exchange(
        buffer, index, expected, desired, order=order, scope=scope
    )
    return result


def atomic_load(buffer: Any, index: Operand, /, *, order: str = "relaxed", scope: str = "device") -> Value:
    """Read one element that other threads may be writing atomically."""
    result: Value = running("atomic_load").atomic_load(buffer, index, order=order, scope=scope)
    return result


def atomic_store(
    buffer: Any, index: Operand, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
) -> None:
    """Write one element that other threads may be reading or writing atomically."""
    running("atomic_store").atomic_store(buffer, index, value, order=order, scope=scope)


def shuffle(value: Operand, lane: Operand, /) -> Value:
    """The value of another lane; 0 if there is no such lane."""
    result: Value = running("shuffle").shuffle(value, lane)
    return result


def shuffle_up(value: Operand, delta: Operand, /) -> Value:
    """The value of the lane `delta` below; the thread's own value if there is no such lane."""
    result: Value = running("shuffle_up").shuffle_up(value, delta)
    return result


def shuffle_down(value: Operand, delta: Operand, /) -> Value:
    """The value of the lane `delta` above; the thread's own value if there is no such lane."""
    result: Value = running("shuffle_down").shuffle_down(value, delta)
    return result


def shuffle_xor(value: Operand, mask: Operand, /) -> Value:
    """The value of the lane `lane_id ^ mask`; the thread's own value if there is no such lane."""
    result: Value = running("shuffle_xor").shuffle_xor(value, mask)
    return result


def broadcast(value: Operand, lane: Operand, /) -> Value:
    """The value of one lane, the same for the whole warp; 0 if there is no such lane."""
    result: Value = running("broadcast").broadcast(value, lane)
    return result


def any(condition: Operand, /) -> Value:
    """Whether the condition holds in any thread of the warp."""
    result: Value = running("any").any(condition)
    return result


def all(condition: Operand, /) -> Value:
    """Whether the condition holds in every thread of the warp."""
    result: Value = running("all").all(condition)
    return result


def ballot(condition: Operand, /) -> Value:
    """A u32 with one bit per lane, set where the condition holds."""
    result: Value = running("ballot").ballot(condition)
    return result


def match(value: Operand, /) -> Value:
    """A u32 with one bit per lane, set where the value has the same bits as this thread's."""
    result: Value = running("match").match(value)
    return result


def warp_reduce(value: Operand, op: str, /) -> Value:
    """The values of all lanes combined with "add", "min", "max", "and", "or" or "xor" (or the ops' full names)."""
    result: Value = running("warp_reduce").warp_reduce(value, op)
    return result


def warp_scan(value: Operand, op: str, /, *, inclusive: bool = True) -> Value:
    """The values of the lanes up to this one combined, with this one's or, for `inclusive=False`, without it."""
    result: Value = running("warp_scan").warp_scan(value, op, inclusive=inclusive)
    return result
