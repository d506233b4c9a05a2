"""CUDA's own functions of f32 on CuPy arrays: an ElementwiseKernel, and a plain kernel of the launch shape of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mathematics.functions import Subject

FAST = ("--use_fast_math",)
BLOCK = 256

_PLAIN = """
extern "C" __global__ void plain(PARAMETERS float *out, unsigned count)
{
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) { LOADS out[i] = VALUE; }
}
"""

Launch = Callable[[], None]


def elementwise(cupy: Any, subject: Subject, inputs: list[Any], out: Any, *, fast: bool) -> Launch:
    """A call of the ElementwiseKernel."""
    names = ", ".join(f"float32 {name}" for name in "xy"[: subject.arity])
    options = FAST if fast else ()
    kernel = cupy.ElementwiseKernel(names, "float32 out", f"out = {subject.f32}", f"of_{subject.name}", options=options)
    return lambda: kernel(*inputs, out)


def plain(cupy: Any, subject: Subject, inputs: list[Any], out: Any, *, fast: bool) -> Launch:
    """A launch of one thread per element."""
    names = "xy"[: subject.arity]
    parameters = "".join(f"const float *{name}s, " for name in names)
    loads = "".join(f"const float {name} = {name}s[i]; " for name in names)
    code = _PLAIN.replace("PARAMETERS", parameters).replace("LOADS", loads).replace("VALUE", subject.f32)
    kernel = cupy.RawKernel(code, "plain", options=FAST if fast else ())
    arguments = (*inputs, out, cupy.uint32(out.size))
    grid = (-(-out.size // BLOCK),)
    return lambda: kernel(grid, (BLOCK,), arguments)
