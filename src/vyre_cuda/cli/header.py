"""`vyre-cuda bundle --cpp`: the C++ header of a bundle."""

from __future__ import annotations

from pathlib import Path

import vyre_cuda as vc
from vyre_cuda.bundles.cpp import GraphFacts, KernelFacts, header
from vyre_cuda.cli.failures import UsageError, writing


def write_header(bundle: vc.Bundle, *, stem: str, to: Path) -> str:
    """Write the header and return its path."""
    kernels = [
        KernelFacts(kernel.name, kernel.program.parameters) for kernel in bundle.kernels.values() if not kernel.is_entry
    ]
    graphs = [GraphFacts(graph.name, list(graph.symbols.values())) for graph in bundle.graphs.values()]
    try:
        text = header(stem, kernels, graphs)
    except ValueError as error:
        raise UsageError(f"--cpp: {error}") from None
    with writing(to):
        to.write_text(text, encoding="utf-8")
    return str(to)
