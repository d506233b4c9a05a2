"""What happens around a worker: a process that is killed, memory that runs out, a device that is lost under load, and
libraries that wait for the whole device."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs

X = np.arange(300, dtype=np.float32)
ROOT = Path(__file__).parents[3]
CALLERS = 8
PATIENCE = 120.0  # seconds

KILLED = """
import sys, numpy as np, vyre_cuda as vc
from tests.device import programs
name = sys.argv[1]
device = vc.Device(int(name) if name.isdigit() else name)
kernel = device.compile(programs.saxpy())
worker = device.worker([kernel], blocks=2, idle=600.0)
x = np.arange(300, dtype=np.float32)
worker.call(kernel, x, x, 2.0)
print("ready", flush=True)
while True:
    pending = [worker.submit(kernel, x, x, float(a)) for a in range(100)]
"""

LOST = """
import sys, threading, numpy as np, vyre_cuda as vc
from tests.device import programs
from vyre_cuda.testing.emulator import Emulator
device = vc.Device("emulator")
kernel = device.compile(programs.saxpy())
worker = device.worker([kernel], blocks=2, idle=30.0)
x = np.arange(300, dtype=np.float32)
told, begun = [], threading.Barrier(5)
def work():
    worker.call(kernel, x, x, 2.0)
    begun.wait()
    try:
        while True:
            pending = worker.submit(kernel, x, x, 2.0)
            worker.call(kernel, x, x, 2.0)
            pending.result()
    except vc.DeviceLostError as error:
        told.append(error)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
begun.wait()
Emulator().set("lost", 1)
for thread in threads:
    thread.join()
print(len(told))
"""


def test_another_process_works_on_when_one_with_calls_in_flight_is_killed(
    device: vc.Device, device_name: int | str
) -> None:
    words = [sys.executable, "-c", KILLED, str(device_name)]
    saxpy = device.compile(programs.saxpy())
    with (
        subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process,
        device.worker([saxpy], idle=0.5) as worker,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))
        process.kill()
        process.wait()
        for a in range(50):
            np.testing.assert_array_equal(np.float32(a + 1) * X, worker.call(saxpy, X, X, float(a)))
        device.trim()  # waits for all of the device
        np.testing.assert_array_equal(saxpy(X, X, 2.0), worker.call(saxpy, X, X, 2.0))


@pytest.mark.emulator
def test_every_thread_is_told_when_the_device_is_lost_under_load() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)

    assert done.stdout == "4\n", done.stderr


@pytest.mark.emulator
def test_calls_that_find_no_memory_are_refused_and_the_next_ones_run(emulator: Emulator) -> None:
    large = np.arange(80_000, dtype=np.float32)
    with vc.Device("emulator") as device:
        saxpy = device.compile(programs.saxpy())
        with device.worker([saxpy], idle=30.0) as worker:
            np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))
            emulator.set("host_limit", emulator.count("pinned_bytes"))
            for _ in range(3):
                with pytest.raises(MemoryError):
                    worker.call(saxpy, large, large, 2.0)
                with pytest.raises(MemoryError):
                    worker.submit(saxpy, large, large, 2.0)
                np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))
            emulator.reset()
            np.testing.assert_array_equal(3 * large, worker.call(saxpy, large, large, 2.0))


class Callers:
    """Threads that call a worker until they are told to stop."""

    def __init__(self, device: vc.Device) -> None:
        self.failures: list[BaseException] = []
        self.calls = 0
        self._over = threading.Event()
        self._saxpy = device.compile(programs.saxpy())
        self._worker = device.worker([self._saxpy], blocks=2, idle=30.0)
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(CALLERS)]

    def _work(self, number: int) -> None:
        try:
            while not self._over.is_set():
                np.testing.assert_array_equal(
                    np.float32(number + 1) * X, self._worker.call(self._saxpy, X, X, float(number))
                )
                self.calls += 1
        except BaseException as error:
            self.failures.append(error)

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._worker.close()


@pytest.mark.cuda
@pytest.mark.torch
def test_torch_waits_for_the_device_beside_calling_threads(device: vc.Device) -> None:
    import torch

    x = torch.arange(1000, device="cuda", dtype=torch.float32)
    with Callers(device) as callers:
        for turn in range(20):
            y = x * turn + 1
            torch.cuda.synchronize()
            assert y.cpu().tolist() == [float(i * turn + 1) for i in range(1000)]
    assert callers.failures == []
    assert callers.calls > 0


@pytest.mark.cuda
@pytest.mark.cupy
def test_a_first_kernel_of_cupy_beside_calling_threads(device: vc.Device) -> None:
    import cupy

    with Callers(device) as callers:
        for turn in range(5):
            source = f"y = x * {turn + 2}.0f + 1.0f"  # a kernel of its own, which is compiled and loaded
            kernel = cupy.ElementwiseKernel("float32 x", "float32 y", source, f"first_{turn}")
            found = kernel(cupy.arange(1000, dtype=cupy.float32))
            cupy.cuda.Device().synchronize()
            assert found.tolist() == [float(i * (turn + 2) + 1) for i in range(1000)]
    assert callers.failures == []
    assert callers.calls > 0
