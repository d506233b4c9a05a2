"""Types, operations and sizes of collectives."""

from __future__ import annotations

from typing import Any

from vyre_cuda._native.collective import collective as native
from vyre_cuda.errors import counted, type_name
from vyre_cuda.ir.core.types import BY_NAME
from vyre_cuda.runtime.memory.array import DeviceArray

# NCCL's numbers.
_TYPES = {"i8": 0, "u8": 1, "i32": 2, "u32": 3, "i64": 4, "u64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
TYPES = tuple(_TYPES)
OPS = {"add": 0, "multiply": 1, "max": 2, "min": 3}
_BYTES = 1


def numbers_of_types() -> dict[int, int]:
    """NCCL's numbers by those of NumPy's types."""
    found: dict[int, int] = {BY_NAME[name].dtype.num: number for name, number in _TYPES.items()}
    found.pop(BY_NAME["u16"].dtype.num, None)  # what bf16 is without ml_dtypes
    return found


def words_of(kind: int, type_: int, op: int, peer: int, count: int) -> str:
    """A collective in the words of errors."""
    words = f"{native.KINDS[kind]} of {count} {TYPES[type_]}"
    if kind in (native.ALL_REDUCE, native.REDUCE_SCATTER):
        words += f" by {tuple(OPS)[op]}"
    if kind in (native.BROADCAST, native.RECEIVE):
        words += f" from rank {peer}"
    if kind == native.SEND:
        words += f" to rank {peer}"
    return words


def rank_of(what: str, rank: Any, size: int) -> int:
    if isinstance(rank, bool) or not isinstance(rank, int):
        raise TypeError(f"{what}: a rank of type {type(rank).__name__}; an int is needed")
    if not 0 <= rank < size:
        raise ValueError(f"{what}: there is no rank {rank} in a group of {size}")
    return rank


def op_of(what: str, op: Any) -> int:
    found = OPS.get(op) if isinstance(op, str) else None
    if found is None:
        raise ValueError(f"{what}: op={op!r}; it must be one of {', '.join(OPS)}")
    return found


def combined_type(what: str, array: DeviceArray) -> int:
    """The number of a type that NCCL can combine."""
    found = _TYPES.get(array.type.name)
    if found is None:
        raise TypeError(f"{what} of an array of {array.dtype}; NCCL combines {', '.join(_TYPES)}")
    return found


def moved(array: DeviceArray, count: int) -> tuple[int, int]:
    """The number of a type that moves such elements, and how many of it `count` are: any type can be moved."""
    found = _TYPES.get(array.type.name)
    return (_BYTES, count * array.dtype.itemsize) if found is None else (found, count)


def require(what: str, name: str, array: Any, like: DeviceArray | None = None) -> DeviceArray:
    """A device array, of the dtype of `like`."""
    if not isinstance(array, DeviceArray):
        raise TypeError(f"{what}: {name} is {type_name(array)}; it must be a DeviceArray")
    if like is not None and array.dtype != like.dtype:
        raise TypeError(f"{what}: {name} is an array of {array.dtype}, and the other one of {like.dtype}")
    return array


def require_size(what: str, name: str, array: DeviceArray, size: int, why: str) -> None:
    if array.size != size:
        raise ValueError(f"{what}: {name} has {counted(array.size, 'element')}; it needs {size}, {why}")


def part_of(what: str, array: DeviceArray, size: int) -> int:
    """How many elements each rank's part has."""
    if array.size % size:
        raise ValueError(
            f"{what}: an array of {counted(array.size, 'element')} has no equal parts for {size} ranks: "
            "make its size a multiple of that"
        )
    return array.size // size
