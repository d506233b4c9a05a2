"""What a kernel function gives on the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

import vyre_cuda as vc

N = 64
XS = np.arange(N, dtype=np.int32)


def results(function: Any, *args: Any, **given: Any) -> Any:
    return vc.evaluate(function.program(**given), *args)


@vc.func
def clamped(v, lo, hi):
    if v < lo:
        return lo
    if v > hi:
        return hi
    return v
