"""Minimax polynomials by the Remez exchange, and constants, in floats of a given rounding.

Each polynomial has the least largest weighted error; its coefficients are rounded from the lowest power on, and those
behind are found anew for what rounding left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mpmath import mp, mpf

GRID = 24  # points looked at for each coefficient
ROUNDS = 40

Real = Any  # mpf


@dataclass(frozen=True)
class Problem:
    """f on [low, high] as a sum of c * x^power; |error * weight| is to be least.

    `exact` gives leading coefficients that are not to be found, such as 1 for x of sin x.
    """

    name: str
    f: Callable[[Real], Real]
    weight: Callable[[Real], Real]
    low: Real
    high: Real
    powers: Sequence[int]
    exact: dict[int, Real] = field(default_factory=dict)


@dataclass(frozen=True)
class Constant:
    """A number as a sum of `parts` floats, each the rounding of what those before leave."""

    name: str
    value: Real
    parts: int = 2


@dataclass(frozen=True)
class Bits:
    """The first 32 * `words` bits of a number below 1, as words."""

    name: str
    value: Real
    words: int


def remez(g: Callable[[Real], Real], problem: Problem, powers: Sequence[int]) -> tuple[list[Real], Real]:
    """Coefficients of these powers for g with the weight of the problem, and the largest error."""
    count = len(powers)
    low, high = mpf(problem.low), mpf(problem.high)
    size = GRID * (count + 1) // 2 * 2  # even: no point at the middle, where a power may be 0
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * k / (size - 1)) for k in range(size)]
    # Divided by the lowest power, so that sums of the others take any values at any `count` points.
    lowest = min(powers) if low < 0 < high else 0
    values, weights = [g(x) / x**lowest for x in grid], [problem.weight(x) * abs(x) ** lowest for x in grid]
    bases = [[x ** (power - lowest) for power in powers] for x in grid]
    chosen = [round(k * (size - 1) / count) for k in range(count + 1)]
    best: tuple[list[Real], Real] = ([], mp.inf)
    for _ in range(ROUNDS):
        rows = [[*bases[at], (-1) ** k / weights[at]] for k, at in enumerate(chosen)]
        solved = mp.lu_solve(mp.matrix(rows), mp.matrix([values[at] for at in chosen]))
        coefficients, level = list(solved[:count]), abs(solved[count])
        errors = [
            (values[at] - mp.fsum(c * b for c, b in zip(coefficients, bases[at], strict=True))) * weights[at]
            for at in range(size)
        ]
        largest = max(abs(error) for error in errors)
        if largest < best[1]:
            best = (coefficients, largest)
        if largest <= level * mpf("1.0005"):
            break
        chosen = _extremes(errors, count + 1)
    return best


def _extremes(errors: list[Real], count: int) -> list[int]:
    """Places where the error is largest between changes of its sign, `count` neighbors among them with the largest."""
    runs: list[int] = []
    for at, error in enumerate(errors):
        if runs and (errors[runs[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[runs[-1]]):
                runs[-1] = at
        else:
            runs.append(at)
    while len(runs) > count:
        if len(runs) == count + 1 or abs(errors[runs[0]]) < abs(errors[runs[-1]]):
            runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
        else:
            runs.pop()
    if len(runs) < count:  # fewer changes of sign than the theory wants: fill up evenly
        missing = [at for at in range(0, len(errors), max(1, len(errors) // (2 * count))) if at not in runs]
        runs = sorted([*runs, *missing[: count - len(runs)]])
    return runs


def solve(problem: Problem, rounded: Callable[[Real], float]) -> tuple[list[float], Real]:
    """The coefficients as floats in the order of the powers, and the largest weighted error of the polynomial."""
    fixed: dict[int, float] = {power: rounded(value) for power, value in problem.exact.items()}
    error = mpf(0)
    for power in problem.powers:
        if power in fixed:
            continue
        rest = [p for p in problem.powers if p not in fixed]
        done = dict(fixed)

        def left(x: Real, done: dict[int, float] = done) -> Real:
            return problem.f(x) - mp.fsum(mpf(c) * x**p for p, c in done.items())

        coefficients, error = remez(left, problem, rest)
        fixed[power] = rounded(coefficients[0])
    return [fixed[power] for power in problem.powers], error


def split(constant: Constant, rounded: Callable[[Real], float]) -> list[float]:
    """The parts of a constant."""
    found: list[float] = []
    for _ in range(constant.parts):
        found.append(rounded(constant.value - mp.fsum(found)))
    return found
