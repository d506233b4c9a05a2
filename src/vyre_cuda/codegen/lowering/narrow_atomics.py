"""Atomics on elements of 8 and 16 bits: a loop around compare-and-swap on the 16 bits that hold the element.

PTX compares and swaps 16 bits at the least (PTX ISA, atom.cas.b16). A byte beside the element keeps its value: if
another thread writes it in between, the loop repeats. As a neighbour in the same word may belong to another block, the
scope is the device at the least.
"""

from __future__ import annotations

from vyre_cuda.codegen.forms.isel import MACHINE_TYPE
from vyre_cuda.codegen.lowering import floats, halves, integers
from vyre_cuda.codegen.lowering.access_forms import MEMORY_WORD, RAW_TYPE, AtomicForm, Form, from_raw, raw_range, to_raw
from vyre_cuda.codegen.lowering.isel_memory import Memory, Place
from vyre_cuda.codegen.lowering.legalize import apply_op
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.types import Type, bf16, f16
from vyre_cuda.records import replace

_BYTE = 0xFF


def load(memory: Memory, place: Place, index: int, guard: int | None, order: str, scope: str) -> int:
    """The element, 0 where the guard does not hold."""
    b = memory.builder
    address, form = memory.operands(place, index, f"ld.{MEMORY_WORD[place.type]}", guard)
    args = address if guard is None else (*address, guard)
    loaded = b.function.fresh("atomic", RAW_TYPE[place.type], args, AtomicForm(form, order, scope))
    within = raw_range(place.type)
    if within is None:
        b.facts.observe(loaded)
    else:
        b.facts.give_range(loaded, *within)
    return from_raw(b, place.type, loaded)


def store(memory: Memory, place: Place, index: int, value: int, guard: int | None, order: str, scope: str) -> None:
    """Nothing where the guard does not hold."""
    b = memory.builder
    address, form = memory.operands(place, index, f"st.{MEMORY_WORD[place.type]}", guard)
    raw = to_raw(b, place.type, value)
    args = (*address, raw) if guard is None else (*address, raw, guard)
    b.function.effect("atomic_store", args, AtomicForm(form, order, scope))


def update(
    memory: Memory,
    op: str,
    place: Place,
    index: int,
    operands: tuple[int, ...],
    guard: int | None,
    order: str,
    scope: str,
) -> int:
    """Combine an element with the operands; the value is the old one, 0 where the guard does not hold."""
    b = memory.builder
    function = b.function
    scope = "gpu" if place.space == "global" and scope == "cta" else scope
    result = function.register("u32")
    done = function.label()
    if guard is not None:
        function.effect("set", (b.constant("u32", 0),), result)
        b.branch(guard, False, done)
    b.open_scope()
    address, shift = _word(memory, place, index)
    form = Form(place.space, "ld.b16", "", 0, False)
    found = function.fresh("atomic", "b16", (address,), AtomicForm(form, "relaxed", scope))
    b.facts.observe(found)
    word = function.register("u32")
    function.effect("set", (b.convert("zero_extend", "u32", found),), word)
    again = function.label()
    function.effect("label", (), (again, True))
    b.open_scope()
    old = b.read_register(word)
    bits = _element_bits(b, old, shift)
    function.effect("set", (bits,), result)
    combined = _bits(b, place.type, _combined(b, op, place.type, _value(b, place.type, bits), operands))
    new = combined if shift is None else _replaced(b, old, bits, combined, shift)
    swap = AtomicForm(replace(form, word="cas.b16"), order, scope)
    words = [b.convert("short", "b16", b.in_register(each)) for each in (old, new)]
    met = function.fresh("atomic", "b16", (address, *words), swap)
    b.facts.observe(met)
    met_bits = b.convert("zero_extend", "u32", met)
    function.effect("set", (met_bits,), word)
    b.branch(b.apply("not_equal", met_bits, old), True, again)
    b.close_scope()
    b.close_scope()
    function.effect("label", (), (done, False))
    return _value(b, place.type, b.read_register(result))


def _word(memory: Memory, place: Place, index: int) -> tuple[int, int | None]:
    """The address of the 16 bits that hold an element, and how far it is shifted in them: None for 16 bits."""
    b = memory.builder
    address = memory.element_address(place, index)
    if place.type.itemsize == 2:
        return address, None
    type_ = b.function.types[address]
    ones = (1 << (64 if type_ == "u64" else 32)) - 1
    low = b.convert("low", "u32", address) if type_ == "u64" else address
    odd = b.apply("bitwise_and", low, b.constant("u32", 1))
    shift = b.apply("left_shift", odd, b.constant("u32", 3))
    return b.apply("bitwise_and", address, b.constant(type_, ones - 1)), shift


def _element_bits(b: Builder, word: int, shift: int | None) -> int:
    if shift is None:
        return word
    return b.apply("bitwise_and", b.apply("right_shift", word, shift), b.constant("u32", _BYTE))


def _replaced(b: Builder, word: int, before: int, after: int, shift: int) -> int:
    """The word with the bits `after` in place of `before`."""
    changed = b.apply("bitwise_xor", before, after)
    return b.apply("bitwise_xor", word, b.apply("left_shift", changed, shift))


def _value(b: Builder, type_: Type, bits: int) -> int:
    """The element of these bits."""
    if type_ is f16 or type_ is bf16:
        return halves.from_bits(b, type_, bits)
    return integers.narrowed(b, type_, b.convert("retype", MACHINE_TYPE[type_], bits))


def _bits(b: Builder, type_: Type, value: int) -> int:
    """Of an element, zero-extended to u32."""
    if type_ is f16 or type_ is bf16:
        return halves.to_bits(b, type_, value)
    return integers.bits_as_unsigned(b, type_, value)


def _combined(b: Builder, op: str, type_: Type, old: int, operands: tuple[int, ...]) -> int:
    if op == "exchange":
        return operands[0]
    if op == "compare_exchange":
        expected, desired = operands
        return b.apply("where", b.apply("equal", old, expected), desired, old)
    if not type_.is_float:
        return apply_op(b, op, type_, type_, (old, operands[0]))
    if op == "add":
        return halves.rounded(b, type_, b.apply("add", old, operands[0]))
    return floats.nan_propagating_ieee(b, op, old, operands[0])
