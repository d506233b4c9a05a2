"""Writes puts.vyre, the bundle of the explorer: `python bundle_puts.py`.

The model of a driver knows nothing of what kernels compute; it takes their parameters apart.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import vyre_cuda as vc

HERE = Path(__file__).parent


def put() -> vc.Program:
    b = vc.Builder("put", block=32)
    x = b.input("x", vc.u64)
    out = b.output("out", vc.u64, size=x.size)
    a = b.scalar("a", vc.u64)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a + x[i]
    return b.build()


def main() -> None:
    program = put()
    device = vc.Device("emulator")
    kernel = device.compile(program)
    x, z = (device.array(np.zeros(1, np.uint64)) for _ in range(2))
    with device.record() as graph:
        kernel.launch(vc.symbol("x", x), z, vc.symbol("a", 1))
        kernel.launch(z, vc.symbol("out"), vc.symbol("a", 1))
    vc.bundle([program], HERE / "puts.vyre", targets=["sm_90"], cubins=False, graphs={"twice": graph})


if __name__ == "__main__":
    main()
