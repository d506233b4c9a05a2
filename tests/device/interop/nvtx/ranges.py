"""Works with ranges and without, and prints what each step told NVTX, as JSON: ranges.py INJECTION.so"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable

import numpy as np
import nvtx

import vyre_cuda as vc

N = 64


def add_one(name: str) -> vc.Program:
    b = vc.Builder(name)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = x[i] + 1
    return b.build()


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    library.nvtx_lines.restype = ctypes.c_char_p
    told: dict[str, list[str]] = {}

    def step(name: str, work: Callable[[], object]) -> None:
        library.nvtx_lines()
        work()
        told[name] = library.nvtx_lines().decode().splitlines()

    with nvtx.annotate("starts NVTX"):
        pass
    with vc.Device("emulator") as device:
        x = np.ones(N, np.float32)
        kernel = device.compile(add_one("first"))
        arrays = device.array(x), device.empty(N, vc.f32)
        bound = kernel.bind(*arrays)
        with device.record() as graph:
            kernel.launch(*arrays)
        steps: dict[str, Callable[[], object]] = {
            "compile": lambda: device.compile(add_one("second")),
            "call": lambda: kernel(x),
            "submit": lambda: kernel.submit(x).result(),
            "launch": lambda: kernel.launch(*arrays),
            "bound": bound,
            "replay": graph.replay,
            "upload": lambda: arrays[0].copy_from(x),
            "uploads": lambda: device.upload([(arrays[0], x), (arrays[1], x)]),
            "readback": arrays[1].numpy,
            "item": lambda: arrays[1][3],
        }

        def inside() -> None:
            with nvtx.annotate("user", domain="theirs"):
                device.run(add_one("third"), x)

        def fails() -> None:
            try:
                kernel(x, x, x)
            except TypeError:
                kernel.launch(*arrays)

        for name, work in steps.items():
            step(f"off {name}", work)
        device.nvtx_ranges = True
        for name, work in steps.items():
            step(name, work if name != "compile" else lambda: device.compile(add_one("other")))
        step("inside", inside)
        step("fails", fails)
        device.nvtx_ranges = False
        step("off again", bound)
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
