"""Waits end by Ctrl-C and by their timeout, whatever is waited for; a kernel that never ends holds nobody up.

The kernels of these tests end by themselves after three minutes or more, their processes long before: the limits of
these tests are far from both, so that a busy machine keeps them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from .test_lifecycle import run_python

FOREVER = 4_000_000_000  # looks at a flag
FLAG = np.zeros(1, np.uint32)
X = np.arange(100, dtype=np.float32)

# A device with a kernel that hangs on the main stream, on a stream of its own and in a submitted call.
HUNG = f"""
    import asyncio, time
    take_interrupts()
    FOREVER = {FOREVER} if NAME == "emulator" else {FOREVER} // 10  # a look from a GPU takes longer
    device = vc.Device(NAME)
    spin, saxpy = device.compile(programs.spin()), device.compile(programs.saxpy())
    flag, other = device.zeros(1, vc.u32), device.zeros(1, vc.u32)
    x = device.array(X)
    stream = device.stream()
    spare = device.zeros(1, vc.u32)
    with device.record() as graph:
        spare.fill(1)
    device.synchronize()
    host = np.zeros(1, np.uint32)

    def hang():
        global pending, event
        spin.launch(flag, FOREVER)
        spin.launch(other, FOREVER, stream=stream)
        pending, event = spin.submit(host, FOREVER), stream.record()
"""

LIMIT = 100.0  # seconds; the kernels take longer


def run_hung(device_name: int | str, code: str) -> list[str]:
    """The lines that the program prints; it must end well, and before its kernels do."""
    begin = time.monotonic()
    done = run_python(HUNG + code, device_name)
    took = time.monotonic() - begin
    assert done.returncode == 0, f"after {took:.1f} s: {done.stdout}{done.stderr}"
    assert took < LIMIT, done.stdout
    return done.stdout.split("\n")[:-1]


@pytest.mark.thin
@pytest.mark.slow
def test_every_wait_ends_with_its_timeout(device_name: int | str) -> None:
    lines = run_hung(
        device_name,
        """
    hang()
    waits = {
        "result": lambda: pending.result(timeout=0.1),
        "device": lambda: device.synchronize(timeout=0.1),
        "stream": lambda: stream.synchronize(timeout=0.1),
        "event": lambda: event.synchronize(timeout=0.1),
        "now": lambda: device.synchronize(timeout=0),
        "close": lambda: device.close(timeout=0.1),
    }
    for name, wait in waits.items():
        try:
            wait()
        except vc.KernelTimeoutError as error:
            print(name, isinstance(error, TimeoutError))
        """,
    )

    assert lines == [f"{name} True" for name in ("result", "device", "stream", "event", "now", "close")]


@pytest.mark.thin
@pytest.mark.slow
def test_every_wait_ends_with_control_c(device_name: int | str) -> None:
    lines = run_hung(
        device_name,
        """
    hang()
    y = device.zeros(100, vc.f32)
    large = device.empty(2 << 20, vc.u8)  # its copy goes in pieces, which wait for each other
    waits = {
        "call": lambda: spin(host, FOREVER),
        "timed": lambda: spin.timed(host, FOREVER),
        "result": lambda: pending.result(),
        "numpy": lambda: y.numpy(),
        "copy_from": lambda: large.copy_from(np.zeros(2 << 20, np.uint8)),
        "fill": lambda: other.copy_from(flag),
        "device": lambda: device.synchronize(),
        "stream": lambda: stream.synchronize(),
        "graph": lambda: graph.timed(stream=stream),
        "event": lambda: event.synchronize(),
        "close": lambda: device.close(timeout=None),
    }
    for name, wait in waits.items():
        print(name, seconds_to_end(wait) < 30)
    print((saxpy(X, X, 1.0) == X + X).all())

    async def wait():
        return await saxpy.submit(X, X, 2.0)
    print((asyncio.run(wait()) == 3 * X).all())
        """,
    )

    names = ["call", "timed", "result", "numpy", "copy_from", "fill", "device", "stream", "graph", "event", "close"]
    assert lines == [*(f"{name} True" for name in names), "True", "True"]


@pytest.mark.thin
@pytest.mark.slow
def test_waits_after_a_kernel_that_prints_end_with_their_timeout_and_control_c(device_name: int | str) -> None:
    """They also wait for the device's own stream, where another kernel hangs."""
    lines = run_hung(
        device_name,
        """
    b = vc.Builder("teller", block=1)
    b.work(1)
    b.print("here")
    teller = device.compile(b.build())
    teller.launch(stream=stream)
    stream.synchronize()
    spin.launch(flag, FOREVER)
    teller.launch(stream=stream)
    event = stream.record()

    for name, wait in {"stream": stream.synchronize, "event": event.synchronize}.items():
        begin = time.monotonic()
        try:
            wait(timeout=0.1)
        except vc.KernelTimeoutError:
            print(name, time.monotonic() - begin < 30)
        print(name, seconds_to_end(wait) < 30)
        """,
    )

    assert [line for line in lines if line != "here"] == ["stream True", "stream True", "event True", "event True"]


@pytest.mark.thin
@pytest.mark.slow
def test_a_process_ends_with_hung_kernels_and_nothing_closed(device_name: int | str) -> None:
    assert run_hung(device_name, "    hang()\n    print('end')\n") == ["end"]


@pytest.mark.thin
@pytest.mark.slow
def test_objects_with_hung_work_can_be_dropped_in_any_order(device_name: int | str) -> None:
    lines = run_hung(
        device_name,
        """
    import gc
    hang()
    call = spin.bind(flag, FOREVER)
    call()
    device.context.set_patience(0.1)
    for name in ("flag", "pending", "stream", "spin", "call", "event", "x", "saxpy", "other", "device"):
        del globals()[name]
        gc.collect()
    print("end")
        """,
    )

    assert lines == ["end"]


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.emulator  # while a kernel hangs, the CUDA driver holds whoever loads code or allocates (H200, driver 580)
def test_an_abandoned_device_can_be_opened_again(device_name: int | str) -> None:
    lines = run_hung(
        device_name,
        """
    hang()
    try:
        device.close(timeout=0.1)
    except vc.KernelTimeoutError:
        print("abandoned")
    for use in (device.synchronize, lambda: pending.result(), flag.numpy, lambda: device.array(X)):
        try:
            use()
        except vc.DeviceUnavailableError:
            print("closed")
    device.close()
    again = vc.Device(NAME)
    print((again.compile(programs.saxpy())(X, X, 2.0) == 3 * X).all())
        """,
    )

    assert lines == ["abandoned", "closed", "closed", "closed", "closed", "True"]


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.emulator  # as above
def test_a_close_takes_its_timeout_once_and_a_second_device_pays_nothing(device_name: int | str) -> None:
    lines = run_hung(
        device_name,
        """
    second = vc.Device(NAME)
    kernel = second.compile(programs.saxpy())
    hang()
    del spin, pending  # the kernel is the device's alone
    begin = time.monotonic()
    try:
        device.close(timeout=1)
    except vc.KernelTimeoutError as error:
        print("has not ended after 1 s" in str(error), "abandoned" in str(error), len(error.launches) > 0)
    print((kernel(X, X, 2.0) == 3 * X).all())
    second.close()
    print(time.monotonic() - begin < 60)
        """,
    )

    assert lines == ["True True True", "True", "True"]


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
def test_an_exception_leaves_the_block_of_a_device_whose_kernel_hangs(device_name: int | str) -> None:
    lines = run_hung(
        device_name,
        """
    begin = time.monotonic()
    try:
        with device:
            hang()
            raise ZeroDivisionError
    except ZeroDivisionError as error:
        print("work on device 0 has not ended" in error.__notes__[0], error.__context__)
    print(time.monotonic() - begin < 60)
        """,
    )

    assert lines == ["True None", "True"]


@pytest.mark.thin
@pytest.mark.slow
def test_the_command_line_ends_soon_after_control_c(tmp_path: Path, device_name: int | str) -> None:
    file = tmp_path / "spin.py"
    file.write_text("import programs\nspin = programs.spin()\n")
    command = [sys.executable, "-m", "vyre_cuda", "run", str(file), "0", str(FOREVER), "--device", str(device_name)]
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(programs.__file__)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("device:")

    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=LIMIT)

    assert process.returncode == 130, told
    assert "interrupted" in told


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
@pytest.mark.parametrize(
    "wait",
    [
        f"spin(host, {FOREVER})",
        f"spin.launch(device.zeros(1, vc.u32), {FOREVER}); device.synchronize()",
        f"worker.call(spin, host, {FOREVER})",
    ],
    ids=["call", "synchronize", "worker"],
)
def test_an_interrupt_names_the_kernel_that_goes_on(device_name: int | str, wait: str) -> None:
    done = run_python(
        f"""
    import os
    from control_c import interrupted
    take_interrupts()
    device = vc.Device(NAME)
    spin, host = device.compile(programs.spin()), np.zeros(1, np.uint32)
    worker = device.worker([spin])

    def wait():
        {wait}

    print(*interrupted(wait).__notes__, flush=True)
    os._exit(0)  # the kernel hangs on
        """,
        device_name,
    )

    (told,) = done.stdout.splitlines() or [done.stderr]
    assert "device 0 goes on with spin (" in told
    assert ", launched at <string>:" in told
    assert told.endswith("timeout= limits a wait for what may not end")


@pytest.mark.slow
@pytest.mark.long  # 64 kernels that spin on two cores
@pytest.mark.emulator  # as above: the lanes of 64 runs allocate
def test_a_full_house_of_hung_runs_does_not_hold_submit_for_ever(device_name: int | str) -> None:
    lines = run_hung(
        device_name,
        """
    runs = [spin.submit(host, FOREVER) for _ in range(64)]
    print(seconds_to_end(lambda: spin.submit(host, FOREVER)) is not None)
        """,
    )

    assert lines == ["True"]


@pytest.mark.slow
def test_an_interrupted_device_is_usable_once_the_kernel_has_ended(
    leak_check, device_name: int | str, emulator: Emulator
) -> None:
    with vc.Device(device_name) as device:
        kernel = device.compile(programs.spin())
        emulator.set("held", 1)
        pending = kernel.submit(FLAG, 2_000_000)
        with pytest.raises(vc.KernelTimeoutError):
            pending.result(timeout=0)
        del pending
        emulator.set("held", 0)

        np.testing.assert_array_equal(FLAG, kernel(FLAG, 10))
        np.testing.assert_array_equal(X + X, device.compile(programs.saxpy())(X, X, 1.0))
        device.synchronize()


def test_what_was_given_up_is_freed_by_a_close_after_its_end(leak_check, device_name: int | str) -> None:
    device = vc.Device(device_name)
    flag, stream = device.zeros(1, vc.u32), device.stream()
    device.context.set_patience(0)
    kernel = device.compile(programs.spin())
    kernel.submit(FLAG, 2_000_000)
    kernel.launch(flag, 2_000_000, stream=stream)

    device._kernels.clear()
    del kernel, stream, flag  # with work that may still run: leaked
    device.close(timeout=None)
