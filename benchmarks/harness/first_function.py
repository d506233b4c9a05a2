"""What a process spends on kernel functions, in milliseconds, after NumPy was imported: the first, and the next.

    python benchmarks/harness/first_function.py [--device NAME [--used-cache]]

Each is decorated, its program is built, and its text is lowered. With a device, which is opened in between with an
empty cache, the text is lowered by compiling for it, and `opened` is what opening takes. `--used-cache`: the cache has
another kernel, as that of a machine that is used.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np  # noqa: F401 - before the first step, which does not count it

# Another kernel, compiled by another process.
OTHER = """
import sys
import vyre_cuda as vc
b = vc.Builder("other")
x = b.inout("x", vc.f32)
x[vc.global_id.x] = 1.0
name = sys.argv[1]
vc.Device(int(name) if name.isdigit() else name).compile(b.build())
"""


class Steps:
    """The milliseconds of each step by its name."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.ms[name] = 1e3 * (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help='such as "cuda"; without it, only the text is made')
    parser.add_argument("--used-cache", action="store_true", help="with a device: not empty, but without the kernels")
    given = parser.parse_args()
    name = given.device
    steps = Steps()
    if name is None:
        of_two_functions(steps, None)
    else:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["VYRE_CUDA_CACHE_DIR"] = cache
            if given.used_cache:
                subprocess.run([sys.executable, "-c", OTHER, name], check=True)
            of_two_functions(steps, name)
    print(json.dumps(steps.ms))


def of_two_functions(steps: Steps, name: str | None) -> None:
    with steps.step("decorated"):
        import vyre_cuda as vc

        @vc.kernel
        def saxpy(x: vc.In[vc.f32], y: vc.In[vc.f32], a: vc.f32):  # type: ignore[no-untyped-def]
            out = vc.output(vc.f32, x.size)
            i = vc.global_id.x
            if i < out.size:
                out[i] = a * x[i] + y[i]

    device = None
    if name is not None:
        with steps.step("opened"):
            device = vc.Device(int(name) if name.isdigit() else name)
    _built_and_lowered(steps, "", saxpy, device)
    with steps.step("next_decorated"):

        @vc.kernel
        def difference(x: vc.In[vc.f32], y: vc.In[vc.f32], a: vc.f32):  # type: ignore[no-untyped-def]
            out = vc.output(vc.f32, x.size)
            i = vc.global_id.x
            if i < out.size:
                out[i] = a * x[i] - y[i]

    _built_and_lowered(steps, "next_", difference, device)


def _built_and_lowered(steps: Steps, prefix: str, function: object, device: object) -> None:
    import vyre_cuda as vc

    with steps.step(prefix + "built"):
        program = function.program()  # type: ignore[attr-defined]
    if device is None:
        with steps.step(prefix + "lowered"):
            vc.ptx(program)
        return
    begin = time.perf_counter()
    kernel = device.compile(program)  # type: ignore[attr-defined]
    elapsed = 1e3 * (time.perf_counter() - begin)
    times = kernel.compile_times
    driver = (times.linking_ns + times.loading_ns + times.writing_ns) / 1e6
    steps.ms[prefix + "lowered"] = elapsed - driver
    steps.ms[prefix + "linked_and_loaded"] = driver


if __name__ == "__main__":
    main()
