"""Compiling several programs in parallel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from vyre_cuda.ir.core.program import Program
from vyre_cuda.runtime.kernel.kernel import Kernel
from vyre_cuda.runtime.kernel.large_entry import provide

# The driver's linker runs without the GIL; lowering does not, so more threads than this would wait for each other.
_MOST_THREADS = 8


def compiled(programs: Iterable[Program], compile_one: Callable[[Program], Kernel]) -> list[Kernel]:
    """The kernel of each program, in order, with its entry for large launches. After all have ended, raises the error
    of the first one that failed."""

    def whole(program: Program) -> Kernel:
        kernel = compile_one(program)
        if kernel.large_from != 0:
            provide(kernel)
        return kernel

    given = list(programs)
    with ThreadPoolExecutor(min(len(given), _MOST_THREADS, os.cpu_count() or 1) or 1) as pool:
        return [future.result() for future in [pool.submit(whole, program) for program in given]]
