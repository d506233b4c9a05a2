"""Program -> PTX.

The program is already valid; nothing is checked again. The same program, target and options give the same
text. The result includes what a host must know to launch it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from vyre_cuda.codegen.core.lowered import KernelParameter, Lowered
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.emit.text import entry_name, kernel_text, lay_out_parameters, used_parameters
from vyre_cuda.codegen.forms.precision import PRECISIONS
from vyre_cuda.codegen.lowering.access import access_facts
from vyre_cuda.codegen.lowering.statements import Lowering
from vyre_cuda.codegen.ssa.ssa import liveness
from vyre_cuda.errors import UnsupportedError, type_name
from vyre_cuda.ir.core import walk
from vyre_cuda.ir.core.nodes import GridBarrier, Size
from vyre_cuda.ir.core.program import Program, primary_buffer
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.codegen.emit import coalesce, verify
    from vyre_cuda.codegen.emit import rows as many_rows
    from vyre_cuda.codegen.lowering.isel_memory import Memory
    from vyre_cuda.codegen.vectors import forms
else:
    coalesce, verify = later("vyre_cuda.codegen.emit.coalesce"), later("vyre_cuda.codegen.emit.verify")
    many_rows, forms = later("vyre_cuda.codegen.emit.rows"), later("vyre_cuda.codegen.vectors.forms")

BOUNDS = ("check", "off", "trap")
_ONE_ROUNDING = 0.5  # ULP
# The pragma of a check that the emulator makes, and the hidden parameters that it names.
_PRAGMAS = {"race": ("vyre_races", "report", "grid_barrier"), "unwritten": ("vyre_initialized", "report")}


def lower(
    program: Program,
    target: Target,
    *,
    precision: str = "ieee",
    bounds: str = "check",
    debug: bool = False,
    races: bool = False,
    initialized: bool = False,
    max_ulp: float | None = None,
    fixed_block: bool = True,
    large: bool = False,
    many: Lowered | None = None,
) -> Lowered:
    """The kernel of a valid program for a target.

    A comment says which statement the instructions after it belong to; those of a let that is a sum may be with the
    statement that needs it. `races` makes the emulator look for data races,
    `initialized` for elements of results that are read or returned before they are written.
    `debug` adds a comment with values and source lines to each instruction and verifies the values. `max_ulp`
    lets each op use the cheapest form whose error is bounded by this many ULP. Without `fixed_block` the text does not
    say how many threads a block has, so that the driver can tell how many would fit. With `large` the kernel has the
    parameters that an entry for large launches needs (`several.py`). With `many`, the text is that of
    an entry that does many launches of that kernel in one (`emit.rows`), whose parameters each of them has. ValueError
    for an option's unknown word and a `max_ulp` below 1/2, UnsupportedError for a target that is too small and a
    `max_ulp` below the bound of every form of an op.
    """
    check_options(precision, bounds, max_ulp)
    lowering = Lowering(
        program,
        target,
        precision=precision,
        bounds=bounds,
        debug=debug,
        races=races,
        initialized=initialized,
        max_ulp=max_ulp,
    )
    lowering.run()
    of_work = _sizes_of_work(program, lowering.memory) if large else set()
    covered = lowering.coverage.covers()
    memory, function, linear = lowering.memory, lowering.builder.function, lowering.coverage.linear
    access = access_facts(linear, memory, program, lowering.coverage.thread)
    aligned = {}
    if memory.has_many() and not (races or initialized):
        aligned = forms.with_vectors(lowering.builder, memory, linear)
    if memory.shared_bytes > target.max_shared_bytes:
        raise UnsupportedError(
            f"program {program.name} uses {memory.shared_bytes} bytes of shared "
            f"memory; a block on {target} has at most "
            f"{target.max_shared_bytes}",
            capability="shared_memory",
        )
    if debug:
        verify.verify(function, target)
    live = liveness(function)
    if function.registers:
        coalesce.coalesce(function, live[0])
    cooperative = GridBarrier in set(map(type, lowering.sites.statements))
    hidden = [("report", lowering.sites.reports), ("grid_barrier", cooperative)]
    used = used_parameters(function, live[0]) | of_work
    if many is None:
        hidden_names = tuple(name for name, wanted in hidden if wanted)
        parameters, parameter_bytes = lay_out_parameters(program, used, hidden_names)
    else:
        parameters, parameter_bytes = parameters_of(many, used, "rows")
    declared = target.for_parameters(parameter_bytes)
    sites = lowering.sites.all()
    rows, entry = None, entry_name(program)
    hidden_at: dict[str, int] = {p.kind: p.offset for p in parameters}
    if many is not None:
        rows = many_rows.Rows(parameter_bytes, reports=lowering.sites.reports)
        entry, hidden_at = many_rows.rows_entry(entry), {"report": many_rows.REPORT_AT}
    pragmas = [_pragma(_PRAGMAS[site.kind], n, hidden_at) for n, site in enumerate(sites) if site.kind in _PRAGMAS]
    text = kernel_text(
        program,
        declared,
        function,
        live,
        memory,
        parameters,
        printed=lowering.printed(),
        debug=debug,
        pragmas=pragmas,
        fixed_block=fixed_block,
        rows=rows,
        entry=entry,
    )
    return Lowered(
        ptx=text,
        entry=entry,
        parameters=parameters,
        parameter_bytes=parameter_bytes,
        shared_bytes=memory.shared_bytes,
        dynamic_shared_bytes=memory.dynamic_shared_bytes,
        access=access,
        covered=MappingProxyType(covered),
        sites=sites,
        cooperative=cooperative,
        prints=bool(lowering.printed()[0]),
        aligned=tuple(aligned.items()),
    )


def _sizes_of_work(program: Program, memory: Memory) -> set[object]:
    """The sizes that say how many threads there are along one axis: an entry for large launches compares with them."""
    primary = primary_buffer(program)
    if program.work is not None:
        work = program.work if len(program.work) == 1 else ()
    else:
        work = () if primary is None else (Size(program.index, primary.name),)
    function = memory.builder.function
    named = [e for e in walk.expressions(work) if isinstance(e, Size)]
    values = [memory.size(e.buffer) if e.axis is None else memory.extent(e.buffer, e.axis) for e in named]
    return {function.attrs[value] for value in values if function.ops[value] == "parameter"}


def parameters_of(kernel: Lowered, used: set[object], what: str) -> tuple[tuple[KernelParameter, ...], int]:
    """Those of a kernel, for another of its entries, which is for `what`. UnsupportedError: it needs more of them."""
    if not used <= {(p.kind, p.name) for p in kernel.parameters}:
        raise UnsupportedError(
            f"the kernel does not have all parameters that an entry for {what} needs", capability=what
        )
    return kernel.parameters, kernel.parameter_bytes


def _pragma(what: tuple[str, ...], site: int, hidden_at: Mapping[str, int]) -> str:
    """What the emulator must know: the site that represents a check, and where hidden parameters are."""
    name, *kinds = what
    offsets = [str(hidden_at[kind]) for kind in kinds if kind in hidden_at]
    return " ".join([name, str(site), *offsets])


def check_options(precision: str, bounds: str, max_ulp: float | None) -> None:
    """ValueError for an option's unknown word and a `max_ulp` that no op can have."""
    _check_option("precision", precision, PRECISIONS)
    _check_option("bounds", bounds, BOUNDS)
    if max_ulp is not None and (isinstance(max_ulp, bool) or not isinstance(max_ulp, (int, float))):
        raise TypeError(f"max_ulp= is {type_name(max_ulp)}; it must be a number of ULP, or None")
    if max_ulp is not None and max_ulp != max_ulp:
        raise ValueError("max_ulp is NaN; it must be a number of ULP, or None")
    if max_ulp is not None and not max_ulp >= _ONE_ROUNDING:
        raise ValueError(f"max_ulp={max_ulp!r} is too small; a single rounding is already off by {_ONE_ROUNDING} ULP")


def _check_option(option: str, word: str, words: tuple[str, ...]) -> None:
    if not isinstance(word, str) or word not in words:
        raise ValueError(f"{option}={word!r}; it must be one of {', '.join(words)}")
