"""Writes puts.vyre, the bundle of the explorer: `python bundle_puts.py`.

The model of a driver knows nothing of what kernels compute; it takes their parameters apart.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import vyre_cuda as vc

HERE = Path(__file__).parent


def put(name: str = "put") -> vc.Program:
    b = vc.Builder(name, block=32)
    x = b.input("x", vc.u64)
    out = b.output("out", vc.u64, size=x.size)
    a = b.scalar("a", vc.u64)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a + x[i]
    return b.build()


def two_forms(device: vc.Device, kernel: vc.Kernel) -> vc.Graph:
    """A launch that stays apart by its options, and two that are one kernel where `x` and `y` are not the same array.

    Two symbols have the number of the operation: `a`, which two nodes of the merged form read from a cell, and `b`,
    which stays by value.
    """
    first = device.compile(put("first"), bounds="off")
    in_, x, y = (device.array(np.zeros(1, np.uint64)) for _ in range(3))
    with device.record(fuse=True) as graph:
        between = graph.temporary(1, vc.u64)
        first.launch(vc.symbol("in"), vc.symbol("x", x), vc.symbol("a", 1))
        kernel.launch(vc.symbol("x"), between, vc.symbol("b", 1))
        kernel.launch(between, vc.symbol("y", y), vc.symbol("a"))
    graph.replay(**{"in": in_})
    return graph


def main() -> None:
    program = put()
    device = vc.Device("emulator")
    kernel = device.compile(program)
    x, z = (device.array(np.zeros(1, np.uint64)) for _ in range(2))
    with device.record() as graph:
        kernel.launch(vc.symbol("x", x), z, vc.symbol("a", 1))
        kernel.launch(z, vc.symbol("out"), vc.symbol("a", 1))
    graphs = {"twice": graph, "forms": two_forms(device, kernel)}
    vc.bundle([program], HERE / "puts.vyre", targets=["sm_90"], cubins=False, graphs=graphs)


if __name__ == "__main__":
    main()
