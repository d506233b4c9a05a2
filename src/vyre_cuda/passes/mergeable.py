"""What launches and programs can never be merged, and how large a kernel may be."""

from __future__ import annotations

from collections.abc import Sequence

from vyre_cuda.ir.call.geometry import Geometry
from vyre_cuda.ir.core.nodes import Assert, Barrier, GridBarrier, Print, Warp
from vyre_cuda.ir.core.walk import statements
from vyre_cuda.passes.facts import facts_of
from vyre_cuda.passes.steps import Kind, Refused, Step

# A kernel of more takes long to compile, and needs many registers.
MOST_OPS = 2000
_REFUSED = {
    Assert: "an assertion",
    Barrier: "a barrier",
    GridBarrier: "a barrier of the grid",
    Warp: "a warp operation",
    Print: "a print",
}


def check_launches(steps: Sequence[Step]) -> None:
    """Refuse what can never be merged."""
    check_programs(steps)
    first = steps[0]
    for step in steps:
        here, there = step.geometry, first.geometry
        if (here.grid, here.block) != (there.grid, there.block):
            raise Refused(
                f"{step.program.name} has {blocks_of(here)} of {_extents(here.block)} threads, {first.program.name} "
                f"{_extents(there.grid)} of {_extents(there.block)}",
                Kind.LAUNCH,
            )


def check_programs(steps: Sequence[Step], *, barriers: bool = False) -> None:
    """The same, whatever the launches; with `barriers` the programs may have some."""
    first = steps[0]
    for step in steps:
        name = step.program.name
        if step.options != first.options:
            raise Refused(f"{name} is compiled with other options than {first.program.name}", Kind.OPTIONS)
        if step.options.bounds == "trap":
            raise Refused(f'{name} is compiled with bounds="trap", which names the failing thread', Kind.OPTIONS)
        if step.program.index is not first.program.index:
            raise Refused(f"{name} has {step.program.index} indices, not {first.program.index}", Kind.LAUNCH)
        if step.program.shared:
            raise Refused(f"{name} has shared arrays", Kind.STATEMENT)
        if facts_of(step.program).kinds.isdisjoint(_REFUSED):
            continue
        for statement in statements(step.program.body):
            if type(statement) in _REFUSED and not (barriers and isinstance(statement, Barrier)):
                raise Refused(f"{name} has {_REFUSED[type(statement)]}", Kind.STATEMENT)


def blocks_of(geometry: Geometry) -> str:
    return "1 block" if geometry.blocks == 1 else f"{_extents(geometry.grid)} blocks"


def _extents(axes: Sequence[int]) -> str:
    while len(axes) > 1 and axes[-1] == 1:
        axes = axes[:-1]
    return " x ".join(map(str, axes))
