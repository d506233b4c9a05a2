"""PyTorch, eager: `torch.add` with alpha and out, a captured graph, pageable and page-locked copies."""

from __future__ import annotations

from typing import Any

import torch

from peers.common import Way, read_options, report
from peers.torch_sets import TorchSets


def launch(x: Any, y: Any, out: Any, a: float) -> object:
    """out = a * x + y in one kernel."""
    return torch.add(y, x, alpha=a, out=out)


def scale(x: Any, out: Any, a: float) -> object:
    """out = a * x."""
    return torch.mul(x, a, out=out)


if __name__ == "__main__":
    sets = TorchSets(read_options(), launch)
    report(
        torch.__version__,
        [
            Way("launch_enqueue", "torch.add", sets.enqueue),
            Way("replay_enqueue", "graph", sets.replay),
            Way("launch_sync", "torch.add", sets.launch_sync),
            Way("host_dispatch", "copies, torch.add", sets.host),
            Way("host_dispatch", "page-locked copies, torch.add", sets.host_pinned),
            Way("large_host", "copies, torch.mul", lambda name: sets.large(name, scale, pinned=False)),
            Way("large_host", "page-locked, torch.mul", lambda name: sets.large(name, scale, pinned=True)),
            Way("graph", "captured graph", sets.chain),
            Way("alloc_free", "torch.empty", sets.allocate),
        ],
    )
