"""Triton: a jitted kernel on PyTorch tensors.

Annotations stay objects here, because Triton reads those of its kernels.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from harness.inputs import BLOCK, ELEMENTS

from peers.common import Way, read_options, report
from peers.torch_sets import TorchSets


@triton.jit
def kernel(x, y, out, a, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = i < n
    tl.store(out + i, a * tl.load(x + i, inside) + tl.load(y + i, inside), inside)


GRID = (-(-ELEMENTS // BLOCK),)


def launch(x: Any, y: Any, out: Any, a: float) -> object:
    """out = a * x + y."""
    return kernel[GRID](x, y, out, a, ELEMENTS, block=BLOCK)


if __name__ == "__main__":
    sets = TorchSets(read_options(), launch)
    launch(*sets.sets[0])  # compiles
    sets.stream.synchronize()
    report(
        f"{triton.__version__} (torch {torch.__version__})",
        [
            Way("launch_enqueue", "jit", sets.enqueue),
            Way("launch_sync", "jit", sets.launch_sync),
            Way("host_dispatch", "page-locked copies, jit", sets.host_pinned),
        ],
    )
