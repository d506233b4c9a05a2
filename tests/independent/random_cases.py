"""What is run: a program with options and what it must give, drawn by kind from a seed.

The number of a case and the base seed of a run give the case again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from draw_bounded import draw_bounded
from draw_folding import draw_folding
from draw_general import draw_general
from draw_large import LargeCase, draw_large
from draw_lockstep import draw_lockstep
from draw_streams import StreamCase, draw_streams
from draw_wide import draw_wide
from number_formats import TYPES
from oracle import Oracle, Outcome
from oracle_bounds import Allowed, BoundedOracle
from oracle_lockstep import TOGETHER, LockstepOracle
from program_tree import Program, statements


@dataclass(slots=True)
class Case:
    """One call. `wanted` is what it gives, or `allowed` what it may; without both, ways to run it are compared."""

    kind: str
    program: Program
    options: dict[str, Any] = field(default_factory=dict)
    wanted: Outcome | None = None
    allowed: dict[str, list[Allowed]] | None = None


AnyCase = Case | StreamCase | LargeCase


def is_lockstep(program: Program) -> bool:
    return any(statement.kind in TOGETHER for statement in statements(program.body))


def expected(program: Program, options: dict[str, Any]) -> Outcome:
    """What the oracle says. Raises OutOfFuel."""
    flushes = options.get("precision") == "ftz"
    if is_lockstep(program):
        return LockstepOracle(program, flushes=flushes).run()
    return Oracle(program, flushes=flushes, traps=options.get("bounds") == "trap").run()


def checked(kind: str, program: Program, options: dict[str, Any]) -> Case:
    """The case of a program, with what it must give. Raises OutOfFuel."""
    if kind == "functions":
        return Case(kind, program, options)
    if kind == "bounded":
        return Case(kind, program, options, allowed=BoundedOracle(program, options).run())
    return Case(kind, program, options, expected(program, options))


def _with_bounds(rng: random.Random, kind: str, program: Program) -> Case:
    """Mostly as it is; with traps; without tests where nothing is out of bounds."""
    choice = rng.random()
    if choice < 0.1 and not is_lockstep(program) and not program.is_shaped:
        return checked(kind, program, {"bounds": "trap"})
    case = checked(kind, program, {})
    if choice > 0.75 and case.wanted is not None and not case.wanted.is_missed:
        case.options = {"bounds": "off"}
    return case


def _general(rng: random.Random) -> Case:
    return _with_bounds(rng, "general", draw_general(rng))


def _asserts(rng: random.Random) -> Case:
    return _with_bounds(rng, "asserts", draw_general(rng, asserts=True))


def _contended(rng: random.Random) -> Case:
    return _with_bounds(rng, "contended", draw_general(rng, alone=False, contended=True))


def _folding(rng: random.Random) -> Case:
    return checked("folding", draw_folding(rng), {"bounds": "trap"} if rng.random() < 0.1 else {})


def _lockstep(rng: random.Random) -> Case:
    return _with_bounds(rng, "lockstep", draw_lockstep(rng))


def _grid(rng: random.Random) -> Case:
    return _with_bounds(rng, "grid", draw_lockstep(rng, grid=True))


# f32 often, as nothing else differs.
_FTZ_TYPES = ("f32",) * 8 + TYPES


def _ftz(rng: random.Random) -> Case:
    draw = draw_folding if rng.random() < 0.5 else draw_general
    program = draw(rng, types=_FTZ_TYPES)
    for statement in statements(program.body):
        # Their subnormals are the hardware's affair, but in sums.
        if (
            statement.kind == "atomic"
            and statement.exprs[-1].type == "f32"
            and statement.detail[0][:3] in ("min", "max")
        ):
            statement.detail = ("exchange", *statement.detail[1:])
    return checked("ftz", program, {"precision": "ftz"})


_BOUNDED_OPTIONS: tuple[dict[str, Any], ...] = (
    *({}, {"precision": "fast"}, {"precision": "fast"}, {"precision": "fast", "max_ulp": 2.0}),
    *({"precision": "fast", "max_ulp": 5.0}, {"precision": "ftz", "max_ulp": 4.0}, {"max_ulp": 2.5}, {"max_ulp": 8.0}),
)


def _bounded(rng: random.Random) -> Case:
    return checked("bounded", draw_bounded(rng), dict(rng.choice(_BOUNDED_OPTIONS)))


def _functions(rng: random.Random) -> Case:
    return checked("functions", draw_general(rng, functions=True), {})


def _wide(rng: random.Random) -> Case:
    return checked("wide", draw_wide(rng), {})


Draw = Callable[[random.Random], AnyCase]
KINDS: dict[str, tuple[float, Draw]] = {
    "general": (30, _general),
    "asserts": (8, _asserts),
    "contended": (6, _contended),
    "folding": (28, _folding),
    "lockstep": (8, _lockstep),
    "grid": (3, _grid),
    "ftz": (7, _ftz),
    "bounded": (5, _bounded),
    "functions": (5, _functions),
    "streams": (4, draw_streams),
    "wide": (8, _wide),
    "large": (0.02, draw_large),
}
PROFILES: dict[str, tuple[str, ...]] = {"all": tuple(KINDS), **{name: (name,) for name in KINDS}}


def draw_case(profile: str, seed: int, number: int) -> AnyCase:
    """The case of a number. Raises OutOfFuel for a program that would run too long."""
    rng = random.Random(f"{seed}/{number}")
    kinds = PROFILES[profile]
    (kind,) = rng.choices(kinds, [KINDS[name][0] for name in kinds])
    return KINDS[kind][1](rng)
