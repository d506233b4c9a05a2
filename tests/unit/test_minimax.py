"""The polynomials of the functions are what `tools/minimax.py` finds, and the exchange finds what is known."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mpmath import mp, mpf

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def remez(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("remez")


@pytest.mark.long
def test_committed_coefficients_are_what_the_tool_finds() -> None:
    child = subprocess.run(
        [sys.executable, TOOLS / "minimax.py", "--check"], capture_output=True, text=True, check=False
    )

    assert child.returncode == 0, child.stdout + child.stderr


def test_the_best_line_for_a_parabola_is_known(remez: Any) -> None:
    """x^2 on [0, 1]: x - 1/8, off by 1/8."""
    problem = remez.Problem("LINE", lambda x: x * x, lambda _: mpf(1), 0, 1, range(2))

    coefficients, error = remez.solve(problem, float)

    assert coefficients == pytest.approx([-0.125, 1.0], abs=1e-3)
    assert float(error) == pytest.approx(0.125, rel=1e-3)


def test_a_constant_is_the_sum_of_its_parts(remez: Any) -> None:
    with mp.workprec(200):
        parts = remez.split(remez.Constant("PI", +mp.pi, 3), float)
        lost = abs(mp.fsum(parts) - mp.pi)

    assert parts[0] == 3.141592653589793
    assert lost < mpf(2) ** -155
