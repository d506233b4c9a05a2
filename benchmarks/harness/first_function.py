"""A process whose first kernel is a function: milliseconds until it is decorated, until its program is built, and until
its text is lowered, after NumPy was imported.
"""

from __future__ import annotations

import json
import time

import numpy as np


def main() -> None:
    times = [time.perf_counter()]
    import vyre_cuda as vc

    @vc.kernel
    def saxpy(x: vc.In[vc.f32], y: vc.In[vc.f32], a: vc.f32):  # type: ignore[no-untyped-def]
        out = vc.output(vc.f32, x.size)
        i = vc.global_id.x
        if i < out.size:
            out[i] = a * x[i] + y[i]

    times.append(time.perf_counter())
    program = saxpy.program()
    times.append(time.perf_counter())
    vc.ptx(program)
    times.append(time.perf_counter())
    names = ("decorated", "built", "lowered")
    print(json.dumps(dict(zip(names, (1e3 * np.diff(times)).tolist(), strict=True))))


if __name__ == "__main__":
    main()
