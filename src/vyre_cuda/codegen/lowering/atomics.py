"""Atomics: one atomic access, with the order and scope of the program.

`atom` where the old value or an acquire is needed, else `red` (PTX ISA: red is relaxed or release only). What PTX
lacks is a loop around compare-and-swap on the bits. Out of bounds an atomic does nothing and gives 0. A load keeps
the acquiring half of its order, a store the releasing one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_cuda.codegen.forms.isel import BITS, MACHINE_TYPE
from vyre_cuda.codegen.lowering import floats
from vyre_cuda.codegen.lowering.access_forms import AtomicForm
from vyre_cuda.codegen.lowering.isel_memory import Index, Memory, Place
from vyre_cuda.errors import InternalError
from vyre_cuda.ir.core.ops import ATOMICS
from vyre_cuda.later import later
from vyre_cuda.records import replace

if TYPE_CHECKING:
    from vyre_cuda.codegen.lowering import narrow_atomics
else:
    narrow_atomics = later("vyre_cuda.codegen.lowering.narrow_atomics")

SCOPE = {"block": "cta", "device": "gpu", "system": "sys"}
# Orders that `red` can have.
RED_ORDERS = ("relaxed", "release")
_LOAD_ORDER = {"relaxed": "relaxed", "acquire": "acquire", "release": "relaxed", "acq_rel": "acquire"}
_STORE_ORDER = {"relaxed": "relaxed", "acquire": "relaxed", "release": "release", "acq_rel": "release"}

_INSTRUCTION = {
    "add": "add.{add}",
    "minimum": "min.{t}",
    "maximum": "max.{t}",
    "bitwise_and": "and.b{b}",
    "bitwise_or": "or.b{b}",
    "bitwise_xor": "xor.b{b}",
    "exchange": "exch.b{b}",
    "compare_exchange": "cas.b{b}",
    "load": "ld.{t}",
    "store": "st.{t}",
}


def instruction(op: str, machine: str) -> str | None:
    """Operation and type words of the one instruction that does an atomic, None when there is none.

    Two's complement adds s64 as u64, which is the only one that PTX has. Subtraction adds the negative.
    """
    if op in ("minimum", "maximum") and machine.startswith("f"):
        return None
    template = _INSTRUCTION.get(op)
    if template is None:
        return None
    add = "u64" if machine == "s64" else machine
    return template.replace("{add}", add).replace("{t}", machine).replace("{b}", str(BITS[machine]))


def atomic(memory: Memory, op: str, name: str, at: Index, operands: tuple[int, ...], *, order: str, scope: str) -> int:
    """Combine an element with the operands; the value is the old one, 0 out of bounds. A store has no value: 0."""
    b = memory.builder
    place = memory.places[name]
    type_ = MACHINE_TYPE[place.type]
    if place.type not in ATOMICS[op].types:
        types = ", ".join(t.name for t in ATOMICS[op].types)
        raise InternalError(f"atomic {op} has no form for {place.type}; it has one for {types}")
    guard = memory.guard(name, at)
    if guard == b.false:
        return b.constant(type_, 0)
    index = memory.number(name, at)
    memory.touch(place, "atomic", index)
    if place.type.itemsize < 4:
        return _narrow(memory, op, place, index, operands, guard, order, SCOPE[scope])
    if op == "subtract":
        op, operands = "add", (b.apply("negative", operands[0]),)
    word = instruction(op, type_)
    ptx_scope = SCOPE[scope]
    if word is None:
        return _by_compare_and_swap(memory, op, place, index, operands[0], guard, order, ptx_scope)
    address, form = memory.operands(place, index, word, guard)
    args = (*address, *operands) if guard is None else (*address, *operands, guard)
    if op == "store":
        b.function.effect("atomic_store", args, AtomicForm(form, _STORE_ORDER[order], ptx_scope))
        return b.constant(type_, 0)
    made = AtomicForm(form, _LOAD_ORDER[order] if op == "load" else order, ptx_scope)
    old = b.function.fresh("atomic", type_, args, made)
    b.facts.observe(old)
    return old


def _narrow(
    memory: Memory,
    op: str,
    place: Place,
    index: int,
    operands: tuple[int, ...],
    guard: int | None,
    order: str,
    scope: str,
) -> int:
    if op == "load":
        return narrow_atomics.load(memory, place, index, guard, _LOAD_ORDER[order], scope)
    if op == "store":
        narrow_atomics.store(memory, place, index, operands[0], guard, _STORE_ORDER[order], scope)
        return memory.builder.constant(MACHINE_TYPE[place.type], 0)
    return narrow_atomics.update(memory, op, place, index, operands, guard, order, scope)


def _by_compare_and_swap(
    memory: Memory, op: str, place: Place, index: int, operand: int, guard: int | None, order: str, scope: str
) -> int:
    """Read, combine, and write if nobody has written in between, until that succeeds. Compares bits, also of NaN."""
    b = memory.builder
    function = b.function
    type_ = function.types[operand]
    bits_type = f"u{BITS[type_]}"
    result = function.register(bits_type)
    done = function.label()
    if guard is not None:
        function.effect("set", (b.constant(bits_type, 0),), result)
        b.branch(guard, False, done)
    b.open_scope()
    address, form = memory.operands(place, index, f"ld.{bits_type}", None)
    found = function.fresh("atomic", bits_type, address, AtomicForm(form, "relaxed", scope))
    function.effect("set", (found,), result)
    again = function.label()
    function.effect("label", (), (again, True))
    b.open_scope()
    old = b.read_register(result)
    number = b.convert(f"bits.{type_}", type_, old)
    combined = b.convert(f"bits.{bits_type}", bits_type, floats.nan_propagating_ieee(b, op, number, operand))
    swap = replace(form, word=f"cas.b{BITS[type_]}")
    met = function.fresh("atomic", bits_type, (*address, old, combined), AtomicForm(swap, order, scope))
    b.facts.observe(met)
    function.effect("set", (met,), result)
    b.branch(b.apply("not_equal", met, old), True, again)
    b.close_scope()
    b.close_scope()
    function.effect("label", (), (done, False))
    return b.convert(f"bits.{type_}", type_, b.read_register(result))
