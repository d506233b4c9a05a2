"""Elements of buffers and shared arrays: addresses, bounds guards, loads and stores.

Out of bounds, a load gives 0 and a store does nothing. An index is a value, or a tuple with one for each axis of an
array with several: it is in bounds if each is within its extent, and only then is the element's number computed from
them what it should be. A guard is a predicate on the access; it is left out where the
facts prove the index in bounds. Addresses are 64-bit for global memory and 32-bit for shared memory, computed modulo
their width; they are used only under the guard. A bool is one byte, 0 or 1 when written, any other is true when read.
An index of any integer type is compared and scaled as an exact unsigned number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Literal, TypeAlias

from vyre_cuda.codegen.core.target import STATIC_SHARED_BYTES
from vyre_cuda.codegen.forms.isel import BITS, MACHINE_TYPE, UNSIGNED
from vyre_cuda.codegen.lowering.access_forms import (
    MEMORY_WORD,
    RAW_TYPE,
    Address,
    Form,
    Space,
    from_raw,
    raw_range,
    to_raw,
)
from vyre_cuda.codegen.lowering.linear import Linear
from vyre_cuda.codegen.ssa.intervals import FULL, wrap
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.errors import InternalError
from vyre_cuda.ir.core.nodes import Const, Parameter, Scalar, Size, Table, extent_name
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord, Record, field

if TYPE_CHECKING:
    from vyre_cuda.codegen.lowering import halves
else:
    halves = later("vyre_cuda.codegen.lowering.halves")

# Bytes that an address may carry as an immediate: the assembler's field has 24 signed bits.
REACH = 1 << 23
_SIGN = 1 << 31
# Elements of the largest vector.
_MOST_NEIGHBORS = 16
_SHARED_ALIGN = 16
# Bytes of all .const variables of a module (PTX ISA 5.1.3); larger tables are in .global.
_CONST_BYTES = 64 * 1024
DYNAMIC_SYMBOL = "s_dynamic"


# One value, or one for each axis.
Index: TypeAlias = int | tuple[int, ...]


class Touch(FrozenRecord):
    """One access in the text, for `access.py`. `everyone` marks a store that every thread of the block does once."""

    kind: Literal["load", "store", "atomic"]
    at: int  # the number of the element, a value
    in_loop: bool
    everyone: bool


class Place(Record):
    """A buffer parameter, table, or shared or local array."""

    name: str
    type: Type
    space: Space
    constant: bool  # nothing writes it while the kernel runs
    symbol: str = ""  # of a table or array
    offset: int = 0  # bytes from the symbol
    size: int | None = None  # of a table or array
    shape: tuple[int, ...] = ()  # of a table or array with several axes
    touches: list[Touch] = field(default_factory=list)
    is_read: bool = False  # a load or atomic is among the touches


class Memory:
    """The buffers of one program and accesses to them."""

    __slots__ = (
        "_checked",
        "_index",
        "_parameters",
        "_prefix",
        "builder",
        "dynamic_shared_bytes",
        "index",
        "linear",
        "loop_depth",
        "places",
        "shared_bytes",
        "trap",
    )

    def __init__(self, builder: Builder, program: Program, *, checked: bool = True, prefix: str = "") -> None:
        """`prefix`: of the symbols, where several programs are in one text."""
        self.builder = builder
        self._prefix = prefix
        self.linear = Linear(builder.function, program.block)
        self._checked = checked
        self.index = MACHINE_TYPE[program.index]
        self._index = program.index
        self.loop_depth = 0
        # Called with (buffer, axis if there are several, index, whether it is inside) for each check; ends threads that
        # are outside.
        self.trap: Callable[[str, int | None, int, int], None] | None = None
        self._parameters: dict[str, Parameter] = {p.name: p for p in program.parameters}
        self.places: dict[str, Place] = {
            p.name: Place(p.name, p.type, "global", p.kind == "in") for p in program.parameters if p.is_buffer
        }
        self.shared_bytes = 0
        self.dynamic_shared_bytes = 0
        self._lay_out_shared(program)
        self._lay_out_arrays(program)

    def _lay_out_arrays(self, program: Program) -> None:
        """A symbol per table and local array; tables are in .const as far as that reaches."""
        constants = 0
        for number, array in enumerate(program.arrays):
            space: Space = "local"
            if isinstance(array, Table):
                end = constants + -(-len(array.data) // _SHARED_ALIGN) * _SHARED_ALIGN
                space = "const" if end <= _CONST_BYTES else "global"
                constants = end if space == "const" else constants
            symbol = symbol_name(self._prefix + ("t" if isinstance(array, Table) else "l"), number, array.name)
            self.places[array.name] = Place(
                array.name, array.type, space, isinstance(array, Table), symbol, 0, array.size, array.shape
            )

    def _lay_out_shared(self, program: Program) -> None:
        """One symbol per array, or one for all if they exceed the static limit."""
        for number, array in enumerate(program.shared):
            symbol = symbol_name(f"{self._prefix}s", number, array.name)
            place = Place(array.name, array.type, "shared", False, symbol, self.shared_bytes, array.size, array.shape)
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
        """The element count of a buffer, table or array, as a value of the index type."""
        place = self.places[name]
        if place.size is not None:
            return self.builder.constant(self.index, place.size)
        declared = self._parameters[name].size
        if isinstance(declared, (Const, Size)):
            return self._known(declared)
        # A call refuses a count that the type does not have, so a signed one is not negative.
        within = None if self.index in UNSIGNED.values() else (0, FULL[self.index][1])
        return self.builder.entry("parameter", self.index, (), ("size", name), within=within)

    def extent(self, name: str, axis: int) -> int:
        """The extent of an array with several axes, as a value of the index type."""
        place = self.places[name]
        if place.shape:
            return self.builder.constant(self.index, place.shape[axis])
        declared = self._parameters[name].shape[axis]
        if isinstance(declared, (Const, Size)):
            return self._known(declared)
        # A call refuses an extent that is negative or that the type does not have.
        within = (0, FULL[self.index][1])
        if isinstance(declared, Scalar) and declared.type is self._index:
            return self.builder.entry("parameter", self.index, (), ("scalar", declared.name), within=within)
        if declared is not None:  # each call checks that extents declared alike are the same
            name, axis = next(
                (p.name, at) for p in self._parameters.values() for at, e in enumerate(p.shape) if e == declared
            )
        return self.builder.entry("parameter", self.index, (), ("extent", extent_name(name, axis)), within=within)

    def _known(self, declared: Const | Size) -> int:
        """A declared size or extent that is a number or that of another buffer."""
        if isinstance(declared, Const):
            return self.builder.constant(self.index, wrap(self.index, declared.bits))
        return self.size(declared.buffer) if declared.axis is None else self.extent(declared.buffer, declared.axis)

    def guard(self, name: str, index: Index) -> int | None:
        """The predicate under which an access happens: None if it always does, `builder.false` if it never does.

        None as well if the program was compiled without checks; with a trap, the thread ends here if the index is
        out of bounds.
        """
        if not self._checked:
            return None
        if isinstance(index, int):
            return self._checked_inside(name, None, index, self.size(name))
        b = self.builder
        guards = [self._checked_inside(name, at, i, self.extent(name, at)) for at, i in enumerate(index)]
        needed = [guard for guard in guards if guard is not None]
        return reduce(lambda one, other: b.apply("logical_and", one, other), needed) if needed else None

    def _checked_inside(self, name: str, axis: int | None, index: int, bound: int) -> int | None:
        b = self.builder
        inside = self._inside(index, bound)
        if inside == b.true or self._is_before_one_inside(index, bound):
            return None
        if self.trap is None:
            return inside
        self.trap(name, axis, index, inside)
        return inside if inside == b.false else None

    def _is_before_one_inside(self, index: int, bound: int) -> bool:
        """Whether an element after this one, in the same block of up to 16, is known to be inside."""
        function = self.builder.function
        first, above = index, 0
        if function.ops[index] == "add" and function.ops[function.args[index][1]] == "const":
            first, above = function.args[index][0], function.attrs[function.args[index][1]]
        found = None
        count = _MOST_NEIGHBORS
        while found is None and count > 1:
            found = self.linear.within_block(self.linear.of(index), count)
            count //= 2
        type_ = function.types[index]
        # The last one first, as that is what most programs compare.
        for further in range(0 if found is None else 2 * count - 1 - found[1], 0, -1):
            step = function.known_constant(type_, wrap(type_, above + further))
            later = None if step is None else function.find(("add", type_, (first, step), None))
            if later is not None and self.builder.facts.proves_less(later, bound):
                return True
        return False

    def _inside(self, index: int, bound: int) -> int:
        """0 <= index < bound, as one unsigned comparison in the wider of the two types."""
        b = self.builder
        bound = b.convert("retype", UNSIGNED[self.index], bound)
        type_ = b.function.types[index]
        if BITS[type_] < BITS[self.index]:  # then a negative index is 2^63 or more
            index = b.convert("widen", "s64" if type_ == "s32" else "u64", index)
        elif BITS[type_] > BITS[self.index]:
            bound = b.convert("widen", "u64", bound)
        elif type_ == "s32" and self.index == "u32" and b.facts.tight_range(index)[0] < 0:
            # 2^31 and more stand for negative indices
            bound = self._below_sign(bound)
        return b.apply("less", b.convert("retype", UNSIGNED[b.function.types[index]], index), bound)

    def _below_sign(self, size: int) -> int:
        b = self.builder
        limit = b.constant("u32", _SIGN)
        return b.apply("minimum", size, limit) if b.is_constant(size) else b.entry("minimum", "u32", (size, limit))

    # ---- addresses ----

    def number(self, name: str, index: Index) -> int:
        """The number of an element, row by row; what it is for an index out of bounds does not matter."""
        if isinstance(index, int):
            return index
        b = self.builder
        number = self._unsigned(index[0])
        for axis in range(1, len(index)):
            row = b.apply("multiply", number, self._unsigned(self.extent(name, axis)))
            number = b.apply("add", row, self._unsigned(index[axis]))
        return number

    def _unsigned(self, value: int) -> int:
        """The low bits of an index, extended by its sign, as unsigned bits of the index type's width."""
        b = self.builder
        type_ = b.function.types[value]
        if BITS[type_] < BITS[self.index]:
            value = b.convert("widen", "s64" if type_ == "s32" else "u64", value)
        elif BITS[type_] > BITS[self.index]:
            value = b.convert("low", "u32", b.convert("retype", "u64", value))
        return b.convert("retype", UNSIGNED[self.index], value)

    def address(self, place: Place, index: int) -> Address:
        """The address of an element; any bit pattern of `index` is fine as long as the guard prevents the access."""
        b = self.builder
        itemsize = place.type.itemsize
        constant = b.constant_of(index)
        if constant is not None and 0 <= constant * itemsize < REACH:
            base = () if place.symbol else (self.base(place),)
            return Address(base, place.symbol, place.offset * (not base) + constant * itemsize)
        root, offset = b.facts.displacement(index)
        if abs(offset * itemsize) >= REACH:
            root, offset = index, 0
        register = self._element(place, b.convert("retype", UNSIGNED[b.function.types[root]], root))
        return Address((register,), "", offset * itemsize)

    def element_address(self, place: Place, index: int) -> int:
        """Where an element is, as one value, which is right under the guard: 64-bit in a buffer, else 32-bit."""
        b = self.builder
        return self._element(place, b.convert("retype", UNSIGNED[b.function.types[index]], index))

    def _element(self, place: Place, index: int) -> int:
        """Base + index * itemsize, for an unsigned index."""
        b = self.builder
        function = b.function
        if function.ops[index] == "widen":
            index = b.convert("retype", "u32", function.args[index][0])
        itemsize = place.type.itemsize
        if place.space == "shared":
            word = b.convert("low", "u32", index) if function.types[index] == "u64" else index
            return b.emit("add", "u32", (self.base(place), b.apply("multiply", word, b.constant("u32", itemsize))))
        if function.types[index] == "u64":
            scaled = b.apply("multiply", index, b.constant("u64", itemsize))
        elif itemsize == 1:
            scaled = b.convert("widen", "u64", index)
        else:
            scaled = b.emit("multiply_wide", "u64", (index, b.constant("u32", itemsize)))
        return b.emit("add", "u64", (self.base(place), scaled))

    def base(self, place: Place) -> int:
        """The address of element 0: 32-bit for a shared array, otherwise 64-bit."""
        b = self.builder
        if place.space != "shared" and place.symbol:
            return b.entry("symbol", "u64", (), place.symbol)
        if place.space == "global":
            return b.entry("global_pointer", "u64", (b.entry("parameter", "u64", (), ("buffer", place.name)),))
        symbol = b.entry("symbol", "u32", (), place.symbol)
        return b.entry("add", "u32", (symbol, b.constant("u32", place.offset))) if place.offset else symbol

    def operands(self, place: Place, index: int, word: str, guard: int | None) -> tuple[tuple[int, ...], Form]:
        """The address operand, if any, and the form of an access; the guard comes last, after the values."""
        address = self.address(place, index)
        form = Form(place.space, word, address.symbol, address.displacement, guard is not None, place.name, index)
        return address.register, form

    def touch(self, place: Place, kind: Literal["load", "store", "atomic"], index: int, everyone: bool = False) -> None:
        place.touches.append(Touch(kind, index, self.loop_depth > 0, everyone))
        place.is_read = place.is_read or kind != "store"

    def has_many(self) -> bool:
        """Whether some array has several loads, or several stores."""
        kinds = [[touch.kind for touch in place.touches] for place in self.places.values()]
        return any(found.count("load") > 1 or found.count("store") > 1 for found in kinds)

    # ---- accesses ----

    def load(self, name: str, index: Index) -> int:
        """The element, 0 out of bounds. Loads of memory that nothing writes are shared like other values."""
        b = self.builder
        place = self.places[name]
        key = ("element", place.type.name, index if isinstance(index, tuple) else (index,), name)
        if place.constant:
            found = b.function.find(key)
            if found is not None:
                return found
        guard = self.guard(name, index)
        if guard == b.false:
            return b.constant(MACHINE_TYPE[place.type], 0)
        number = self.number(name, index)
        self.touch(place, "load", number)
        address, form = self.operands(place, number, MEMORY_WORD[place.type], guard)
        args = address if guard is None else (*address, guard)
        loaded = b.function.fresh("load", RAW_TYPE[place.type], args, form)
        within = raw_range(place.type)
        if within is None:
            b.facts.observe(loaded)
        else:
            b.facts.give_range(loaded, *within)
        element = from_raw(b, place.type, loaded)
        if place.constant:
            b.function.remember(key, element)
        return element

    def store(self, name: str, index: Index, value: int, *, everyone: bool = False) -> None:
        """Write an element; nothing out of bounds."""
        b = self.builder
        place = self.places[name]
        if place.constant:
            raise InternalError(f"store to the in buffer {name}")
        guard = self.guard(name, index)
        if guard == b.false:
            return
        raw = to_raw(b, place.type, value)
        number = self.number(name, index)
        self.touch(place, "store", number, everyone)
        address, form = self.operands(place, number, MEMORY_WORD[place.type], guard)
        args = (*address, raw) if guard is None else (*address, raw, guard)
        b.function.effect("store", args, form)


def symbol_name(prefix: str, number: int, name: str) -> str:
    """A PTX identifier for something the user named: unique by its number, readable by the rest of the name."""
    clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name[:40])
    return f"{prefix}_{number}_{clean}" if clean else f"{prefix}_{number}"
