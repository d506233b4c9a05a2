"""The result of lowering a program as bytes, for a cache; the text is stored separately.

What is read back fits its program, or raises ValueError: sources and types are the program's own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar, get_args

from vyre_cuda.codegen.core.lowered import Access, KernelParameter, Lowered, ParameterKind, Site, SiteKind
from vyre_cuda.ir.core import walk
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import BY_NAME

_PARAMETER_KINDS: tuple[ParameterKind, ...] = get_args(ParameterKind)
# Not "race", which needs the text of the run.
_SITE_KINDS: tuple[SiteKind, ...] = ("assert", "bounds")

T = TypeVar("T")


def encode(lowered: Lowered) -> bytes:
    """Everything except the text."""
    facts = {
        "entry": lowered.entry,
        "parameters": [
            [p.kind, p.name, None if p.type is None else p.type.name, p.offset, p.size] for p in lowered.parameters
        ],
        "parameter_bytes": lowered.parameter_bytes,
        "shared_bytes": lowered.shared_bytes,
        "dynamic_shared_bytes": lowered.dynamic_shared_bytes,
        "access": {name: [a.loads, a.stores, a.atomics, a.streaming, a.sectors] for name, a in lowered.access.items()},
        "covered": list(lowered.covered),
        "sites": [[site.kind, site.message, site.buffer, site.statement] for site in lowered.sites],
        "cooperative": lowered.cooperative,
    }
    return json.dumps(facts, separators=(",", ":")).encode("ascii")


def decode(data: bytes, ptx: bytes, program: Program) -> Lowered:
    """The argument of `encode`, for an equal program. ValueError for anything else."""
    try:
        facts = json.loads(data)
        return _lowered(facts, ptx.decode("ascii"), program)
    except (KeyError, TypeError, IndexError, RecursionError) as error:
        raise ValueError(f"malformed record of a lowering: {error!r}") from None


def _lowered(facts: Any, ptx: str, program: Program) -> Lowered:
    buffers = [p.name for p in program.parameters if p.is_buffer]
    access = {name: _access(_one(list, facts["access"][name])) for name in buffers}
    covered = tuple(_all(str, facts["covered"]))
    parameters = tuple(_parameter(row) for row in _one(list, facts["parameters"]))
    declared = [p.name for p in parameters if p.kind in ("buffer", "scalar")]
    sized = {p.name for p in parameters if p.kind == "size"}
    if declared != [p.name for p in program.parameters] or not sized.union(covered) <= set(buffers):
        raise ValueError("the parameters are not those of the program")
    return Lowered(
        ptx=ptx,
        entry=_one(str, facts["entry"]),
        parameters=parameters,
        parameter_bytes=_number(facts["parameter_bytes"]),
        shared_bytes=_number(facts["shared_bytes"]),
        dynamic_shared_bytes=_number(facts["dynamic_shared_bytes"]),
        access=access,
        covered=covered,
        sites=_sites(_one(list, facts["sites"]), program),
        cooperative=_one(bool, facts["cooperative"]),
    )


def _access(row: list[Any]) -> Access:
    *uses, sectors = row
    loads, stores, atomics, streaming = _all(bool, uses)
    return Access(loads, stores, atomics, streaming, _number(sectors))


def _parameter(row: Any) -> KernelParameter:
    kind, name, type_name, offset, size = _one(list, row)
    return KernelParameter(
        kind=_among(_PARAMETER_KINDS, kind),
        name=_one(str, name),
        type=None if type_name is None else BY_NAME[type_name],
        offset=_number(offset),
        size=_number(size),
    )


def _sites(rows: list[Any], program: Program) -> tuple[Site, ...]:
    if not rows:
        return ()
    statements = list(walk.statements(program.body))
    sites = []
    for kind, message, buffer, number in rows:
        if _number(number) >= len(statements):
            raise ValueError("it names a statement that the program does not have")
        source = statements[number].source
        sites.append(Site(_among(_SITE_KINDS, kind), _one(str, message), _one(str, buffer), number, source))
    return tuple(sites)


def _one(type_: type[T], value: Any) -> T:
    """The value, which must have exactly this type."""
    if type(value) is not type_:
        raise ValueError(f"a {type(value).__name__}, not a {type_.__name__}")
    found: T = value
    return found


def _number(value: Any) -> int:
    """A number of bytes or of a statement."""
    if not 0 <= _one(int, value) < 1 << 31:
        raise ValueError(f"{value} is out of range")
    return int(value)


def _all(type_: type[T], values: Any) -> list[T]:
    return [_one(type_, value) for value in _one(list, values)]


def _among(known: Sequence[T], value: Any) -> T:
    """The one that equals the value."""
    return known[known.index(value)]
