"""Triton: a jitted kernel on PyTorch tensors.

Annotations stay objects here, because Triton reads those of its kernels.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from harness.counts import PEER
from harness.inputs import BLOCK

from peers.common import Way, read_options, report
from peers.torch_sets import TorchSets


@triton.jit
def kernel(x, y, out, a, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = i < n
    tl.store(out + i, a * tl.load(x + i, inside) + tl.load(y + i, inside), inside)


@triton.jit
def scale_kernel(x, out, a, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = i < n
    tl.store(out + i, a * tl.load(x + i, inside), inside)


GRID = (-(-PEER.elements // BLOCK),)


def launch(x: Any, y: Any, out: Any, a: float) -> object:
    """out = a * x + y."""
    return kernel[GRID](x, y, out, a, PEER.elements, block=BLOCK)


def scale(x: Any, out: Any, a: float) -> object:
    """out = a * x."""
    n = x.numel()
    return scale_kernel[(-(-n // BLOCK),)](x, out, a, n, block=BLOCK)


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
            Way("large_host", "page-locked, jit", lambda name: sets.large(name, scale, pinned=True)),
            Way("graph", "captured graph, jit", sets.chain),
        ],
    )
