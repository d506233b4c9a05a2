"""Passes and lowering are imported while a driver makes a context, in a process that has to compile what it runs.

That is one whose cache on disk is off or empty; any other finds its kernels there, and loads neither. While the driver
works, nothing else runs; and of the instructions until a first kernel has its text, nine of ten are imports.
"""

from __future__ import annotations

import contextlib
import os
import threading
from importlib import import_module

from vyre_cuda.cache.directory import KERNELS, cache_root
from vyre_cuda.errors import CacheError, ProgramError

_begun: list[threading.Thread] = []


def begin() -> None:
    """Begin once in a process, if there is no kernel on disk."""
    if _begun or _has_kernels():
        return
    thread = threading.Thread(target=_load, name="vyre_cuda imports", daemon=True)
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


def _load() -> None:
    """Lower a small program, which imports what most programs need, and makes what they share."""
    with contextlib.suppress(ImportError, OSError, ProgramError):  # who compiles gets it again
        builder = import_module("vyre_cuda.ir.builder.builder")
        types = import_module("vyre_cuda.ir.core.types")
        functions = import_module("vyre_cuda.ir.builder.functions")
        b = builder.Builder("preloaded")
        x, a = b.input("x", types.f32), b.scalar("a", types.f32)
        out = b.output("out", types.f32, size=x.size)
        i = b.let("i", functions.global_id.x)
        with b.if_(i < out.size):
            out[i] = a * x[i] + x[i]
        prepared = import_module("vyre_cuda.passes.pipeline").prepared(b.build(), bounds="check")
        target = import_module("vyre_cuda.codegen.core.target").Target.parse("sm_90")
        import_module("vyre_cuda.runtime.kernel.lowering").lower(prepared, target, large=True)
