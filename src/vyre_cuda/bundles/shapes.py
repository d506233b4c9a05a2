"""The sizes of outs and the work of a program as steps that a reader in C evaluates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from vyre_cuda.descriptors.signature import Step, steps_of
from vyre_cuda.errors import UnsupportedError
from vyre_cuda.ir.call.walked import work_of
from vyre_cuda.ir.core.nodes import Apply, Const, Expr, Parameter, Scalar, Size, elements, extent_name, extent_names
from vyre_cuda.ir.core.ops import HOST_OPS, OPS
from vyre_cuda.ir.core.program import Program, primary_buffer
from vyre_cuda.ir.core.walk import expressions

_CAST = OPS["cast"].code
_MOST_STEPS = 256
_MOST_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """`sizes`: (parameter number, steps) of what declarations say, those that others need first: the size of an out,
    the size that an argument must have, and an extent, whose number follows those of the parameters. A buffer with
    several axes has the size of its extents, which a host passes apart from it, also where it declares none of them.
    `work`: steps of each axis, () if each call passes its grid."""

    sizes: tuple[tuple[int, tuple[Step, ...]], ...]
    work: tuple[tuple[Step, ...], ...]


def shape(program: Program) -> Shape:
    """The shape. UnsupportedError if a size or the work uses an op that only the interpreter evaluates."""
    numbers = {p.name: i for i, p in enumerate(program.parameters)}
    pending = {p.name: p for p in program.parameters if p.declared or p.shape}
    sizes: list[tuple[int, tuple[Step, ...]]] = []
    while pending:
        sizes += _declared(program, numbers, pending.pop(_ready(pending)))
    return Shape(tuple(sizes), _work(program))


def _ready(pending: Mapping[str, Parameter]) -> str:
    """A buffer whose declaration needs no pending one. In a circle, an out: a call brings the sizes of the others."""
    for name, parameter in pending.items():
        if not _named(parameter.declared) & (pending.keys() - {name}):
            return name
    outs = {name: p for name, p in pending.items() if p.kind == "out"}
    return next((name for name, p in outs.items() if not _named(p.declared) & outs.keys()), next(iter(pending)))


def _declared(
    program: Program, numbers: Mapping[str, int], parameter: Parameter
) -> Iterator[tuple[int, tuple[Step, ...]]]:
    """The extents that a buffer declares, and its size; with several axes that is their product in any case."""
    name = parameter.name
    extents = extent_names(program.parameters)
    for axis, extent in enumerate(parameter.shape):
        if extent is not None:
            number = len(program.parameters) + extents.index(extent_name(name, axis))
            yield number, _checked(program, f"the shape of {name}", extent)
    extents_of = tuple([Size(program.index, name, axis=axis) for axis in range(len(parameter.shape))])
    size = elements(extents_of) if parameter.shape else parameter.size
    if size is not None:
        yield numbers[name], _checked(program, f"the size of {name}", size)


def _work(program: Program) -> tuple[tuple[Step, ...], ...]:
    axes = max((axis + 1 for axis in range(3) if program.block[axis] > 1), default=1)
    if program.work is not None:
        work = tuple(_checked(program, "the work", expr) for expr in program.work)
        return work if len(work) >= axes else ()
    primary = primary_buffer(program)
    if primary is None or axes > 1:
        return ()
    return (_checked(program, "the work", work_of(program, primary), named=False),)


def _named(declared: Iterable[Expr]) -> set[str]:
    return {part.buffer for part in expressions(declared) if isinstance(part, Size)}


def _checked(program: Program, what: str, expr: Expr, *, named: bool = True) -> tuple[Step, ...]:
    """The steps of what is declared or, unless it is `named`, of work that follows from the first result."""
    steps = steps_of(program, expr)
    if steps is None:
        raise UnsupportedError(
            f"{what} of program {program.name} uses {_unknown(expr)}; sizes in a bundle are integers computed with "
            f"{', '.join(HOST_OPS)}",
            capability="host_expression",
        )
    if len(steps) > _MOST_STEPS or _depth(steps) > _MOST_DEPTH:
        way_out = "" if named else "; name the work with vc.work (b.work of a Builder)"
        raise UnsupportedError(
            f"{what} of program {program.name} needs {len(steps)} steps and {_depth(steps)} values at once; a bundle "
            f"allows at most {_MOST_STEPS} and {_MOST_DEPTH}{way_out}",
            capability="host_expression",
        )
    return steps


def _unknown(expr: Expr) -> str:
    for part in expressions([expr]):
        if isinstance(part, Apply) and part.op not in HOST_OPS:
            return part.op
        if isinstance(part, (Const, Scalar, Size, Apply)) and not part.type.is_integer:
            return str(part.type)
    return "an expression of another kind"


def _depth(steps: tuple[Step, ...]) -> int:
    deepest = depth = 0
    for op, _, _ in steps:
        depth += 1 if op < 0 else 0 if op == _CAST else -1
        deepest = max(deepest, depth)
    return deepest
