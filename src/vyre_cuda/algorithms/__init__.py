"""Sums, scans, sorting and selection on device arrays: `vc.algorithms`.

Every function takes device arrays, or NumPy arrays, for which it computes the same result in NumPy. Sums, products and
scans of floats are made in a stated order, which depends on sizes alone: docs/algorithms.md.
"""

from __future__ import annotations

from vyre_cuda.algorithms.plans import Plan as Plan
from vyre_cuda.algorithms.plans import plan as plan
from vyre_cuda.algorithms.public.counts import bincount as bincount
from vyre_cuda.algorithms.public.counts import histogram as histogram
from vyre_cuda.algorithms.public.counts import matmul as matmul
from vyre_cuda.algorithms.public.counts import segmented_min as segmented_min
from vyre_cuda.algorithms.public.counts import segmented_sum as segmented_sum
from vyre_cuda.algorithms.public.order import argsort as argsort
from vyre_cuda.algorithms.public.order import searchsorted as searchsorted
from vyre_cuda.algorithms.public.order import sort as sort
from vyre_cuda.algorithms.public.order import transpose as transpose
from vyre_cuda.algorithms.public.reductions import all as all
from vyre_cuda.algorithms.public.reductions import any as any
from vyre_cuda.algorithms.public.reductions import argmax as argmax
from vyre_cuda.algorithms.public.reductions import argmin as argmin
from vyre_cuda.algorithms.public.reductions import max as max
from vyre_cuda.algorithms.public.reductions import mean as mean
from vyre_cuda.algorithms.public.reductions import min as min
from vyre_cuda.algorithms.public.reductions import prod as prod
from vyre_cuda.algorithms.public.reductions import sum as sum
from vyre_cuda.algorithms.public.scans import cummax as cummax
from vyre_cuda.algorithms.public.scans import cumprod as cumprod
from vyre_cuda.algorithms.public.scans import cumsum as cumsum
from vyre_cuda.algorithms.public.selection import compress as compress
from vyre_cuda.algorithms.public.selection import nonzero as nonzero
from vyre_cuda.algorithms.public.selection import put as put
from vyre_cuda.algorithms.public.selection import take as take
from vyre_cuda.algorithms.public.selection import unique as unique

__all__ = [
    "Plan",
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "bincount",
    "compress",
    "cummax",
    "cumprod",
    "cumsum",
    "histogram",
    "matmul",
    "max",
    "mean",
    "min",
    "nonzero",
    "plan",
    "prod",
    "put",
    "searchsorted",
    "segmented_min",
    "segmented_sum",
    "sort",
    "sum",
    "take",
    "transpose",
    "unique",
]
