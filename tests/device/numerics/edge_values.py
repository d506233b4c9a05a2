"""Values at the edges of a type."""

from __future__ import annotations

from typing import Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda.testing.edges import EDGES, from_bits


def edge_values(type_: vc.Type, count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    drawn = np.random.default_rng(seed).choice(np.array(EDGES[type_], object), count)
    return from_bits(type_, [int(bits) for bits in drawn])
