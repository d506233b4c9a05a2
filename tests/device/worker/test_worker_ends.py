"""How workers end: by a close, with their device, by a fault, in a forked child and with their process."""

from __future__ import annotations

import os
import sys
import time

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.runtime.worker.worker import Worker

from .. import programs

F32 = np.float32
X = np.arange(300, dtype=F32)
IDLE = 0.2  # seconds


def test_a_closed_worker_refuses_calls(device: vc.Device, saxpy: vc.Kernel) -> None:
    worker = device.worker([saxpy], idle=IDLE)
    pending = [worker.submit(saxpy, X, X, float(a)) for a in range(10)]
    worker.close()
    worker.close()

    for a, one in enumerate(pending):
        np.testing.assert_array_equal(F32(a + 1) * X, one.result())
    with pytest.raises(vc.Error, match="closed"):
        worker.call(saxpy, X, X, 2.0)
    with pytest.raises(vc.Error, match="closed"):
        worker.submit(saxpy, X, X, 2.0)


def test_a_close_finishes_what_waits_for_resume(device: vc.Device, saxpy: vc.Kernel) -> None:
    with Worker(device, [saxpy], idle=IDLE, busy=1e-4) as worker:
        worker.pause()
        pending = [worker.submit(saxpy, X, X, float(a)) for a in range(30)]
    for a, one in enumerate(pending):
        np.testing.assert_array_equal(F32(a + 1) * X, one.result())


def test_a_closed_device_ends_its_workers(device_name: int | str) -> None:
    with vc.Device(device_name) as device:
        kernel = device.compile(programs.saxpy())
        worker = device.worker([kernel], idle=30.0)
        worker.call(kernel, X, X, 2.0)
        pending = worker.submit(kernel, X, X, 3.0)
        dropped = device.worker([kernel], idle=30.0)
        dropped.call(kernel, X, X, 2.0)
        del dropped
    with pytest.raises(vc.DeviceUnavailableError):
        worker.call(kernel, X, X, 2.0)
    np.testing.assert_array_equal(4 * X, pending.result())


@pytest.mark.emulator
def test_a_fault_is_reported_to_every_call(device_name: int | str) -> None:
    code = f"""
import os, numpy as np, vyre_cuda as vc
from tests.device import programs
from vyre_cuda.testing.emulator import Emulator
device = vc.Device({device_name!r})
kernel = device.compile(programs.saxpy())
x = np.arange(300, dtype=np.float32)
worker = device.worker([kernel], idle=30.0)
worker.call(kernel, x, x, 2.0)
worker.pause()
pending = [worker.submit(kernel, x, x, 2.0) for _ in range(3)]
Emulator().set("lost", 1)
for one in pending:
    try:
        one.result()
    except vc.DeviceLostError as error:
        print("lost", "saxpy" in str(error) or any("saxpy" in line for line in error.launches))
"""
    found = run_python(code)
    assert found.splitlines() == ["lost True"] * 3


def run_python(code: str) -> str:
    import subprocess
    import sys
    from pathlib import Path

    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_worker_can_be_closed_after_its_device(device_name: int | str) -> None:
    with vc.Device(device_name) as device:
        kernel = device.compile(programs.saxpy())
        worker = device.worker([kernel])
        worker.call(kernel, X, X, 2.0)
    worker.close()
    with worker:
        pass


@pytest.mark.emulator
def test_what_leaves_a_with_block_is_not_replaced_by_an_error_of_the_close(device_name: int | str) -> None:
    code = f"""
import os, numpy as np, vyre_cuda as vc
from tests.device import programs
from vyre_cuda.testing.emulator import Emulator
device = vc.Device({device_name!r})
kernel = device.compile(programs.saxpy())
x = np.arange(300, dtype=np.float32)
try:
    with device.worker([kernel], idle=30.0) as worker:
        worker.pause()
        pending = worker.submit(kernel, x, x, 2.0)
        Emulator().set("lost", 1)
        raise RuntimeError("own")
except RuntimeError as error:
    notes = getattr(error, "__notes__", ["closing the worker: device 0 is lost"])  # there are none before Python 3.11
    print(error, *(note.startswith("closing the worker: device 0 is lost") for note in notes))
"""
    assert run_python(code) == "own True\n"


def test_a_pause_that_was_not_over_in_time_says_what_to_do(device: vc.Device) -> None:
    spin = device.compile(programs.spin())
    with device.worker([spin]) as worker:
        pending = worker.submit(spin, np.zeros(1, np.uint32), 1_000_000)  # 50 ms or more
        with pytest.raises(vc.KernelTimeoutError, match=r"is paused, but .* resume\(\) undoes this pause"):
            worker.pause(timeout=0.0)
        worker.pause(timeout=100.0)
        assert worker.stats().running == 0
        assert pending.done()
        worker.resume()
        worker.resume()
        assert worker.call(spin, np.ones(1, np.uint32), 1) == [1]


def test_any_time_without_a_call_can_be_given(device: vc.Device, saxpy: vc.Kernel) -> None:
    with device.worker([saxpy], idle=1e-12) as worker:
        np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))


def test_a_forked_child_cannot_use_it(worker: vc.Worker, saxpy: vc.Kernel) -> None:
    worker.call(saxpy, X, X, 2.0)
    child = os.fork()
    if child == 0:
        try:
            worker.call(saxpy, X, X, 2.0)
        except vc.DeviceUnavailableError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))


def test_a_forked_child_leaves_the_block_of_a_with_statement(worker: vc.Worker, saxpy: vc.Kernel) -> None:
    worker.call(saxpy, X, X, 2.0)
    child = os.fork()
    if child == 0:
        try:
            with worker:
                pass
            worker.close()
        finally:
            os._exit(0 if sys.exc_info()[0] is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))


def test_a_process_ends_with_a_worker_on_the_device(device_name: int | str) -> None:
    code = f"""
import numpy as np, vyre_cuda as vc
from tests.device import programs
device = vc.Device({device_name!r})
kernel = device.compile(programs.saxpy())
worker = device.worker([kernel], idle=300.0)
x = np.arange(300, dtype=np.float32)
print(worker.call(kernel, x, x, 2.0)[2])
"""
    begin = time.monotonic()
    assert run_python(code).strip() == "6.0"
    assert time.monotonic() - begin < 100
