"""The polynomials that the functions of f32 need."""

from __future__ import annotations

from collections.abc import Sequence

from minimax import Problem
from mpmath import mpf


def problems() -> Sequence[Problem]:
    half = mpf("0.5001")
    return (Problem("EXP2", lambda r: mpf(2) ** r, lambda r: mpf(2) ** -r, -half, half, range(7), {0: mpf(1)}),)
