"""The first result of a process with Triton: a jitted kernel on PyTorch tensors.

Annotations stay objects here, because Triton reads those of its kernels.
"""

import json
import sys
import time

import numpy as np
import torch
import triton
import triton.language as tl

N, BLOCK = 1024, 256


@triton.jit
def first(x, out, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + i, tl.load(x + i, i < n) * 2.0, i < n)


if __name__ == "__main__":
    values = np.arange(N, dtype=np.float32)
    x = torch.from_numpy(values).cuda()
    out = torch.empty_like(x)
    first[(N // BLOCK,)](x, out, N, block=BLOCK)
    result = out.cpu().numpy()
    end = time.monotonic_ns()
    if not np.array_equal(result, values * 2):
        raise SystemExit("wrong result")
    version = f"{triton.__version__} (torch {torch.__version__})"
    print(json.dumps({"first_result": end - int(sys.argv[1]), "version": version}))
