"""Elements of buffers and shared arrays: addresses, bounds guards, loads and stores.

Out of bounds a load gives 0 and a store does nothing. A guard is a predicate on the access; it is left out where the
facts prove the index in bounds. Addresses are 64-bit for global memory and 32-bit for shared memory, computed modulo
their width; they are used only under the guard. A bool is one byte, 0 or 1 when written, any other is true when read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from vyre_cuda.errors import InternalError
from vyre_cuda.ir.nodes import Const, Parameter, Size
from vyre_cuda.ir.program import Program
from vyre_cuda.ir.types import Type, bool_
from vyre_cuda.ptx.isel import MACHINE_TYPE
from vyre_cuda.ptx.peephole import Builder
from vyre_cuda.ptx.target import STATIC_SHARED_BYTES

Space = Literal["global", "shared"]

# Bytes that an address may carry as an immediate: the assembler's field has 24 signed bits.
_REACH = 1 << 23
_SIGN = 1 << 31
_SHARED_ALIGN = 16
DYNAMIC_SYMBOL = "s_dynamic"


class Address(NamedTuple):
    """An address in an instruction: [register + displacement] or, without a register, [symbol + displacement]."""

    register: tuple[int, ...]
    symbol: str
    displacement: int


class Form(NamedTuple):
    """The fixed part of a load, store or atomic. Operands are the address register if any, values, guard if any."""

    space: Space
    word: str  # PTX type in memory, or operation and type of an atomic
    symbol: str
    displacement: int
    guarded: bool


class Touch(NamedTuple):
    """One access in the text, for `access.py`. `everyone` marks a store that every thread of the block does once."""

    kind: Literal["load", "store", "atomic"]
    at: int  # the index, a value
    in_loop: bool
    everyone: bool


@dataclass(slots=True)
class Place:
    """A buffer parameter or shared array."""

    name: str
    type: Type
    space: Space
    constant: bool  # nothing writes it while the kernel runs
    symbol: str = ""  # of a shared array
    offset: int = 0  # bytes from the symbol
    size: int | None = None  # of a shared array
    touches: list[Touch] = field(default_factory=list)
    is_read: bool = False  # a load or atomic is among the touches

    @property
    def word(self) -> str:
        return "u8" if self.type is bool_ else MACHINE_TYPE[self.type]


class Memory:
    """The buffers of one program and accesses to them."""

    __slots__ = (
        "_checked",
        "_parameters",
        "builder",
        "dynamic_shared_bytes",
        "index",
        "loop_depth",
        "places",
        "shared_bytes",
    )

    def __init__(self, builder: Builder, program: Program, *, checked: bool = True) -> None:
        self.builder = builder
        self._checked = checked
        self.index = MACHINE_TYPE[program.index]
        self.loop_depth = 0
        self._parameters: dict[str, Parameter] = {p.name: p for p in program.parameters}
        self.places: dict[str, Place] = {
            p.name: Place(p.name, p.type, "global", p.kind == "in") for p in program.parameters if p.is_buffer
        }
        self.shared_bytes = 0
        self.dynamic_shared_bytes = 0
        self._lay_out_shared(program)

    def _lay_out_shared(self, program: Program) -> None:
        """One symbol per array, or one for all where the static limit does not do."""
        for number, array in enumerate(program.shared):
            symbol = symbol_name("s", number, array.name)
            place = Place(array.name, array.type, "shared", False, symbol, self.shared_bytes, array.size)
            self.shared_bytes += -(-array.size * array.type.itemsize // _SHARED_ALIGN) * _SHARED_ALIGN
            self.places[array.name] = place
        dynamic = self.shared_bytes > STATIC_SHARED_BYTES
        self.dynamic_shared_bytes = self.shared_bytes if dynamic else 0
        for array in program.shared:
            place = self.places[array.name]
            if dynamic:
                place.symbol = DYNAMIC_SYMBOL
            else:
                place.offset = 0

    # ---- sizes and bounds ----

    def size(self, name: str) -> int:
        """The element count of a buffer or shared array, as a value of the index type."""
        place = self.places[name]
        if place.size is not None:
            return self.builder.constant(self.index, place.size)
        declared = self._parameters[name].size
        if isinstance(declared, Const):
            return self.builder.constant(self.index, declared.bits)
        if isinstance(declared, Size):
            return self.size(declared.buffer)
        return self.builder.function.entry_value("parameter", self.index, (), ("size", name))

    def guard(self, name: str, index: int) -> int | None:
        """The predicate under which `index` is in bounds: None when it always is, `builder.false` when it never is.

        None as well when the program was compiled without checks.
        """
        if not self._checked:
            return None
        b = self.builder
        bound = self.size(name)
        if b.function.types[index] == "s32":
            if b.facts.tight_range(index)[0] < 0:  # then 2^31 and more stand for negative indices
                bound = self._below_sign(bound)
            index = b.convert("retype", "u32", index)
        inside = b.apply("less", index, bound)
        return None if inside == b.true else inside

    def _below_sign(self, size: int) -> int:
        b = self.builder
        limit = b.constant("u32", _SIGN)
        if b.is_constant(size):
            return b.apply("minimum", size, limit)
        made = b.function.entry_value("minimum", "u32", (size, limit))
        b.facts.observe(made)
        return made

    # ---- addresses ----

    def address(self, place: Place, index: int) -> Address:
        """The address of an element; any bit pattern of `index` will do as long as the guard holds it back."""
        b = self.builder
        itemsize = place.type.itemsize
        constant = b.constant_of(index)
        if constant is not None and 0 <= constant * itemsize < _REACH:
            base = () if place.space == "shared" else (self.base(place),)
            return Address(base, place.symbol, place.offset * (not base) + constant * itemsize)
        root, offset = b.facts.displacement(index)
        if abs(offset * itemsize) >= _REACH:
            root, offset = index, 0
        if b.function.types[root] == "s32":
            root = b.convert("retype", "u32", root)
        step = b.constant("u32", itemsize)
        if place.space == "shared":
            scaled = b.apply("multiply", root, step)
            return Address((b.emit("add", "u32", (self.base(place), scaled)),), "", offset * itemsize)
        if itemsize == 1:
            scaled = b.convert("widen", "u64", root)
        else:
            scaled = b.emit("multiply_wide", "u64", (root, step))
        return Address((b.emit("add", "u64", (self.base(place), scaled)),), "", offset * itemsize)

    def base(self, place: Place) -> int:
        """The address of element 0: 64-bit for a buffer, 32-bit for a shared array."""
        function = self.builder.function
        if place.space == "global":
            pointer = function.entry_value("parameter", "u64", (), ("buffer", place.name))
            return function.entry_value("global_pointer", "u64", (pointer,))
        symbol = function.entry_value("symbol", "u32", (), place.symbol)
        if place.offset == 0:
            return symbol
        return function.entry_value("add", "u32", (symbol, self.builder.constant("u32", place.offset)))

    def operands(self, place: Place, index: int, word: str, guard: int | None) -> tuple[tuple[int, ...], Form]:
        """The address operand, if any, and the form of an access; the guard goes last, behind the values."""
        address = self.address(place, index)
        form = Form(place.space, word, address.symbol, address.displacement, guard is not None)
        return address.register, form

    def touch(self, place: Place, kind: Literal["load", "store", "atomic"], index: int, everyone: bool = False) -> None:
        place.touches.append(Touch(kind, index, self.loop_depth > 0, everyone))
        place.is_read = place.is_read or kind != "store"

    # ---- accesses ----

    def load(self, name: str, index: int) -> int:
        """The element, 0 out of bounds. Loads of what nobody writes are shared like other values."""
        b = self.builder
        place = self.places[name]
        type_ = MACHINE_TYPE[place.type]
        guard = self.guard(name, index)
        if guard == b.false:
            return b.constant(type_, 0)
        key = ("element", type_, (index,), name)
        if place.constant:
            found = b.function.find(key)
            if found is not None:
                return found
        self.touch(place, "load", index)
        address, form = self.operands(place, index, place.word, guard)
        args = address if guard is None else (*address, guard)
        loaded = b.function.fresh("load", "u32" if type_ == "pred" else type_, args, form)
        b.facts.observe(loaded)
        if type_ == "pred":
            b.facts.set_range(loaded, 0, 255)
            loaded = b.apply("not_equal", loaded, b.constant("u32", 0))
        if place.constant:
            b.function.remember(key, loaded)
        return loaded

    def store(self, name: str, index: int, value: int, *, everyone: bool = False) -> None:
        """Write an element; nothing out of bounds."""
        b = self.builder
        place = self.places[name]
        if place.constant:
            raise InternalError(f"store to the in buffer {name}")
        guard = self.guard(name, index)
        if guard == b.false:
            return
        if b.function.types[value] == "pred":
            value = b.apply("where", value, b.constant("u32", 1), b.constant("u32", 0))
        self.touch(place, "store", index, everyone)
        address, form = self.operands(place, index, place.word, guard)
        args = (*address, value) if guard is None else (*address, value, guard)
        b.function.effect("store", args, form)


def symbol_name(prefix: str, number: int, name: str) -> str:
    """A PTX identifier for something the user named: unique by its number, readable by what is left of the name."""
    clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name[:40])
    return f"{prefix}_{number}_{clean}" if clean else f"{prefix}_{number}"
