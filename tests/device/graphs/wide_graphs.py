"""Replays of graphs with many steps side by side for some time: python wide_graphs.py DEVICE SECONDS STEPS..."""

from __future__ import annotations

import sys
import time

import numpy as np

import vyre_cuda as vc

SIZE = 48


def program() -> vc.Program:
    b = vc.Builder("adds", block=32)
    x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[i] + z[i]
    return b.build()


def main(name: str, seconds: str, *steps: str) -> None:
    end = time.monotonic() + float(seconds)
    with vc.Device(int(name) if name.isdigit() else name) as device:
        kernel = device.compile(program())
        x = device.array(np.ones(SIZE, np.float32))
        turns = 0
        while turns == 0 or time.monotonic() < end:
            for each in steps:
                arrays = [device.full(SIZE, k, vc.f32) for k in range(int(each))]
                with device.record(fuse=False) as graph:
                    for array in arrays:
                        kernel.launch(x, array)
                for _ in range(5):
                    graph.replay()
                    device.synchronize(timeout=30)
                for k, array in enumerate(arrays):
                    np.testing.assert_array_equal(np.full(SIZE, k + 5, np.float32), array.numpy())
            turns += 1
    print("ended", turns)


if __name__ == "__main__":
    main(*sys.argv[1:])
