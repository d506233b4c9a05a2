"""Products of matrices: matmul."""

from __future__ import annotations

from typing import Any

import numpy as np

from vyre_cuda.algorithms.programs import matmul
from vyre_cuda.algorithms.reductions import Array
from vyre_cuda.algorithms.work import Work, delivered, index_type, require_array, require_device_array, tiles, type_of
from vyre_cuda.ir.core.types import f32, f64
from vyre_cuda.ir.semantics.elementwise import apply


def product(x: Any, y: Any, out: Any) -> Any:
    """`matmul` on either kind of array."""
    on_host = isinstance(x, np.ndarray)
    require_array("matmul", x)
    if not on_host:
        require_device_array("x", x)
        require_device_array("y", y)
    if x.ndim != 2 or y.ndim != 2:
        raise ValueError(f"matmul takes two matrices, not arrays of {x.ndim} and {y.ndim} axes: reshape them")
    if x.shape[1] != y.shape[0]:
        raise ValueError(f"matmul: the shapes {x.shape} and {y.shape} do not fit together")
    types = [type_of(each) if on_host else each.type for each in (x, y)]
    if types[0] is not types[1] or types[0] not in (f32, f64):
        raise TypeError(f"matmul takes two matrices of f32 or of f64, not of {types[0]} and {types[1]}: convert them")
    if on_host:
        return delivered(_on_host(x, y), out, x, y)
    work = Work(x, y)
    (m, depth), n = x.shape, y.shape[1]
    result = work.result((m, n), x.type, out, x, y)
    if result.size and not depth:
        result.fill(0.0)
    elif result.size:
        side = matmul.side_of(x.type)
        index = index_type(4 * x.size, 4 * y.size, 4 * result.size)
        fours = n % 4 == depth % 4 == 0
        extents = (n // 4, depth // 4) if fours else (n, depth)
        program = matmul.program(x.type, index, fours=fours)
        work.launch(program, x, y, result, m, *extents, blocks=tiles(m, side) * tiles(n, side))
    return result


def _on_host(x: Array, y: Array) -> Array:
    """A chain of fma for each element."""
    type_ = type_of(x)
    total = np.zeros((x.shape[0], y.shape[1]), x.dtype)
    with np.errstate(all="ignore"):
        for k in range(x.shape[1]):
            left, right = np.broadcast_arrays(x[:, k : k + 1], y[k : k + 1])
            total = apply("fma", type_, type_, [left, right, total])
    return total
