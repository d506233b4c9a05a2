"""Minimax polynomials for src/vyre_cuda/functions: finds them, rounds them, and writes the modules that hold them.

`python tools/minimax.py` writes coefficients_f32.py and coefficients_f64.py; with --check nothing is written, and the
exit code is 1 when a module is not what this would write. The result depends on nothing but the problems in
polynomials_*.py. Each polynomial has the least largest weighted error that the Remez exchange finds; its coefficients
are rounded from the lowest power on, and those behind are found anew for what rounding left.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from mpmath import mp, mpf

DIRECTORY = Path(__file__).parent.parent / "src" / "vyre_cuda" / "functions"
PRECISION = 200  # bits
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


def remez(g: Callable[[Real], Real], problem: Problem, powers: Sequence[int]) -> tuple[list[Real], Real]:
    """Coefficients of these powers for g with the weight of the problem, and the largest error."""
    count = len(powers)
    low, high = mpf(problem.low), mpf(problem.high)
    size = GRID * (count + 1)
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * k / (size - 1)) for k in range(size)]
    values, weights = [g(x) for x in grid], [problem.weight(x) for x in grid]
    bases = [[x**power for power in powers] for x in grid]
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


def to_f32(value: Real) -> float:
    return float(np.float32(float(value)))  # f64 first: a coefficient may be off by one rounding of 2^-53


def module(kind: str, problems: Sequence[Problem], rounded: Callable[[Real], float]) -> str:
    lines = [
        f'"""Polynomials of the functions of {kind}, written by tools/minimax.py; not edited by hand.',
        "",
        "Coefficients stand in the order of the powers, lowest first; the comment has the powers, the interval and the",
        "largest error in the problem's weight.",
        '"""',
        "",
        "from __future__ import annotations",
    ]
    for problem in problems:
        coefficients, error = solve(problem, rounded)
        powers = " ".join(map(str, problem.powers))
        low, high = mp.nstr(mpf(problem.low), 6), mp.nstr(mpf(problem.high), 6)
        lines += ["", f"# powers {powers} on [{low}, {high}]: 2^{mp.nstr(mp.log(error, 2), 4)}", f"{problem.name} = ("]
        lines += [f"    {value!r}," for value in coefficients] + [")"]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    import polynomials_f32
    import polynomials_f64

    mp.prec = PRECISION
    wanted = {
        "coefficients_f32.py": lambda: module("f32", polynomials_f32.problems(), to_f32),
        "coefficients_f64.py": lambda: module("f64", polynomials_f64.problems(), float),
    }
    stale = []
    for name, make in wanted.items():
        path, text = DIRECTORY / name, make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in arguments:
                path.write_text(text, encoding="utf-8")
    print("written: " if "--check" not in arguments else "stale: ", ", ".join(stale) or "none")
    return int("--check" in arguments and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
