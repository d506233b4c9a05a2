"""Barriers, ids that are made of special registers, and the zeroing of shared memory."""

from __future__ import annotations

from vyre_cuda.codegen.lowering.access_forms import AtomicForm, Form, VectorForm
from vyre_cuda.codegen.lowering.isel_memory import Memory, Place
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.limits import MAX_GRID
from vyre_cuda.ir.core.nodes import WARP_SIZE

Block = tuple[int, int, int]

# A larger shared array is zeroed by a loop.
_UNROLLED_STORES = 8
# What a leader adds for its block; that of block 0 adds the number that brings the total to 2^31.
_SIGN = 1 << 31
# Nanoseconds between two polls of the state of a grid barrier.
_BACK_OFF = 64


def barrier(b: Builder) -> None:
    """All threads of the block arrive; memory is ordered for the block (PTX ISA, bar.sync)."""
    b.function.effect("barrier")


# ---- ids ------------------------------------------------------------------------------------------------------------


def special(b: Builder, name: str, block: Block) -> int:
    """A special register such as %tid.x, with the interval that the launch limits give it."""
    register, _, axis = name.partition(".")
    number = "xyz".index(axis)
    within = {
        "%tid": (0, block[number] - 1),
        "%ctaid": (0, MAX_GRID[number] - 1),
        "%nctaid": (1, MAX_GRID[number]),
    }[register]
    return b.entry("special", "u32", (), name, within=within)


def linear_thread_id(b: Builder, block: Block) -> int:
    """The thread's number in its block, x fastest. Made of entry values alone."""
    highest = block[0] * block[1] * block[2] - 1
    linear = special(b, "%tid.x", block)
    if block[1] > 1 or block[2] > 1:
        row = special(b, "%tid.y", block)
        if block[2] > 1:
            depth = special(b, "%tid.z", block)
            row = b.entry("multiply_add", "u32", (depth, b.constant("u32", block[1]), row))
        linear = b.entry("multiply_add", "u32", (row, b.constant("u32", block[0]), linear), within=(0, highest))
    return linear


def lane_id(b: Builder, block: Block) -> int:
    """The thread's number in its warp. Made of entry values alone."""
    linear = linear_thread_id(b, block)
    if block[0] * block[1] * block[2] <= WARP_SIZE:
        return linear
    return b.entry("bitwise_and", "u32", (linear, b.constant("u32", WARP_SIZE - 1)))


def linear_block_id(b: Builder, block: Block) -> int:
    """The block's number in the grid as u64, x fastest."""
    x, y, z = (special(b, f"%ctaid.{axis}", block) for axis in "xyz")
    row = b.emit("multiply_add", "u32", (z, special(b, "%nctaid.y", block), y))  # both axes have at most 2^16 blocks
    return b.emit("multiply_wide_add", "u64", (row, special(b, "%nctaid.x", block), b.convert("widen", "u64", x)))


# ---- atomics of our own ---------------------------------------------------------------------------------------------


def atomic_value(b: Builder, word: str, args: tuple[int, ...], *, order: str, scope: str = "gpu", at: int = 0) -> int:
    """An atomic on global memory at args[0] + `at` bytes; `word` names operation and type of the instruction."""
    form = AtomicForm(Form("global", word, "", at, False), order, scope)
    type_ = "u64" if word.endswith("64") else "u32"
    value = b.function.fresh("atomic", type_, args, form)
    b.facts.observe(value)
    return value


# ---- grid barrier ---------------------------------------------------------------------------------------------------


def grid_barrier(b: Builder, block: Block, report: int | None) -> None:
    """All threads of the grid arrive; global memory is ordered for the device.

    The first thread of each block adds to a word whose top bit flips when all have arrived, and waits for that: the
    word is then ready for the next barrier. A thread that has reported a failure never arrives; the others see the
    report and continue, because outputs are unspecified by then.
    """
    function = b.function
    after = function.label()
    barrier(b)
    is_leader = b.apply("equal", linear_thread_id(b, block), b.constant("u32", 0))
    b.branch(is_leader, False, after)
    b.open_scope()
    counts = [special(b, f"%nctaid.{axis}", block) for axis in "xyz"]
    blocks = b.apply("multiply", b.apply("multiply", counts[0], counts[1]), counts[2])
    is_first = b.apply("equal", linear_block_id(b, block), b.constant("u64", 0))
    last = b.apply("subtract", b.constant("u32", _SIGN + 1), blocks)
    word = b.entry("global_pointer", "u64", (b.entry("parameter", "u64", (), ("grid_barrier", "grid_barrier")),))
    arrived = atomic_value(
        b, "add.u32", (word, b.apply("where", is_first, last, b.constant("u32", 1))), order="acq_rel"
    )
    again, done = function.label(), function.label()
    function.effect("label", (), (again, True))
    b.open_scope()
    now = atomic_value(b, "ld.u32", (word,), order="acquire")
    flipped = b.apply("bitwise_xor", b.convert("retype", "s32", arrived), b.convert("retype", "s32", now))
    b.branch(b.apply("less", flipped, b.constant("s32", 0)), True, done)
    if report is not None:
        key = atomic_value(b, "ld.u64", (report,), order="relaxed", scope="sys")
        failed = b.apply("not_equal", key, b.constant("u64", (1 << 64) - 1))
        b.branch(failed, True, done)
    function.effect("sleep", (), _BACK_OFF)
    function.effect("branch", (), (again, False))
    b.close_scope()
    function.effect("label", (), (done, False))
    b.close_scope()
    function.effect("label", (), (after, False))
    barrier(b)


# ---- shared memory --------------------------------------------------------------------------------------------------


def needs_zeroing(place: Place, thread: int | None, threads: int) -> bool:
    """Whether something could read the array before the program wrote it.

    Not so when the first access in the text is a store by every thread, each at its own number, and the threads are
    enough for the array: another thread's element is then read after a barrier or in a race.
    """
    if not place.is_read:
        return False
    first = place.touches[0]
    written = first.kind == "store" and first.everyone and first.at == thread
    return not (written and place.size is not None and place.size <= threads)


def zero_shared(memory: Memory, places: list[Place], block: tuple[int, int, int]) -> None:
    """Zero these arrays, all threads together, and wait.

    It runs before anything is known about the program's conditions, so values are made without using facts.
    """
    b = memory.builder
    function = b.function
    threads = block[0] * block[1] * block[2]
    linear = linear_thread_id(b, block)
    for place in places:
        words = -(-(place.size or 0) * place.type.itemsize // 4)
        # Arrays begin at multiples of 16 bytes.
        lanes = 4 if words % 4 == 0 and words >= 4 * threads else 1
        offset = b.entry("multiply", "u32", (linear, b.constant("u32", 4 * lanes)))
        start = function.fresh("add", "u32", (memory.base(place), offset))
        if words > threads * _UNROLLED_STORES * lanes:
            _zero_in_loop(memory, place, start, words, threads * lanes, lanes)
            continue
        for done in range(0, words, threads * lanes):
            rest = (words - done) // lanes
            inside = () if rest >= threads else (function.fresh("less", "pred", (linear, b.constant("u32", rest))),)
            _store_zeros(memory, start, done * 4, lanes, inside)
    function.effect("barrier")


def _store_zeros(memory: Memory, start: int, displacement: int, lanes: int, inside: tuple[int, ...] = ()) -> None:
    """One store of words; `inside` is the condition, where there is one."""
    zero = memory.builder.constant("u32", 0)
    form = Form("shared", "u32", "", displacement, bool(inside))
    if lanes == 1:
        memory.builder.function.effect("store", (start, zero, *inside), form)
    else:
        operands = (start, *[zero] * lanes, *inside)
        memory.builder.function.effect("store_vector", operands, VectorForm(form, lanes))


def _zero_in_loop(memory: Memory, place: Place, start: int, words: int, step: int, lanes: int) -> None:
    b = memory.builder
    function = b.function
    end = function.fresh("add", "u32", (memory.base(place), b.constant("u32", words * 4)))
    register = function.register("u32")
    function.effect("set", (start,), register)
    label = function.label()
    function.effect("label", (), (label, True))
    at = function.register_value(register)
    _store_zeros(memory, at, 0, lanes)
    following = function.fresh("add", "u32", (at, b.constant("u32", step * 4)))
    function.pinned[following] = register
    again = function.fresh("less", "pred", (following, end))
    function.effect("branch", (again,), (label, False))
