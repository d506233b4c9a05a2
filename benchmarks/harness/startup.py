"""The first result of a process: how long from its start, beside a process that only gets as far as a context.

Both are Python processes that import NumPy. As a script it is such a process: `startup.py KIND DEVICE DRIVER BEGIN_NS`.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Sequence

KINDS = ("first_result", "floor")


def main(words: Sequence[str]) -> None:
    kind, device, driver, begin = words[0], words[1], words[2], int(words[3])
    start = time.monotonic_ns()
    import numpy as np

    after_numpy = time.monotonic_ns()
    if kind == "floor":
        _context(driver)
        end = time.monotonic_ns()
        print(json.dumps({"first_result_floor": end - begin, "import_numpy": after_numpy - start}))
        return
    import vyre_cuda as vc

    builder, open_device, f32 = vc.Builder, vc.Device, vc.f32  # names are resolved, and modules loaded, at first use
    after_import = time.monotonic_ns()
    b = builder("first")
    x = b.input("x", f32)
    out = b.output("out", f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = x[i] * 2.0
    x_values = np.arange(1024, dtype=np.float32)
    result = open_device(device).compile(b.build())(x_values)
    end = time.monotonic_ns()
    if not np.array_equal(result, x_values * 2):
        raise SystemExit("wrong result")
    print(json.dumps({"first_result": end - begin, "import_package": after_import - after_numpy}))


def _context(driver: str) -> None:
    """cuInit and the primary context of the first device, and nothing else of the driver."""
    library = ctypes.CDLL(driver)
    device, context = ctypes.c_int(), ctypes.c_void_p()
    for status in (
        library.cuInit(0),
        library.cuDeviceGet(ctypes.byref(device), 0),
        library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        library.cuCtxSetCurrent(context),
    ):
        if status != 0:
            raise SystemExit(f"the driver answers {status}")


if __name__ == "__main__":
    main(sys.argv[1:])
