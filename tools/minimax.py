"""Writes the constants and polynomials of src/vyre_cuda/functions.

`python tools/minimax.py` writes coefficients_f32.py and coefficients_f64.py; with --check nothing is written, and the
exit code is 1 when a module is not what this would write. The result depends on nothing but polynomials_*.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polynomials_f32
import polynomials_f64
from mpmath import mp, mpf
from remez import Bits, Constant, Problem, Real, solve, split

DIRECTORY = Path(__file__).parent.parent / "src" / "vyre_cuda" / "functions"
PRECISION = 320  # bits


def to_f32(value: Real) -> float:
    return float(np.float32(float(value)))  # f64 first: a coefficient may be off by one rounding of 2^-53


def module(
    kind: str, constants: Sequence[Constant | Bits], problems: Sequence[Problem], rounded: Callable[[Real], float]
) -> str:
    """The text of a module with these constants and polynomials."""
    lines = [
        f'"""Constants and polynomials of the functions of {kind}, written by tools/minimax.py; not edited by hand.',
        "",
        "A constant is the sum of its parts. Coefficients are in the order of the powers, lowest first; the comment",
        "has the powers, the interval and the largest error in the problem's weight.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
    ]
    for constant in constants:
        if isinstance(constant, Bits):
            whole = int(mp.ldexp(constant.value, 32 * constant.words))  # exactly, whatever the precision
            parts = [f"0x{whole >> 32 * k & 0xFFFFFFFF:08X}" for k in reversed(range(constant.words))]
        else:
            parts = [repr(part) for part in split(constant, rounded)]
        lines += [f"{constant.name} = (", *(f"    {part}," for part in parts), ")"]
    for problem in problems:
        coefficients, error = solve(problem, rounded)
        powers = " ".join(map(str, problem.powers))
        low, high = mp.nstr(mpf(problem.low), 6), mp.nstr(mpf(problem.high), 6)
        lines += ["", f"# powers {powers} on [{low}, {high}]: 2^{mp.nstr(mp.log(error, 2), 4)}", f"{problem.name} = ("]
        lines += [f"    {value!r}," for value in coefficients] + [")"]
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: Sequence[str]) -> int:
    mp.prec = PRECISION
    wanted = {
        "coefficients_f32.py": lambda: module("f32", polynomials_f32.constants(), polynomials_f32.problems(), to_f32),
        "coefficients_f64.py": lambda: module("f64", polynomials_f64.constants(), polynomials_f64.problems(), float),
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
