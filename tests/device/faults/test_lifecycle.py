"""Closing, dropping, forking, losing: a clear error each time, nothing left behind, nothing hung."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import control_c
import numpy as np
import pytest

import vyre_cuda as vc

from .. import programs

F32 = np.float32
X = np.arange(100, dtype=F32)


def run_python(code: str, device_name: int | str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, for what would poison this one."""
    head = f"""
        import sys, numpy as np, vyre_cuda as vc
        sys.path[:0] = {[os.path.dirname(module.__file__) for module in (programs, control_c)]!r}
        import programs
        from control_c import seconds_to_end, take_interrupts
        NAME = {device_name!r}
        X = np.arange(100, dtype=np.float32)
    """
    script = textwrap.dedent(head) + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize("how", ["launch", "submit", "worker"])
@pytest.mark.parametrize("known", [False, True])
def test_a_close_tells_a_fault_that_nobody_was_told(device_name: int | str, how: str, known: bool) -> None:
    done = run_python(
        f"""
        device = vc.Device(NAME)
        reach, near, far = device.compile(programs.reach(), bounds="off"), np.uint64(0), np.uint64(2**40)
        x = X.astype(np.uint64)
        worker, dx, out = device.worker([reach]), device.array(x), device.zeros(100, vc.u64)
        assert (worker.call(reach, x, near) == x).all()
        {{
            "launch": lambda: reach.launch(dx, out, far),
            "submit": lambda: reach.submit(x, far),
            "worker": lambda: worker.submit(reach, x, far),
        }}["{how}"]()
        try:
            if {known}:
                device.synchronize()
        except vc.DeviceLostError:
            print("told before")
        try:
            device.close()
        except vc.DeviceLostError as error:
            print(len(error.launches), "reach" in error.launches[0], device.is_closed)
        device.close()
        worker.close()
        """,
        device_name,
    )
    assert done.stdout == ("told before\n" if known else "1 True True\n"), done.stderr


def test_a_closed_device_refuses_everything(device_name: int | str) -> None:
    device = vc.Device(device_name)
    kernel = device.compile(programs.saxpy())
    array, stream = device.array(X), device.stream()
    out = device.zeros(100, vc.f32)
    event = stream.record()
    call = kernel.bind(array, array, out, 1.0)
    device.close()
    device.close()

    uses = {
        "call": lambda: kernel(X, X, 1.0),
        "launch": lambda: kernel.launch(array, array, out, 1.0),
        "bound": call,
        "submit": lambda: kernel.submit(X, X, 1.0),
        "timed": lambda: kernel.timed(X, X, 1.0),
        "numpy": array.numpy,
        "copy": lambda: array.copy_from(X),
        "array": lambda: device.array(X),
        "stream": device.stream,
        "record": stream.record,
        "event": event.synchronize,
        "synchronize": device.synchronize,
        "compile": lambda: device.compile(programs.add_to()),
        "stats": device.memory_stats,
    }
    for name, use in uses.items():
        with pytest.raises(vc.DeviceUnavailableError, match="closed"):
            pytest.fail(f"{name} gave {use()!r}")


@pytest.mark.emulator
def test_closing_returns_everything_to_the_driver(leak_check, device_name: int | str) -> None:
    device = vc.Device(device_name)
    kernel = device.compile(programs.saxpy())
    kernel(X, X, 1.0)
    pending = kernel.submit(X, X, 2.0)
    array, out, stream = device.array(X), device.zeros(100, vc.f32), device.stream()
    call = kernel.bind(array, array, out, 1.0, stream=stream)
    call()
    event = stream.record()

    device.close()

    assert leak_check.new() == {}, "with every Python object still there"
    assert pending is not None
    assert event is not None


@pytest.mark.emulator
def test_dropping_every_object_returns_everything_to_the_driver(leak_check, device_name: int | str) -> None:
    device = vc.Device(device_name)
    kernel = device.compile(programs.saxpy())
    array, out = device.array(X), device.zeros(100, vc.f32)
    kernel.launch(array, array, out, 1.0)
    kernel(X, X, 1.0)
    kernel.submit(X, X, 1.0)

    del array, out, kernel, device
    gc.collect()

    assert leak_check.new() == {}


def test_arrays_outlive_their_device_object(device_name: int | str) -> None:
    array = vc.Device(device_name).array(X)
    gc.collect()

    np.testing.assert_array_equal(X, array.numpy())


def test_an_array_of_another_device_is_refused(device_name: int | str) -> None:
    with vc.Device(device_name) as one, vc.Device(device_name) as other:
        x, out = one.array(X), one.zeros(100, vc.f32)
        foreign = other.array(X)

        with pytest.raises(ValueError):
            one.compile(programs.saxpy()).launch(x, foreign, out, 1.0)
        x.copy_from(foreign)  # a copy takes arrays of other devices
        np.testing.assert_array_equal(x.numpy(), X)


def test_a_device_may_be_closed_while_others_call_it(device_name: int | str) -> None:
    device = vc.Device(device_name)
    kernel = device.compile(programs.saxpy())
    wrong: list[BaseException] = []

    def work() -> None:
        try:
            while True:
                np.testing.assert_array_equal(X + X, kernel(X, X, 1.0))
        except vc.DeviceUnavailableError:
            return
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        kernel(X, X, 1.0)
    device.close()
    for thread in threads:
        thread.join(60)

    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_many_threads_share_a_kernel(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    wrong: list[str] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).standard_normal(777).astype(F32)
        for turn in range(30):
            a = float(seed * 100 + turn)
            if not np.array_equal(kernel(x, x, a), F32(a) * x + x):
                wrong.append(f"{seed} {turn}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert wrong == []


def test_many_threads_share_a_bound_call(device: vc.Device) -> None:
    h, one = device.zeros(1000, vc.i32), device.array(np.ones(1000, np.int32))
    call = device.compile(programs.add_to()).bind(h, one)

    threads = [threading.Thread(target=lambda: [call() for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    np.testing.assert_array_equal(np.full(1000, 200), h.numpy())


def test_a_forked_child_gets_an_error_and_ends(device_name: int | str) -> None:
    done = run_python(
        """
        import os, warnings
        warnings.simplefilter("ignore")
        device = vc.Device(NAME)
        kernel = device.compile(programs.saxpy())
        array = device.array(X)
        child = os.fork()
        if child == 0:
            failures = 0
            for use in (lambda: kernel(X, X, 1.0), array.numpy, device.synchronize, device.stream):
                try:
                    use()
                except vc.DeviceUnavailableError as error:
                    failures += "fork" in str(error)
            device.close()
            os._exit(failures)
        status = os.waitpid(child, 0)[1]
        assert (kernel(X, X, 1.0) == X + X).all()
        print(os.waitstatus_to_exitcode(status))
        """,
        device_name,
    )

    assert done.stdout.strip() == "4", done.stderr


def test_a_process_may_end_with_work_in_flight(device_name: int | str) -> None:
    done = run_python(
        """
        device = vc.Device(NAME)
        kernel = device.compile(programs.saxpy())
        pending = [kernel.submit(X, X, 1.0) for _ in range(20)]
        array, out = device.array(X), device.zeros(100, vc.f32)
        kernel.launch(array, array, out, 1.0)
        print("end")
        """,
        device_name,
    )

    assert (done.returncode, done.stdout.strip()) == (0, "end"), done.stderr


def test_without_a_driver_the_error_names_the_library(device_name: int | str) -> None:
    done = run_python(
        """
        try:
            vc.Device()
        except vc.DeviceUnavailableError as error:
            print("no/such/libcuda.so" in str(error))
        print(sorted({d.kind for d in vc.devices()}))
        """,
        device_name,
        VYRE_CUDA_DRIVER="no/such/libcuda.so",
    )

    assert done.stdout.split("\n")[:2] == ["True", "['emulator']"], done.stderr


def test_auto_takes_the_emulator_with_a_warning_when_there_is_no_gpu(device_name: int | str) -> None:
    done = run_python(
        """
        import warnings
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            device = vc.Device("auto")
        print(device.properties.is_emulator, [w.category.__name__ for w in seen], seen[0].filename == "<string>")
        """,
        device_name,
        VYRE_CUDA_DRIVER="no/such/libcuda.so",
        VYRE_CUDA_REQUIRE_GPU="",
        VYRE_CUDA_DEVICE="",
    )

    assert done.stdout.strip() == "True ['RuntimeWarning'] True", done.stderr


def test_the_warning_is_at_the_line_of_the_user_who_calls_a_kernel(device_name: int | str, tmp_path: Path) -> None:
    file = tmp_path / "first.py"
    file.write_text(
        "import numpy as np\nimport vyre_cuda as vc\n\n@vc.kernel\ndef f(x: vc.InOut[vc.f32]):\n    x[0] = 1\n\n"
        "f(np.zeros(1, np.float32))\nvc.default_device()\n"
    )
    done = run_python(
        f"import runpy; runpy.run_path({str(file)!r})",
        device_name,
        VYRE_CUDA_DRIVER="no/such/libcuda.so",
        VYRE_CUDA_REQUIRE_GPU="",
        VYRE_CUDA_DEVICE="",
    )

    assert done.stderr.count("RuntimeWarning") == 1
    assert f"{file}:8: RuntimeWarning" in done.stderr


def test_auto_fails_when_a_gpu_is_required(device_name: int | str) -> None:
    done = run_python(
        """
        try:
            vc.Device("auto")
        except vc.DeviceUnavailableError as error:
            print("VYRE_CUDA_REQUIRE_GPU" in str(error))
        """,
        device_name,
        VYRE_CUDA_DRIVER="no/such/libcuda.so",
        VYRE_CUDA_REQUIRE_GPU="1",
    )

    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.thin
def test_auto_takes_what_the_environment_names(device_name: int | str) -> None:
    done = run_python("print(vc.Device('auto').properties.is_emulator)", device_name, VYRE_CUDA_DEVICE="emulator")

    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.parametrize(("error", "which"), [(vc.DeviceUnavailableError, 99), (ValueError, "gpu"), (TypeError, 1.5)])
def test_a_device_that_is_not_there(device_name: int | str, error, which) -> None:
    if which == 99 and device_name == "emulator":
        from vyre_cuda._native.core.context import Context
        from vyre_cuda.runtime.base.device_selection import emulator_driver

        with pytest.raises(error, match="99"):
            Context(emulator_driver(), 99)
    else:
        with pytest.raises(error):
            vc.Device(which)


def test_a_kernel_fault_loses_the_device_and_says_so(device_name: int | str) -> None:
    done = run_python(
        """
        b = vc.Builder("wild")
        x = b.input("x", vc.u32)
        out = b.output("out", vc.u32, size=x.size)
        i = b.let("i", vc.global_id.x)
        out[i + 0x3FFFFFF0] = x[i]
        device = vc.Device(NAME)
        kernel = device.compile(b.build(), bounds="off")
        good = device.compile(programs.saxpy())
        x = device.array(np.zeros(100, np.uint32)); y = device.zeros(100, vc.u32)
        kernel.launch(x, y)
        for use in (device.synchronize, y.numpy, lambda: good(X, X, 1.0), lambda: device.array(X)):
            try:
                use()
                print("no error")
            except vc.DeviceLostError as error:
                print("wild" in str(error))
        device.close()
        """,
        device_name,
    )

    assert done.stdout.split() == ["True"] * 4, done.stderr
    assert done.returncode == 0
