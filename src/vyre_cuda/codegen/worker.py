"""Several kernels as one that stays on the device (`emit.resident`): which can be, and the text."""

from __future__ import annotations

from collections.abc import Sequence

from vyre_cuda.codegen.core.lowered import Lowered
from vyre_cuda.codegen.core.target import STATIC_SHARED_BYTES, Target
from vyre_cuda.codegen.emit.resident import HEADER_BYTES, MORE_BYTES, WARP, Resident, entry_lines
from vyre_cuda.codegen.emit.text import dynamic_shared_line
from vyre_cuda.codegen.lowering.statements import Lowering
from vyre_cuda.codegen.parts import Part, body_of
from vyre_cuda.codegen.ssa.ssa import OF_WARP
from vyre_cuda.errors import UnsupportedError
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.ids import global_id
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import u8
from vyre_cuda.records import FrozenRecord

MOST_KERNELS = 64


class LoweredWorker(FrozenRecord):
    """The text of a worker, the threads of its block, and its shared memory: what a launch requests, and the rest."""

    ptx: str
    threads: int
    dynamic_shared_bytes: int
    static_shared_bytes: int
    parameter_bytes: int  # of the largest parameter block


def clearing_program(threads: int, name: str = "clear_bytes") -> Program:
    """out[i] = 0 for bytes, as the C layer expects it."""
    b = Builder(name, block=threads)
    out = b.output("out", u8, zeroed=False)
    i = b.let("i", global_id.x)
    with b.if_(i < out.size):
        out[i] = u8(0)
    return b.build()


def clearing_threads(programs: Sequence[Program]) -> int:
    """The block of the kernel that clears: as many whole warps as the worker has, so that its block is theirs."""
    return threads_of(programs) // WARP * WARP


def refused(lowered: Lowered, bounds: str) -> str | None:
    """What a kernel has that a worker does not run; None: nothing."""
    if bounds == "trap":
        return 'bounds="trap"'
    if lowered.asserts:
        return "assertions"
    if lowered.cooperative:
        return "grid barriers"
    if lowered.prints:
        return "prints"
    if lowered.sites:
        return "checks of the emulator"
    if lowered.parameter_bytes > MORE_BYTES:
        return f"{lowered.parameter_bytes} bytes of parameters, more than {MORE_BYTES}"
    return None


def lower_worker(parts: Sequence[Part], target: Target) -> LoweredWorker:
    """The worker of kernels, which are numbered in this order, the last of which clears results. UnsupportedError for
    what none can have."""
    if len(parts) > MOST_KERNELS:
        raise UnsupportedError(
            f"a worker has at most {MOST_KERNELS - 1} kernels, not {len(parts) - 1}; one more clears results: "
            "use several workers",
            capability="worker",
        )
    threads = threads_of([part.program for part in parts])
    kernels = [_Kernel(number, part, threads, target) for number, part in enumerate(parts)]
    call_bytes = max(part.lowered.parameter_bytes for part in parts)
    entry = entry_lines([kernel.lines for kernel in kernels], threads, call_bytes)
    dynamic = max(kernel.dynamic_shared_bytes for kernel in kernels)
    static = HEADER_BYTES + call_bytes + 128 + sum(kernel.static_shared_bytes for kernel in kernels)
    if static > STATIC_SHARED_BYTES or static + dynamic > target.max_shared_bytes:
        raise UnsupportedError(
            f"the kernels of a worker use {static + dynamic} bytes of shared memory together, of which {static} are "
            f"declared; {STATIC_SHARED_BYTES} can be declared, and a block on {target} has at most "
            f"{target.max_shared_bytes}: use several workers",
            capability="shared_memory",
        )
    lines = [f".version {target.version[0]}.{target.version[1]}", f".target {target}", ".address_size 64", ""]
    if dynamic:
        lines += [dynamic_shared_line(), ""]
    lines += [line for kernel in kernels for line in kernel.tables]
    return LoweredWorker("\n".join([*lines, *entry, ""]), threads, dynamic, static, call_bytes)


def threads_of(programs: Sequence[Program]) -> int:
    """The threads of a worker's block."""
    return max(WARP, *map(_threads, programs))


def _threads(program: Program) -> int:
    return program.block[0] * program.block[1] * program.block[2]


class _Kernel:
    """One kernel as instructions of the worker."""

    def __init__(self, number: int, part: Part, threads: int, target: Target) -> None:
        program = part.program
        resident = Resident(number, program.block, threads)
        body = body_of(part, target, f"w{number}", resident, "worker")
        _check_block(program, threads, meets=_meets(body.lowering))
        self.lines = resident.lines(body.lines, part.lowered.parameter_bytes, shares=bool(program.shared))
        self.tables = body.tables
        self.dynamic_shared_bytes = body.dynamic_shared_bytes
        self.static_shared_bytes = body.static_shared_bytes


def _meets(lowering: Lowering) -> bool:
    """Whether threads wait for others, of their block or of their warp."""
    function = lowering.builder.function
    if lowering.memory.shared_bytes:
        return True
    barriers = any(not isinstance(item, int) and item[0] == "barrier" for item in function.code)
    return barriers or any(op.startswith(OF_WARP) for op in function.ops)


def _check_block(program: Program, threads: int, *, meets: bool) -> None:
    own = _threads(program)
    if own != threads and own % WARP and meets:
        raise UnsupportedError(
            f"a worker with blocks of {threads} threads cannot run {program.name}, whose threads wait for each other "
            f"in blocks of {own}, which is not a multiple of {WARP}: give it a worker of its own or another block",
            capability="worker",
        )
