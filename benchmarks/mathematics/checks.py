"""The largest error of a function of f32 over many arguments: on a GPU with CuPy over all, on the host over some.

Errors are in ULP of the exact value, which stop getting smaller below the smallest normal number; an infinity counts
as 2^128, and a NaN, zero sign or pole that is wrong as infinitely far off. On the GPU the oracle is CUDA's function of
double, which is within 2 ULP of double: 2^-28 ULP of float. The argument's conversion to double is exact, so that
holds next to the poles of tan and the zeros of sin, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import vyre_cuda as vc
from mathematics.functions import Subject
from vyre_cuda.ir.core.types import f32
from vyre_cuda.testing.accuracy import errors, exact

CHUNK = 1 << 28
_SMALLEST_NORMAL = np.float32(2.0**-126)

# CuPy compiles with -ftz=true, which must not touch what is compared.
_CHECK = """
static __device__ double widen(float x)
{
  double result;
  asm("cvt.f64.f32 %0, %1;" : "=d"(result) : "f"(x));
  return result;
}

extern "C" __global__ void check(const float *out, unsigned base, unsigned count, int flushes, unsigned long long *best)
{
  unsigned long long mine = 0;
  const double smallest = 1.1754943508222875e-38;
  const float infinite = __int_as_float(0x7f800000);
  for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < count;
       i += (unsigned long long)gridDim.x * blockDim.x) {
    const unsigned bits = base + (unsigned)i;
    double x = widen(__uint_as_float(bits));
    if (flushes && fabs(x) < smallest) x = copysign(0.0, x);
    const double exact = ORACLE;
    const double found = widen(out[i]);
    float off;
    if (isnan(exact) || isnan(found)) {
      off = isnan(exact) && isnan(found) ? 0.0f : __int_as_float(0x7f800000);
    } else if (flushes && fabs(exact) <= smallest && fabs(found) <= smallest) {
      off = 0.0f;
    } else if (isinf(exact) || exact == 0.0) {
      off = found == exact && signbit(found) == signbit(exact) ? 0.0f : __int_as_float(0x7f800000);
    } else {
      const double end = 3.402823669209384634633746e38;
      const double clipped = fmax(fmin(exact, end), -end);
      const double got = fmax(fmin(found, end), -end);
      const int exponent = max(ilogb(fmin(fabs(clipped), 3.4e38)), -126);
      off = (float)scalbn(fabs(got - clipped), 23 - exponent);
    }
    const unsigned long long key = ((unsigned long long)__float_as_uint(off) << 32) | bits;
    if (key > mine) mine = key;
  }
  atomicMax(best, mine);
}
"""


@dataclass(frozen=True)
class Worst:
    """The largest error met, its argument, and how many arguments were looked at."""

    ulp: float
    argument: float
    bits: int
    arguments: int


class Check(Protocol):
    """Looks at a kernel of one function of f32."""

    def worst(self, subject: Subject, kernel: vc.Kernel, *, flushes: bool) -> Worst: ...


class GpuCheck:
    """All 2^32 arguments."""

    def __init__(self) -> None:
        import cupy

        self._cupy: Any = cupy

    def worst(self, subject: Subject, kernel: vc.Kernel, *, flushes: bool) -> Worst:
        cp = self._cupy
        check = cp.RawKernel(_CHECK.replace("ORACLE", subject.f64), "check")
        best = cp.zeros(1, cp.uint64)
        out = cp.empty(CHUNK, cp.float32)
        for base in range(0, 1 << 32, CHUNK):
            x = (cp.arange(CHUNK, dtype=cp.uint32) + cp.uint32(base)).view(cp.float32)
            kernel.launch(x, out)
            cp.cuda.Device().synchronize()
            check((4096,), (256,), (out, np.uint32(base), np.uint32(CHUNK), np.int32(flushes), best))
        return _worst(int(best.get()[0]), 1 << 32)


class HostCheck:
    """Every `step`th argument, against longdouble: shows that the benchmark works."""

    def __init__(self, device: vc.Device, step: int) -> None:
        self._device = device
        self._step = step

    def worst(self, subject: Subject, kernel: vc.Kernel, *, flushes: bool) -> Worst:
        bits = np.arange(0, 1 << 32, self._step, dtype=np.uint64).astype(np.uint32)
        x = bits.view(np.float32)
        found = np.asarray(kernel(x))
        with np.errstate(invalid="ignore"):
            given = np.where(np.abs(x) < _SMALLEST_NORMAL, np.copysign(np.float32(0), x), x) if flushes else x
        expected = exact(subject.name, f32, [given])
        off = errors(f32, expected, found)
        if flushes:
            tiny = (np.abs(expected) <= _SMALLEST_NORMAL) & (np.abs(found) <= _SMALLEST_NORMAL)
            off = np.where(tiny, 0, off)
        at = int(off.argmax())
        key = int(np.float32(off[at]).view(np.uint32)) << 32 | int(bits[at])
        return _worst(key, bits.size)


def _worst(key: int, arguments: int) -> Worst:
    bits = key & 0xFFFFFFFF
    ulp = np.uint32(key >> 32).view(np.float32)
    return Worst(float(ulp), float(np.uint32(bits).view(np.float32)), bits, arguments)
