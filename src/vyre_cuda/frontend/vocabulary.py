"""What kernel functions call besides the functions on values: declarations, barriers, atomics, warp operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from vyre_cuda.frontend.building.declarations import Declaration
from vyre_cuda.frontend.current import running
from vyre_cuda.ir.builder.effects import AtomicMethods, WarpMethods
from vyre_cuda.ir.builder.handles import Index
from vyre_cuda.ir.builder.ids import global_id
from vyre_cuda.ir.builder.operators import Operand
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.types import Type

_Function = TypeVar("_Function", bound=Callable[..., Any])


def output(type: Type, size: Any, /, *, zeroed: bool = True) -> Any:
    """An array that the kernel writes and a call returns: `out = vc.output(vc.f32, x.size)`.

    It is zero where the kernel does not write. Outputs follow the parameters in the order of a launch.

    Parameters
    ----------
    type
        The type of an element.
    size
        The number of elements, or a tuple with the shape: numbers, scalars, sizes and what is computed from them.
    zeroed
        False: it is not cleared, and its contents are unspecified where the kernel does not write.

    Returns
    -------
    Buffer
        The array, under the name that it is assigned to.

    Raises
    ------
    ProgramError
        It is not assigned to a name, or the size depends on what the device computes.
    """
    extents = {"shape" if isinstance(size, tuple) else "size": size}

    def make(builder: Any, name: str) -> Any:
        return builder.output(name, type, **extents, zeroed=zeroed)

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

    Returns
    -------
    Buffer
        The array, under the name that it is assigned to.

    Raises
    ------
    ProgramError
        It is not assigned to a name, or has no elements.
    """
    shape = size if isinstance(size, tuple) else None

    def make(builder: Any, name: str) -> Any:
        return builder.shared(name, type, size) if shape is None else builder.shared(name, type, shape=shape)

    running("shared")
    return Declaration("shared", make)


def local(type: Type, size: int | tuple[int, ...], /) -> Any:
    """An array of each thread, zero when it starts: `t = vc.local(vc.f32, 16)`.

    Parameters
    ----------
    type
        The type of an element.
    size
        The number of elements, or a tuple of numbers for its shape, known when the kernel is built.

    Returns
    -------
    Buffer
        The array, under the name that it is assigned to.

    Raises
    ------
    ProgramError
        It is not assigned to a name, or has no elements.
    """
    running("local")
    return Declaration("local", lambda builder, name: builder.local(name, type, size))


def work(*items: Operand) -> Any:
    """The number of work items per axis, from which a launch computes its blocks: `i = vc.work(x.size)`.

    Parameters
    ----------
    *items
        1 to 3 numbers or expressions over scalars and sizes. Without `vc.work` it is the size of the first output, else
        inout, else input.

    Returns
    -------
    Value or tuple
        `vc.global_id.x`, the item of this thread; for several axes the ids along each of them, x first. Threads of the
        last block may be beyond the last item.

    Raises
    ------
    ProgramError
        The work was already given, or depends on what the device computes.
    """
    running("work").work(*items)
    ids = (global_id.x, global_id.y, global_id.z)[: len(items)]
    return ids if len(items) > 1 else ids[0]


def unrolled(*values: Any) -> Iterable[Any]:
    """What a `for` takes one by one when the kernel is built, so that its body is repeated in the program.

    Parameters
    ----------
    *values
        Numbers as for `range`, `vc.unrolled(4)`; or one tuple, list or range of values.

    Returns
    -------
    tuple or range
        The values.

    Raises
    ------
    TypeError
        Neither whole numbers nor something to iterate over, such as a value of the device.
    """
    if len(values) == 1 and not isinstance(values[0], (int, np.integer)):
        return tuple(values[0])
    return range(*values)


def barrier() -> None:
    """Wait until every thread of the block has arrived."""
    running("barrier").barrier()


def grid_barrier() -> None:
    """Wait until every thread of the grid has arrived; the launch is cooperative."""
    running("grid_barrier").grid_barrier()


def _like(method: Callable[..., Any]) -> Callable[[_Function], _Function]:
    """Gives a function the docstring of the builder's method that it calls."""

    def documented(function: _Function) -> _Function:
        function.__doc__ = method.__doc__
        return function

    return documented


@_like(AtomicMethods.atomic_add)
def atomic_add(buffer: Any, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device") -> Value:
    result: Value = running("atomic_add").atomic_add(buffer, index, value, order=order, scope=scope)
    return result


@_like(AtomicMethods.atomic_sub)
def atomic_sub(buffer: Any, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device") -> Value:
    result: Value = running("atomic_sub").atomic_sub(buffer, index, value, order=order, scope=scope)
    return result


@_like(AtomicMethods.atomic_min)
def atomic_min(buffer: Any, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device") -> Value:
    result: Value = running("atomic_min").atomic_min(buffer, index, value, order=order, scope=scope)
    return result


@_like(AtomicMethods.atomic_max)
def atomic_max(buffer: Any, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device") -> Value:
    result: Value = running("atomic_max").atomic_max(buffer, index, value, order=order, scope=scope)
    return result


@_like(AtomicMethods.atomic_and)
def atomic_and(buffer: Any, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device") -> Value:
    result: Value = running("atomic_and").atomic_and(buffer, index, value, order=order, scope=scope)
    return result


@_like(AtomicMethods.atomic_or)
def atomic_or(buffer: Any, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device") -> Value:
    result: Value = running("atomic_or").atomic_or(buffer, index, value, order=order, scope=scope)
    return result


@_like(AtomicMethods.atomic_xor)
def atomic_xor(buffer: Any, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device") -> Value:
    result: Value = running("atomic_xor").atomic_xor(buffer, index, value, order=order, scope=scope)
    return result


@_like(AtomicMethods.atomic_exchange)
def atomic_exchange(
    buffer: Any, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
) -> Value:
    result: Value = running("atomic_exchange").atomic_exchange(buffer, index, value, order=order, scope=scope)
    return result


@_like(AtomicMethods.atomic_compare_exchange)
def atomic_compare_exchange(
    buffer: Any,
    index: Index,
    expected: Operand,
    desired: Operand,
    /,
    *,
    order: str = "relaxed",
    scope: str = "device",
) -> Value:
    result: Value = running("atomic_compare_exchange").atomic_compare_exchange(
        buffer, index, expected, desired, order=order, scope=scope
    )
    return result


@_like(AtomicMethods.atomic_load)
def atomic_load(buffer: Any, index: Index, /, *, order: str = "relaxed", scope: str = "device") -> Value:
    result: Value = running("atomic_load").atomic_load(buffer, index, order=order, scope=scope)
    return result


@_like(AtomicMethods.atomic_store)
def atomic_store(
    buffer: Any, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
) -> None:
    running("atomic_store").atomic_store(buffer, index, value, order=order, scope=scope)


@_like(WarpMethods.shuffle)
def shuffle(value: Operand, lane: Operand, /) -> Value:
    result: Value = running("shuffle").shuffle(value, lane)
    return result


@_like(WarpMethods.shuffle_up)
def shuffle_up(value: Operand, delta: Operand, /) -> Value:
    result: Value = running("shuffle_up").shuffle_up(value, delta)
    return result


@_like(WarpMethods.shuffle_down)
def shuffle_down(value: Operand, delta: Operand, /) -> Value:
    result: Value = running("shuffle_down").shuffle_down(value, delta)
    return result


@_like(WarpMethods.shuffle_xor)
def shuffle_xor(value: Operand, mask: Operand, /) -> Value:
    result: Value = running("shuffle_xor").shuffle_xor(value, mask)
    return result


@_like(WarpMethods.broadcast)
def broadcast(value: Operand, lane: Operand, /) -> Value:
    result: Value = running("broadcast").broadcast(value, lane)
    return result


@_like(WarpMethods.any)
def any(condition: Operand, /) -> Value:
    result: Value = running("any").any(condition)
    return result


@_like(WarpMethods.all)
def all(condition: Operand, /) -> Value:
    result: Value = running("all").all(condition)
    return result


@_like(WarpMethods.ballot)
def ballot(condition: Operand, /) -> Value:
    result: Value = running("ballot").ballot(condition)
    return result


@_like(WarpMethods.match)
def match(value: Operand, /) -> Value:
    result: Value = running("match").match(value)
    return result


@_like(WarpMethods.warp_reduce)
def warp_reduce(value: Operand, op: str, /) -> Value:
    result: Value = running("warp_reduce").warp_reduce(value, op)
    return result


@_like(WarpMethods.warp_scan)
def warp_scan(value: Operand, op: str, /, *, inclusive: bool = True) -> Value:
    result: Value = running("warp_scan").warp_scan(value, op, inclusive=inclusive)
    return result
