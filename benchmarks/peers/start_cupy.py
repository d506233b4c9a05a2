"""The first result of a process with CuPy: a kernel of its own, from source."""

from __future__ import annotations

import json
import sys
import time

import cupy as cp
import numpy as np

KERNEL = r"""
extern "C" __global__ void first(const float *x, float *out, unsigned n) {
  const unsigned i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < n) out[i] = x[i] * 2.0f;
}
"""
N, BLOCK = 1024, 256

if __name__ == "__main__":
    values = np.arange(N, dtype=np.float32)
    x, out = cp.asarray(values), cp.empty(N, cp.float32)
    cp.RawKernel(KERNEL, "first")((N // BLOCK,), (BLOCK,), (x, out, np.uint32(N)))
    result = out.get()
    end = time.monotonic_ns()
    if not np.array_equal(result, values * 2):
        raise SystemExit("wrong result")
    print(json.dumps({"first_result": end - int(sys.argv[1]), "version": cp.__version__}))
