"""A fault in the middle of a worker's kernel: who is told what. The context is lost with it, so each case has a process
of its own; on a GPU the fault is the hardware's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PATIENCE = 120.0  # seconds
FAR = 2**40  # elements behind an array, where no memory is

BEGIN = """
import json, sys, threading, numpy as np, vyre_cuda as vc
from tests.device import programs
from vyre_cuda.runtime.worker.worker import Worker

name, blocks, far = sys.argv[1], int(sys.argv[2]), np.uint64(int(sys.argv[3]))
device = vc.Device(int(name) if name.isdigit() else name)
reaching, saxpy = device.compile(programs.reach(), bounds="off"), device.compile(programs.saxpy())
worker = device.worker([reaching, saxpy], blocks=blocks, idle=30.0)
X, Y = np.arange(100, dtype=np.uint64), np.arange(100, dtype=np.float32)
near = np.uint64(0)
assert (worker.call(reaching, X, near) == X).all()
told = []

def told_by(use):
    try:
        use()
    except vc.DeviceLostError as error:
        told.append([str(error), list(error.launches)])
    else:
        told.append(None)
"""

END = """
print(json.dumps(told))
sys.stdout.flush()
"""

ONE = """
told_by(lambda: worker.call(reaching, X, far))
for use in (
    lambda: worker.call(reaching, X, near),
    lambda: worker.submit(saxpy, Y, Y, 2.0),
    lambda: saxpy(Y, Y, 2.0),
    lambda: device.array(Y),
    device.synchronize,
    worker.pause,
):
    told_by(use)
device.close()
"""

DEVICE_ARRAYS = """
x, out = device.array(X), device.array(X)
worker.call(reaching, x, out, near)
call = worker.bind(reaching, x, out, far)
told_by(call)
told_by(call)
told_by(out.numpy)
"""

WAITING = """
before = [worker.submit(saxpy, Y, Y, float(a)) for a in range(5)]
for a, one in enumerate(before):
    assert (one.result() == np.float32(a + 1) * Y).all()
worker.pause()  # until all are in the ring
waiting = [worker.submit(reaching, X, far) for _ in range(blocks)]
waiting += [worker.submit(saxpy, Y, Y, 2.0) for _ in range(3 * blocks)]
worker.resume()
threads = [threading.Thread(target=told_by, args=(one.result,)) for one in waiting]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
told_by(waiting[0].result)
"""

PART = """
b = vc.Builder("reach", block=64)
x = b.input("x", vc.u64)
out = b.output("out", vc.u64, size=x.size)
beyond, where = b.scalar("far", vc.u64), b.scalar("where", vc.u32)
i = b.let("i", vc.global_id.x)
with b.if_(i < out.size):
    out[i] = x[vc.u64(i) + vc.where(vc.block_id.x == where, beyond, vc.u64(0))]
in_one = device.compile(b.build(), bounds="off")
long = np.arange(8 * blocks * 64, dtype=np.uint64)
before = device.stats().worker_spread_calls
spread = Worker(device, [in_one, saxpy], blocks=blocks, idle=30.0, busy=30.0)  # none leaves a stop in its ring
assert (spread.call(in_one, long, near, 0) == long).all()
spread.pause()  # until all are in the ring
pending = spread.submit(in_one, long, far, 8 * blocks - 1)
assert device.stats().worker_spread_calls - before == 2
after = [spread.submit(saxpy, Y, Y, 2.0) for _ in range(2 * blocks)]
spread.resume()
told_by(pending.result)
told_by(lambda: spread.call(in_one, long, near, 0))
told_by(spread.close)
for one in after:
    told_by(one.result)
device.close()
"""


def told(name: int | str, blocks: int, code: str) -> list[Any]:
    """What each use said: message and launches; None: it went well."""
    words = [sys.executable, "-c", BEGIN + code + END, str(name), str(blocks), str(FAR)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def assert_names_the_call(one: Any) -> None:
    message, launches = one
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in message
    assert "only a new process can use it again" in message
    cause = [line for line in launches if line.startswith("reach (")]
    assert cause, launches
    assert f"far={FAR}" in cause[0]
    assert "<string>:" in cause[0]  # where the kernel was made, and where it was called


@pytest.mark.thin(2)
@pytest.mark.parametrize("blocks", [1, 3])
def test_the_call_and_all_later_ones_say_that_the_device_is_lost_and_why(device_name: int | str, blocks: int) -> None:
    found = told(device_name, blocks, ONE)

    assert len(found) == 7
    for one in found:
        assert_names_the_call(one)


@pytest.mark.thin
def test_a_bound_call_with_device_arrays_says_it(device_name: int | str) -> None:
    found = told(device_name, 1, DEVICE_ARRAYS)

    assert len(found) == 3
    for one in found:
        assert_names_the_call(one)


@pytest.mark.thin(2)
@pytest.mark.parametrize("blocks", [1, 3])
def test_every_call_that_waits_is_told(device_name: int | str, blocks: int) -> None:
    """With several blocks some calls may have ended before the fault; those with it, and those behind them in their
    blocks, have not."""
    found = told(device_name, blocks, WAITING)

    assert len(found) == 4 * blocks + 1
    assert_names_the_call(found[-1])
    lost = [one for one in found if one is not None]
    assert len(lost) >= blocks + 1
    if blocks == 1:
        assert len(lost) == len(found)
    for one in lost:
        assert_names_the_call(one)


@pytest.mark.thin(2)
def test_a_fault_in_one_part_of_a_call_is_that_of_the_call(device_name: int | str) -> None:
    """Calls behind the other parts may have ended before it."""
    found = told(device_name, 3, PART)

    assert len(found) == 9
    for one in found[:3]:
        assert_names_the_call(one)
    for one in found[3:]:
        if one is not None:
            assert_names_the_call(one)
