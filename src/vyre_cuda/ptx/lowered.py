"""What lowering hands over: the text and everything a host must know to run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from vyre_cuda.ir.nodes import Source
from vyre_cuda.ir.types import Type

ParameterKind = Literal["buffer", "scalar", "size", "report"]


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """One value of the parameter block: `offset` and `size` in bytes, naturally aligned.

    "buffer" is a device pointer to elements of `type`, "scalar" a value of `type` (a bool is one byte), "size" the
    element count of the buffer `name` in the program's index type, "report" a pointer to the u64 that assertions write.
    """

    kind: ParameterKind
    name: str
    type: Type | None
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Access:
    """How a kernel uses one buffer.

    `streaming`: every access is four bytes wide and outside all loops, all are at the same global_id.x + constant, and
    none is atomic, so each element is touched about once and may as well stay in host memory.
    """

    loads: bool
    stores: bool
    atomics: bool
    streaming: bool


@dataclass(frozen=True, slots=True)
class AssertSite:
    """An assertion that a failing thread reports by its place in `Lowered.asserts`.

    `statement` is its number in the program, in pre-order from 0.
    """

    message: str
    statement: int
    source: Source | None


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program as PTX.

    `shared_bytes` is all shared memory of a block, `dynamic_shared_bytes` the part of it to be asked for at the launch.
    `covered` names the outs that are written at every index below both their size and the launch's threads along x.
    `asserts` has the assertion sites by number.
    """

    ptx: str
    entry: str
    parameters: tuple[KernelParameter, ...]
    parameter_bytes: int
    shared_bytes: int
    dynamic_shared_bytes: int
    access: Mapping[str, Access]
    covered: tuple[str, ...]
    asserts: tuple[AssertSite, ...]
