"""What instructions that access memory say besides their operands."""

from __future__ import annotations

from typing import Literal

from vyre_cuda.records import dataclass

Space = Literal["global", "shared", "const", "local"]


@dataclass(frozen=True, slots=True)
class Address:
    """An address in an instruction: [register + displacement] or, without a register, [symbol + displacement]."""

    register: tuple[int, ...]
    symbol: str
    displacement: int


@dataclass(frozen=True, slots=True)
class Form:
    """The fixed part of a load, store or atomic. Operands are the address register if any, values, guard if any.

    `place` and `number` say which element it accesses, the number as a value; "" where that does not matter.
    """

    space: Space
    word: str  # PTX type in memory, or operation and type of an atomic
    symbol: str
    displacement: int
    guarded: bool
    place: str = ""
    number: int = -1


@dataclass(frozen=True, slots=True)
class VectorForm:
    """The fixed part of a load or store of `lanes` neighbors at once. The values of a load are `lane`s of it."""

    form: Form
    lanes: int


@dataclass(frozen=True, slots=True)
class AtomicForm:
    """The fixed part of an atomic. The word of its form is operation and type of the instruction."""

    form: Form
    order: str
    scope: str
