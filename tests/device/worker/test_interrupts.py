"""Waits for a worker whose kernel hangs end by Ctrl-C, and a worker that is idle uses no processor."""

from __future__ import annotations

import time

import numpy as np
import pytest

import vyre_cuda as vc

from ..faults.test_lifecycle import run_python

FOREVER = 4_000_000_000  # looks at a flag
X = np.arange(300, dtype=np.float32)


@pytest.mark.thin
def test_every_wait_for_a_worker_ends_with_control_c(device_name: int | str) -> None:
    done = run_python(
        f"""
    import os
    take_interrupts()
    device = vc.Device(NAME)
    spin = device.compile(programs.spin())
    worker = device.worker([spin])
    host, flag = np.zeros(1, np.uint32), device.zeros(1, vc.u32)
    bound = worker.bind(spin, flag, {FOREVER})
    pending = worker.submit(spin, host, {FOREVER})
    waits = {{
        "result": lambda: pending.result(),
        "call": lambda: worker.call(spin, host, {FOREVER}),
        "device arrays": lambda: worker.call(spin, flag, {FOREVER}),
        "bound": lambda: bound(),
        "pause": lambda: worker.pause(),
        "close": lambda: worker.close(timeout=None),
    }}

    for name, wait in waits.items():
        print(name, seconds_to_end(wait) < 30, flush=True)
        if name == "pause":
            try:
                worker.resume()
            except ValueError:
                print("not paused")
    os._exit(0)  # the kernel hangs on
        """,
        device_name,
    )

    lines = [*(f"{name} True" for name in ("result", "call", "device arrays", "bound", "pause")), "not paused"]
    assert done.stdout.split("\n")[:-1] == [*lines, "close True"], done.stdout + done.stderr


def test_an_idle_worker_uses_no_processor(device: vc.Device, saxpy: vc.Kernel) -> None:
    with device.worker([saxpy], idle=0.02) as worker:
        np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))
        end = time.monotonic() + 60
        while worker.stats().running:
            assert time.monotonic() < end
            time.sleep(0.005)
        used = []
        for _ in range(5):  # other threads of this process may have work once
            begin = time.process_time()
            time.sleep(0.2)
            used.append(time.process_time() - begin)
        assert min(used) < 0.02, used  # a thread that looks for calls would use 0.2
