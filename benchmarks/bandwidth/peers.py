"""The same tasks in CUDA C++ (compiled by NVRTC through CuPy), CuPy and PyTorch, on device arrays of this package.

CUDA C++ has several forms of each task, of which the fastest counts. A saxpy is not contracted, so that it rounds like
NumPy's.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import vyre_cuda as vc

BLOCK = 256
STRIDES = (1, 2, 4)
VECTOR_BYTES = (4, 8, 16)
TYPES = {vc.f32: "float", vc.f16: "__half", vc.u8: "unsigned char", vc.f64: "double"}
VALUES = {"saxpy": "a * x + y", "copy": "x", "mathematics": "expf(sinf(x)) * logf(x)"}

Launch = Callable[[], Any]

_CODE = """
#include <cuda_fp16.h>
typedef TYPE T;
struct alignas(sizeof(T) * COUNT) Vector { T v[COUNT]; };
__device__ T value(T x, T y, T a) { return EXPRESSION; }

extern "C" __global__ void apart(const T *x, const T *y, T *out, const T *a, unsigned n)
{
  const unsigned first = blockIdx.x * (blockDim.x * COUNT) + threadIdx.x;
  T xs[COUNT], ys[COUNT];
  #pragma unroll
  for (int k = 0; k < COUNT; k++) {
    const unsigned i = first + k * blockDim.x;
    if (i < n) { xs[k] = x[i]; ys[k] = READS_Y ? y[i] : xs[k]; }
  }
  #pragma unroll
  for (int k = 0; k < COUNT; k++) {
    const unsigned i = first + k * blockDim.x;
    if (i < n) out[i] = value(xs[k], ys[k], *a);
  }
}

extern "C" __global__ void vectors(const T *x, const T *y, T *out, const T *a, unsigned n)
{
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n / COUNT) return;
  const Vector xs = reinterpret_cast<const Vector *>(x)[i];
  const Vector ys = READS_Y ? reinterpret_cast<const Vector *>(y)[i] : xs;
  Vector result;
  #pragma unroll
  for (int k = 0; k < COUNT; k++) result.v[k] = value(xs.v[k], ys.v[k], *a);
  reinterpret_cast<Vector *>(out)[i] = result;
}
"""


def found(name: str) -> ModuleType | None:
    """A module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _kernel(cp: Any, task: str, type_: vc.Type, name: str, count: int) -> Any:
    expression = VALUES[task]
    if task == "saxpy" and type_ is vc.f16:
        expression = "__hadd_rn(__hmul_rn(a, x), y)"
    code = _CODE.replace("TYPE", TYPES[type_]).replace("COUNT", str(count)).replace("EXPRESSION", expression)
    code = code.replace("READS_Y", str(int(task == "saxpy")))
    return cp.RawKernel(code, name, options=("--std=c++17", *("--fmad=false",) * (task == "saxpy")))


def cuda(cp: Any, task: str, type_: vc.Type, inputs: Sequence[Any], out: Any, a: float) -> dict[str, Launch]:
    """Launches of every form, by its name. The number of elements is a multiple of 16."""
    scalar = cp.full(1, a, type_.dtype)
    x, y = inputs[0], inputs[-1]
    launches: dict[str, Launch] = {}
    vectors = [("vectors", size // type_.dtype.itemsize) for size in VECTOR_BYTES]
    for name, count in [("apart", stride) for stride in STRIDES] + [each for each in vectors if each[1] > 1]:
        kernel = _kernel(cp, task, type_, name, count)
        grid = (-(-out.size // (BLOCK * count)),)
        arguments = (x, y, out, scalar, cp.uint32(out.size))
        launches[f"{name} {count}"] = lambda k=kernel, g=grid, g_a=arguments: k(g, (BLOCK,), g_a)
    return launches


def cupy(cp: Any, task: str, inputs: Sequence[Any], out: Any, a: float) -> Launch | None:
    """One fused kernel of CuPy, or its copy."""
    if task == "copy":
        return lambda: cp.copyto(out, inputs[0])
    if task == "transpose":
        return lambda: cp.copyto(out, inputs[0].T)
    if task == "softmax":
        return None
    names = ", ".join(f"T {name}" for name in "xy"[: len(inputs)])
    scalar = ", T a" if task == "saxpy" else ""
    kernel = cp.ElementwiseKernel(names + scalar, "T out", f"out = {VALUES[task]}", f"cupy_{task}")
    scalars = (out.dtype.type(a),) if task == "saxpy" else ()
    return lambda: kernel(*inputs, *scalars, out)


def torch(module: Any, task: str, inputs: Sequence[Any], out: Any, a: float) -> Launch | None:
    """The function of PyTorch that does it in one kernel; None where there is none."""
    x = inputs[0]
    launches: dict[str, Launch] = {
        "saxpy": lambda: module.add(inputs[-1], x, alpha=a, out=out),
        "copy": lambda: out.copy_(x),
        "transpose": lambda: out.copy_(x.t()),
        "softmax": lambda: module.softmax(x, 1, out=out),
    }
    return launches.get(task)
