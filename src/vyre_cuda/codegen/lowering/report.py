"""How a thread reports a failed assertion or an index out of bounds, and ends.

The record is four u64 of mapped host memory: the key (linear thread id above SITE_BITS of site), preset to all ones;
the index; a lock word; one reserved. The lowest key stays. Programs without bounds="trap" only lower the key, by one
atomic; with it the key and the index change together, under the lock.
"""

from __future__ import annotations

from vyre_cuda.codegen.lowering.access_forms import AtomicForm, Form
from vyre_cuda.codegen.lowering.isel_sync import Block, atomic_value, linear_block_id, linear_thread_id
from vyre_cuda.codegen.ssa.peephole import Builder

# A failing thread reports its linear id above this many bits of site.
SITE_BITS = 20
_INDEX_AT = 8
_LOCK_AT = 16
# Nanoseconds between two attempts to take the lock.
_BACK_OFF = 64


def report_pointer(b: Builder) -> int:
    """The address of the record."""
    return b.entry("global_pointer", "u64", (b.entry("parameter", "u64", (), ("report", "report")),))


def report_failure(b: Builder, block: Block, site: int, index: int | None, *, locked: bool) -> None:
    """Report this thread and end it. `index` is None when the site is an assertion."""
    report = report_pointer(b)
    key = _key(b, block, site)
    if locked:
        _update_under_lock(b, report, key, _as_u64(b, index))
    else:
        atomic_value(b, "min.u64", (report, key), order="relaxed", scope="sys")
    b.function.effect("return", (), False)


def _key(b: Builder, block: Block, site: int) -> int:
    threads = block[0] * block[1] * block[2]
    first = b.emit("multiply", "u64", (linear_block_id(b, block), b.constant("u64", threads)))
    thread = b.emit("add", "u64", (first, b.convert("widen", "u64", linear_thread_id(b, block))))
    shifted = b.emit("multiply", "u64", (thread, b.constant("u64", 1 << SITE_BITS)))
    return b.emit("add", "u64", (shifted, b.constant("u64", site)))


def _as_u64(b: Builder, index: int | None) -> int:
    """An index of any integer type, extended by its sign."""
    if index is None:
        return b.constant("u64", 0)
    type_ = b.function.types[index]
    wide = b.convert("widen", "s64" if type_ == "s32" else "u64", index) if type_ in ("u32", "s32") else index
    return b.convert("retype", "u64", wide)


def _update_under_lock(b: Builder, report: int, key: int, index: int) -> None:
    """Threads of one warp may want the lock at once, so the holder continues without waiting for the others."""
    function = b.function
    again, taken, release = function.label(), function.label(), function.label()
    zero, one = b.constant("u32", 0), b.constant("u32", 1)
    function.effect("label", (), (again, True))
    b.open_scope()
    lock = atomic_value(b, "cas.b32", (report, zero, one), order="acquire", scope="sys", at=_LOCK_AT)
    b.branch(b.apply("equal", lock, zero), True, taken)
    function.effect("sleep", (), _BACK_OFF)
    function.effect("branch", (), (again, False))
    b.close_scope()
    function.effect("label", (), (taken, False))
    lowest = atomic_value(b, "ld.u64", (report,), order="relaxed", scope="sys")
    b.branch(b.apply("less_equal", lowest, key), True, release)
    _store(b, report, key, 0)
    _store(b, report, index, _INDEX_AT)
    function.effect("label", (), (release, False))
    atomic_value(b, "exch.b32", (report, zero), order="release", scope="sys", at=_LOCK_AT)


def _store(b: Builder, report: int, value: int, at: int) -> None:
    form = AtomicForm(Form("global", "st.u64", "", at, False), "relaxed", "sys")
    b.function.effect("atomic_store", (report, value), form)
