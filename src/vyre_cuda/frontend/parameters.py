"""The parameters of a kernel function, from its annotations."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from vyre_cuda.errors import ProgramError
from vyre_cuda.frontend.annotations import BufferAnnotation, BufferMarker, Constant
from vyre_cuda.frontend.rewriting.syntax import refused
from vyre_cuda.frontend.source import FunctionSource, located
from vyre_cuda.ir.core.types import Type
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord, replace

if TYPE_CHECKING:
    from vyre_cuda.frontend import other_names
else:
    other_names = later("vyre_cuda.frontend.other_names")

Kind = Literal["in", "inout", "out", "scalar", "const"]
NO_DEFAULT = inspect.Parameter.empty
# What the parameters of a kernel may be annotated with.
ANY_ANNOTATION = "vc.In[type], vc.InOut[type], vc.Out[type], a type such as vc.f32, or vc.const"


class KernelParameter(FrozenRecord, eq=False):
    """One parameter; `type` is a TypeVar until a call or `program` gives it, None for a const."""

    name: str
    kind: Kind
    type: Type | TypeVar | None
    ndim: int = 1
    default: Any = NO_DEFAULT
    zeroed: bool = True  # of an out
    extents: tuple[str | int, ...] = ()  # of a buffer: a name or a number for each axis, or nothing

    @property
    def is_argument(self) -> bool:
        """Whether a call takes it."""
        return self.kind != "out"


def parameters_of(
    function: FunctionType,
    source: FunctionSource,
    local_names: Mapping[str, Any],
    *,
    zeroed: bool = True,
    choice: str = ANY_ANNOTATION,
) -> tuple[KernelParameter, ...]:
    """The parameters in declared order. ProgramError for one that a kernel cannot have.

    `zeroed` is about the outs; `choice` says what an annotation may be.
    """
    rows = inspect.signature(function).parameters.values()
    found = tuple(_parameter(row, function, source, local_names, choice) for row in rows)
    return found if zeroed else tuple(replace(p, zeroed=p.kind != "out") for p in found)


def _parameter(
    row: inspect.Parameter, function: FunctionType, source: FunctionSource, local_names: Mapping[str, Any], choice: str
) -> KernelParameter:
    if row.kind in (row.VAR_POSITIONAL, row.VAR_KEYWORD):
        raise wrong(source, function, row.name, "a kernel has a fixed number of parameters: name each")
    given = row.annotation
    if isinstance(given, str):
        given = evaluated(given, function, source, row.name, local_names)
    if isinstance(given, Constant):
        return KernelParameter(row.name, "const", None, default=row.default)
    if row.default is not NO_DEFAULT:
        message = "only a vc.const parameter can have a default: write vc.const, or pass it in each call"
        if choice is not ANY_ANNOTATION:
            message = "a number of a vectorized function has no default: pass it in each call"
        raise wrong(source, function, row.name, message)
    if isinstance(given, BufferAnnotation):
        return KernelParameter(row.name, given.kind, given.type, given.ndim, extents=given.extents)
    if isinstance(given, (Type, TypeVar)):
        return KernelParameter(row.name, "scalar", given)
    found = "has no annotation" if given is NO_DEFAULT else f"is annotated with {_shown(given)}"
    if row.name == "self":
        raise wrong(source, function, row.name, "a method is not a kernel: take self away, write @staticmethod above")
    raise wrong(source, function, row.name, f"{row.name} {found}: write {_likely(given, choice)}")


def _likely(given: Any, choice: str) -> str:
    """What to write instead of a wrong annotation."""
    instead = other_names.type_instead(given)
    if not instead or choice is not ANY_ANNOTATION:
        return instead or choice
    return f"{instead} for a number, vc.In[{instead.partition(' ')[0]}] for an array, or {choice}"


def _shown(given: Any) -> str:
    return f"{given!r} without a type" if isinstance(given, BufferMarker) else repr(given)


def evaluated(
    text: str, function: FunctionType, source: FunctionSource, name: str, local_names: Mapping[str, Any]
) -> Any:
    """An annotation that is text, as `from __future__ import annotations` makes it."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    closed = {each: cell.cell_contents for each, cell in cells if not _is_empty(cell)}
    try:
        return eval(text, function.__globals__, {**local_names, **closed})
    except (AttributeError, NameError, SyntaxError, TypeError) as error:
        said = error.diagnostics[0].message if isinstance(error, ProgramError) else error
        raise wrong(source, function, name, f"the annotation {text} of {name}: {said}") from None


def _is_empty(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False


def wrong(source: FunctionSource, function: FunctionType, name: str, message: str) -> ProgramError:
    """The error for one parameter."""
    tree = source.tree(function.__name__)
    given = tree.args
    rows = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    node: ast.AST = next((row for row in rows if row is not None and row.arg == name), tree)
    if node is tree:
        return located(message, source.filename, tree.lineno, tree.col_offset + 1, f"def {tree.name}(...)")
    return refused(source.filename, node, message)
