"""The largest error of a function of f64 on hard operands, computed by the interpreter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vyre_cuda.ir.core.ops import FUNCTIONS
from vyre_cuda.ir.core.types import f64
from vyre_cuda.ir.semantics.elementwise import function
from vyre_cuda.testing.accuracy import errors, exact
from vyre_cuda.testing.hard_f64 import operands

_AT_ONCE = 1 << 16  # operands, so that intermediate arrays stay in cache


@dataclass(frozen=True, slots=True)
class LargestError:
    """The largest error in ULP among `count` results, and its operands."""

    ulp: float
    operands: tuple[float, ...]
    count: int


def measured(name: str, count: int, *, seed: int) -> LargestError:
    """The largest error of a function on about `count` operands that depend on nothing but name, count and seed."""
    columns = operands(name, FUNCTIONS[name].arity, count, seed)
    total, compute = columns[0].size, function(name, f64)
    largest = LargestError(-1.0, (), total)
    for first in range(0, total, _AT_ONCE):
        part = [column[first : first + _AT_ONCE] for column in columns]
        with np.errstate(all="ignore"):
            off = errors(f64, exact(name, f64, part), compute(*part))
        at = int(off.argmax())
        if off[at] > largest.ulp:
            largest = LargestError(float(off[at]), tuple(float(column[at]) for column in part), total)
    return largest
