"""The polynomials that the functions of f64 need."""

from __future__ import annotations

from collections.abc import Sequence

from minimax import Problem


def problems() -> Sequence[Problem]:
    return ()
