"""Several kernels as one entry that does many launches of each: a block finds its row of the table (`emit.rows`), and
runs the kernel that the row is of. All threads of a block take the same branch."""

from __future__ import annotations

from collections.abc import Sequence

from vyre_cuda.codegen.core.target import STATIC_SHARED_BYTES, Target
from vyre_cuda.codegen.emit.rows import Rows
from vyre_cuda.codegen.emit.text import dynamic_shared_line
from vyre_cuda.codegen.parts import Part, body_of
from vyre_cuda.errors import UnsupportedError
from vyre_cuda.records import FrozenRecord

ENTRY = "vyre_tables"
MOST_KERNELS = 16  # of one entry; the C layer has the same number
CAPABILITY = "tables"


class LoweredTables(FrozenRecord):
    """The text, and the shared memory that a launch requests."""

    ptx: str
    dynamic_shared_bytes: int


def lower_tables(parts: Sequence[Part], target: Target, *, arrays: int = 0) -> LoweredTables:
    """The entry of kernels with the same block, which are numbered in this order, with so many arrays of its own.
    UnsupportedError: it would use more shared memory than there is."""
    rows = Rows(max(part.lowered.parameter_bytes for part in parts), kernels=len(parts), arrays=arrays)
    bodies = [body_of(part, target, f"k{number}", rows, CAPABILITY) for number, part in enumerate(parts)]
    static = sum(body.static_shared_bytes for body in bodies)
    dynamic = max(body.dynamic_shared_bytes for body in bodies)
    if static > STATIC_SHARED_BYTES or static + dynamic > target.max_shared_bytes:
        raise UnsupportedError(
            f"the kernels use {static + dynamic} bytes of shared memory together, more than one has",
            capability=CAPABILITY,
        )
    lines = [f".version {target.version[0]}.{target.version[1]}", f".target {target}", ".address_size 64", ""]
    if dynamic:
        lines += [dynamic_shared_line(), ""]
    lines += [line for body in bodies for line in body.tables]
    x, y, z = parts[0].program.block
    declared = ",\n".join(f"  .param .{word} {name}" for name, word in rows.parameters)
    lines += [f".visible .entry {ENTRY}(\n{declared}\n)", f".reqntid {x}, {y}, {z}", "{"]
    lines += [*rows.registers(), *rows.find(), *rows.kernels([body.lines for body in bodies]), *rows.others(), "}"]
    return LoweredTables("\n".join([*lines, ""]), dynamic)
