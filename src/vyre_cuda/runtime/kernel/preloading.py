"""Passes and lowering are imported while a driver makes a context, which then need not be imported for a kernel.

While the driver works, nothing else runs; and of the instructions until a first kernel has its text, nine of ten are
imports. A process that finds its kernels on disk needs none of them, and has no reason to wait for them: there the
imports end with the driver's work, and are not begun on a single core.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from importlib import import_module

from vyre_cuda.cache.directory import KERNELS, cache_root
from vyre_cuda.errors import CacheError, ProgramError

_begun: list[threading.Thread] = []
# In the order of their imports, so that each takes a few others at most.
_STEPS = (
    "ir.builder.values",
    "ir.builder.builder",
    "ir.builder.ids",
    "passes.rebuild",
    "passes.pipeline",
    "codegen.core.target",
    "codegen.forms.isel",
    "codegen.terms.terms",
    "codegen.ssa.ssa",
    "codegen.lowering.linear",
    "codegen.ssa.simplify",
    "codegen.ssa.peephole",
    "codegen.lowering.isel_memory",
    "codegen.lowering.cover",
    "codegen.lowering.expressions",
    "codegen.lowering.statements",
    "codegen.emit.text",
    "codegen.lower",
    "runtime.kernel.lowering",
)


@contextlib.contextmanager
def beside_a_driver() -> Iterator[None]:
    """Import beside the work of a driver, once in a process."""
    enough = threading.Event()
    has_kernels = _has_kernels()
    if not _begun and (not has_kernels or _cores() > 1):
        _begin(enough)
    try:
        yield
    finally:
        if has_kernels:
            enough.set()


def _begin(enough: threading.Event) -> None:
    thread = threading.Thread(target=_load, args=(enough,), name="vyre_cuda imports", daemon=True)
    _begun.append(thread)
    with contextlib.suppress(RuntimeError):  # no more threads: who compiles imports
        thread.start()
        os.register_at_fork(before=thread.join)  # a child would wait for ever for a module that was half imported


def _has_kernels() -> bool:
    try:
        root = cache_root(os.environ)
        if root is None:
            return False
        with os.scandir(os.path.join(root, KERNELS)) as files:
            return next(files, None) is not None
    except (OSError, CacheError):
        return False


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _load(enough: threading.Event) -> None:
    """Import, then lower a small program, which makes what most programs share, until it is enough."""
    with contextlib.suppress(ImportError, OSError, ProgramError):  # who compiles gets it again
        for each in _STEPS:
            if enough.is_set():
                return
            import_module("vyre_cuda." + each)
        if not enough.is_set():
            _lower()


def _lower() -> None:
    builder = import_module("vyre_cuda.ir.builder.builder")
    types = import_module("vyre_cuda.ir.core.types")
    ids = import_module("vyre_cuda.ir.builder.ids")
    b = builder.Builder("preloaded")
    x, a = b.input("x", types.f32), b.scalar("a", types.f32)
    out = b.output("out", types.f32, size=x.size)
    i = b.let("i", ids.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + x[i]
    prepared = import_module("vyre_cuda.passes.pipeline").prepared(b.build(), bounds="check")
    target = import_module("vyre_cuda.codegen.core.target").Target.parse("sm_90")
    import_module("vyre_cuda.runtime.kernel.lowering").lower(prepared, target, large=True)
