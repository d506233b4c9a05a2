"""The result of lowering a program as bytes, for a cache; the text is stored separately.

A fact is a line: its kind, then its words, separated by tabs. Names contain no tab; messages may, and are in hex.
It is not JSON, because importing `json` would take a tenth of a process's start.

What is read back fits its program, or raises ValueError: sources and types are the program's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, get_args

from vyre_cuda.codegen.core.lowered import (
    Access,
    Cover,
    KernelParameter,
    Lowered,
    ParameterKind,
    Several,
    Site,
    SiteKind,
)
from vyre_cuda.ir.core import walk
from vyre_cuda.ir.core.nodes import extent_names
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import BY_NAME

_PARAMETER_KINDS: tuple[ParameterKind, ...] = get_args(ParameterKind)
# Not "race", which needs the text of the run.
_SITE_KINDS: tuple[SiteKind, ...] = ("assert", "bounds")
_KINDS = ("kernel", "parameter", "access", "covered", "aligned", "site")
_FLAGS = {"0": False, "1": True}

T = TypeVar("T")
Words = list[str]


def encode(lowered: Lowered) -> bytes:
    """Everything except the text."""
    sizes = (lowered.parameter_bytes, lowered.shared_bytes, lowered.dynamic_shared_bytes)
    flags = (int(lowered.cooperative), int(lowered.prints))
    facts: list[tuple[str | int, ...]] = [("kernel", lowered.entry, *sizes, *flags)]
    for p in lowered.parameters:
        facts.append(("parameter", p.kind, p.name, "" if p.type is None else p.type.name, p.offset, p.size))
    for name, a in lowered.access.items():
        facts.append(("access", name, int(a.loads), int(a.stores), int(a.atomics), int(a.streaming), a.sectors))
    facts += (("covered", name, int(c.loops), *c.elements) for name, c in lowered.covered.items())
    facts += (("aligned", name, size) for name, size in lowered.aligned)
    for site in lowered.sites:
        message = site.message.encode("utf-8", "surrogatepass").hex()
        facts.append(("site", site.kind, message, site.buffer, site.statement))
    return _lines(facts)


def decode(data: bytes, ptx: bytes, program: Program) -> Lowered:
    """The argument of `encode`, for an equal program. ValueError for anything else."""
    try:
        return _lowered(_facts(data, _KINDS), ptx.decode("ascii"), program)
    except KeyError as error:
        raise ValueError(f"malformed record of a lowering: {error!r}") from None


def encode_several(several: Several) -> bytes:
    """Everything of a text for large launches except the text itself."""
    facts: list[tuple[str | int, ...]] = [("several", several.entry, several.elements, several.threads)]
    facts += (("near", name, size) for name, size in several.aligned)
    return _lines(facts)


def decode_several(data: bytes, ptx: bytes, program: Program) -> Several:
    """The argument of `encode_several`, for an equal program. ValueError for anything else."""
    try:
        facts = _facts(data, ("several", "near"))
    except KeyError as error:
        raise ValueError(f"malformed record of a text for large launches: {error!r}") from None
    ((entry, elements, threads),) = facts["several"]
    near = _aligned(facts["near"])
    if not set(dict(near)) <= {p.name for p in program.parameters if p.is_buffer}:
        raise ValueError("the buffers are not those of the program")
    return Several(ptx.decode("ascii"), entry, _number(elements), _number(threads), near)


def _lines(facts: Sequence[tuple[str | int, ...]]) -> bytes:
    return "\n".join("\t".join(map(str, fact)) for fact in facts).encode("ascii")


def _facts(data: bytes, kinds: tuple[str, ...]) -> dict[str, list[Words]]:
    """The words of each line by their kind. KeyError: a kind that is not among these."""
    facts: dict[str, list[Words]] = {kind: [] for kind in kinds}
    for line in data.decode("ascii").split("\n"):
        kind, *words = line.split("\t")
        facts[kind].append(words)
    return facts


def _lowered(facts: dict[str, list[Words]], ptx: str, program: Program) -> Lowered:
    ((entry, *sizes, cooperative, prints),) = facts["kernel"]
    parameter_bytes, shared_bytes, dynamic_shared_bytes = map(_number, sizes)
    buffers = [p.name for p in program.parameters if p.is_buffer]
    access = {name: row for name, *row in facts["access"]}
    covered = {name: _cover(row) for name, *row in facts["covered"]}
    parameters = tuple(_parameter(row) for row in facts["parameter"])
    declared = [p.name for p in parameters if p.kind in ("buffer", "scalar")]
    sized = {p.name for p in parameters if p.kind == "size"}
    extents = {p.name for p in parameters if p.kind == "extent"}
    aligned = _aligned(facts["aligned"])
    named = sized.union(covered, dict(aligned))
    fits = named <= set(buffers) and extents <= set(extent_names(program.parameters))
    if declared != [p.name for p in program.parameters] or not fits:
        raise ValueError("the parameters are not those of the program")
    return Lowered(
        ptx=ptx,
        entry=entry,
        parameters=parameters,
        parameter_bytes=parameter_bytes,
        shared_bytes=shared_bytes,
        dynamic_shared_bytes=dynamic_shared_bytes,
        access={name: _access(access[name]) for name in buffers},
        covered=covered,
        sites=_sites(facts["site"], program),
        cooperative=_FLAGS[cooperative],
        prints=_FLAGS[prints],
        aligned=aligned,
    )


def _aligned(rows: list[Words]) -> tuple[tuple[str, int], ...]:
    return tuple([(name, _number(size)) for name, size in rows])


def _access(row: Words) -> Access:
    *uses, sectors = row
    loads, stores, atomics, streaming = (_FLAGS[use] for use in uses)
    return Access(loads, stores, atomics, streaming, _number(sectors))


def _cover(row: Words) -> Cover:
    loops, first, *others = row
    return Cover((_number(first), *map(_number, others)), _FLAGS[loops])


def _parameter(row: Words) -> KernelParameter:
    kind, name, type_name, offset, size = row
    return KernelParameter(
        kind=_among(_PARAMETER_KINDS, kind),
        name=name,
        type=BY_NAME[type_name] if type_name else None,
        offset=_number(offset),
        size=_number(size),
    )


def _sites(rows: list[Words], program: Program) -> tuple[Site, ...]:
    if not rows:
        return ()
    statements = list(walk.statements(program.body))
    sites = []
    for kind, message, buffer, word in rows:
        number = _number(word)
        if number >= len(statements):
            raise ValueError("it names a statement that the program does not have")
        text = bytes.fromhex(message).decode("utf-8", "surrogatepass")
        sites.append(Site(_among(_SITE_KINDS, kind), text, buffer, number, statements[number].source))
    return tuple(sites)


def _number(word: str) -> int:
    """A number of bytes or of a statement."""
    number = int(word)
    if not 0 <= number < 1 << 31:
        raise ValueError(f"{number} is out of range")
    return number


def _among(known: Sequence[T], word: str) -> T:
    """The one that equals the word."""
    return known[known.index(word)]
