"""The polynomials that the functions of f64 need."""

from __future__ import annotations

from collections.abc import Sequence

from remez import Constant, Problem


def constants() -> Sequence[Constant]:
    return ()


def problems() -> Sequence[Problem]:
    return ()
