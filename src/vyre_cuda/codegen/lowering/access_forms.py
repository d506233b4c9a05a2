"""What instructions that access memory say besides their operands, and the values that they load and store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from vyre_cuda.codegen.forms.isel import MACHINE_TYPE
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.types import TYPES, Type, bf16, bool_, f16
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord

if TYPE_CHECKING:
    from vyre_cuda.codegen.lowering import halves
else:
    halves = later("vyre_cuda.codegen.lowering.halves")

Space = Literal["global", "shared", "const", "local"]


class Address(FrozenRecord):
    """An address in an instruction: [register + displacement] or, without a register, [symbol + displacement]."""

    register: tuple[int, ...]
    symbol: str
    displacement: int


class Form(FrozenRecord):
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


class VectorForm(FrozenRecord):
    """The fixed part of a load or store of `lanes` neighbors at once. The values of a load are `lane`s of it."""

    form: Form
    lanes: int


class AtomicForm(FrozenRecord):
    """The fixed part of an atomic. The word of its form is operation and type of the instruction."""

    form: Form
    order: str
    scope: str


# ---- values as memory and parameters have them ----------------------------------------------------------------------

# PTX type word of an element in memory, and of the register that it is loaded into.
MEMORY_WORD: dict[Type, str] = {
    type_: {bool_: "u8", f16: "b16", bf16: "u16"}.get(type_, type_.name.replace("i", "s")) for type_ in TYPES
}
RAW_TYPE: dict[Type, str] = {
    type_: {bool_: "u32", f16: "b16", bf16: "u32"}.get(type_, MACHINE_TYPE[type_]) for type_ in TYPES
}


def raw_range(type_: Type) -> tuple[int, int] | None:
    """The interval of an element as loaded, where it is less than the register's."""
    if type_ is bool_:
        return 0, 255
    if type_ is bf16:
        return 0, 0xFFFF
    return (type_.minimum, type_.maximum) if type_.is_integer and type_.bits < 32 else None


def from_raw(b: Builder, type_: Type, raw: int) -> int:
    """The value of an element as loaded."""
    if type_ is bool_:
        return b.apply("not_equal", raw, b.constant("u32", 0))
    if type_ is f16:
        return b.convert("float.f16", "f32", raw)
    return halves.from_bits(b, bf16, raw) if type_ is bf16 else raw


def to_raw(b: Builder, type_: Type, value: int) -> int:
    """A value as it is stored."""
    if type_ is bool_:
        return b.apply("where", value, b.constant("u32", 1), b.constant("u32", 0))
    if type_ is f16:
        return halves.packed(b, f16, value)
    return halves.to_bits(b, bf16, value) if type_ is bf16 else value
