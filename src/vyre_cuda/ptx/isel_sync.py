"""Barriers, atomics, the report of failed assertions and the zeroing of shared memory.

Atomics carry the order and scope of the program: `atom` where the old value or an acquire is needed, else `red`
(PTX ISA: red is relaxed or release only). Out of bounds an atomic does nothing and gives 0.
"""

from __future__ import annotations

from typing import NamedTuple

from vyre_cuda.errors import InternalError
from vyre_cuda.ptx.isel_memory import Form, Memory, Place
from vyre_cuda.ptx.peephole import Builder

SCOPE = {"block": "cta", "device": "gpu", "system": "sys"}
# Orders that `red` can have.
RED_ORDERS = ("relaxed", "release")

# (op, operand type) -> operation and type words of the instruction.
ATOMIC_ROWS: dict[tuple[str, str], str] = {
    ("add", "u32"): "add.u32",
    ("add", "s32"): "add.s32",
    ("add", "f32"): "add.f32",
    ("compare_exchange", "u32"): "cas.b32",
    ("compare_exchange", "s32"): "cas.b32",
}

# A failing thread reports its linear id above this many bits of assertion site.
SITE_BITS = 20

# A larger shared array is zeroed by a loop.
_UNROLLED_STORES = 8


class AtomicForm(NamedTuple):
    """The fixed part of an atomic."""

    form: Form
    order: str
    scope: str


def barrier(b: Builder) -> None:
    """All threads of the block arrive; memory is ordered for the block (PTX ISA, bar.sync)."""
    b.function.effect("barrier")


def atomic(memory: Memory, op: str, name: str, index: int, operands: tuple[int, ...], *, order: str, scope: str) -> int:
    """Combine an element with the operands; the value is the old one, 0 out of bounds."""
    b = memory.builder
    place = memory.places[name]
    type_ = b.function.types[operands[-1]]
    word = ATOMIC_ROWS.get((op, type_))
    if word is None:
        types = ", ".join(sorted(t for known, t in ATOMIC_ROWS if known == op))
        raise InternalError(f"atomic {op} has no PTX form for {type_}; it has one for {types}")
    guard = memory.guard(name, index)
    if guard == b.false:
        return b.constant(type_, 0)
    memory.touch(place, "atomic", index)
    address, form = memory.operands(place, index, word, guard)
    args = (*address, *operands) if guard is None else (*address, *operands, guard)
    old = b.function.fresh("atomic", type_, args, AtomicForm(form, order, SCOPE[scope]))
    b.facts.observe(old)
    return old


# ---- ids ------------------------------------------------------------------------------------------------------------


def linear_thread_id(b: Builder, block: tuple[int, int, int]) -> int:
    """The thread's number in its block, x fastest. Made of entry values alone."""
    function = b.function
    thread = [special(b, f"%tid.{axis}") for axis in "xyz"]
    linear = thread[0]
    if block[1] > 1 or block[2] > 1:
        row = thread[1]
        if block[2] > 1:
            row = function.entry_value("multiply_add", "u32", (thread[2], b.constant("u32", block[1]), row))
        linear = function.entry_value("multiply_add", "u32", (row, b.constant("u32", block[0]), linear))
    return linear


def special(b: Builder, name: str) -> int:
    """A special register."""
    return b.function.entry_value("special", "u32", (), name)


def report_failure(b: Builder, block: tuple[int, int, int], site: int) -> None:
    """min the report with (linear global thread id, site) and end the thread."""
    function = b.function
    x, y, z = (special(b, f"%ctaid.{axis}") for axis in "xyz")
    grid_x, grid_y = special(b, "%nctaid.x"), special(b, "%nctaid.y")
    row = b.emit("multiply_add", "u32", (z, grid_y, y))  # below 2^32: both axes have at most 65,535 blocks
    block_id = b.emit("multiply_wide_add", "u64", (row, grid_x, b.emit("widen", "u64", (x,))))
    first = b.emit("multiply", "u64", (block_id, b.constant("u64", block[0] * block[1] * block[2])))
    thread = b.emit("add", "u64", (first, b.emit("widen", "u64", (linear_thread_id(b, block),))))
    shifted = b.emit("multiply", "u64", (thread, b.constant("u64", 1 << SITE_BITS)))
    record = b.emit("add", "u64", (shifted, b.constant("u64", site)))
    pointer = function.entry_value("parameter", "u64", (), ("report", "report"))
    report = function.entry_value("global_pointer", "u64", (pointer,))
    form = AtomicForm(Form("global", "min.u64", "", 0, False), "relaxed", SCOPE["system"])
    function.fresh("atomic", "u64", (report, record), form)
    function.effect("return", (), False)


# ---- shared memory --------------------------------------------------------------------------------------------------


def needs_zeroing(place: Place, thread: int | None, threads: int) -> bool:
    """Whether something could read the array before the program wrote it.

    Not so when the first access in the text is a store by every thread, each at its own number, and the threads are
    enough for the array: another thread's element is then read behind a barrier or in a race.
    """
    if not place.is_read:
        return False
    first = place.touches[0]
    written = first.kind == "store" and first.everyone and first.at == thread
    return not (written and place.size is not None and place.size <= threads)


def zero_shared(memory: Memory, places: list[Place], block: tuple[int, int, int]) -> None:
    """Zero these arrays, all threads together, and wait.

    It runs before anything is known of the program's conditions, so values are made without looking at facts.
    """
    b = memory.builder
    function = b.function
    threads = block[0] * block[1] * block[2]
    linear = linear_thread_id(b, block)
    offset = function.entry_value("multiply", "u32", (linear, b.constant("u32", 4)))
    zero = b.constant("u32", 0)
    for place in places:
        words = -(-(place.size or 0) * place.type.itemsize // 4)
        start = function.fresh("add", "u32", (memory.base(place), offset))
        if words > threads * _UNROLLED_STORES:
            _zero_in_loop(memory, place, start, words, threads)
            continue
        for done in range(0, words, threads):
            rest = words - done
            form = Form("shared", "u32", "", done * 4, rest < threads)
            if rest < threads:
                inside = function.fresh("less", "pred", (linear, b.constant("u32", rest)))
                function.effect("store", (start, zero, inside), form)
            else:
                function.effect("store", (start, zero), form)
    function.effect("barrier")


def _zero_in_loop(memory: Memory, place: Place, start: int, words: int, threads: int) -> None:
    b = memory.builder
    function = b.function
    end = function.fresh("add", "u32", (memory.base(place), b.constant("u32", words * 4)))
    register = function.register("u32")
    function.effect("set", (start,), register)
    label = function.label()
    function.effect("label", (), (label, True))
    at = function.register_value(register)
    function.effect("store", (at, b.constant("u32", 0)), Form("shared", "u32", "", 0, False))
    following = function.fresh("add", "u32", (at, b.constant("u32", threads * 4)))
    function.pinned[following] = register
    again = function.fresh("less", "pred", (following, end))
    function.effect("branch", (again,), (label, False))
