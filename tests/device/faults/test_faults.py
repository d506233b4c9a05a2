"""Driver calls that fail: what is raised, tried again, left behind. `fault_sweep` lets every call fail in turn."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import STREAM_MODES, Emulator

from .. import programs

pytestmark = pytest.mark.emulator

X = np.arange(300, dtype=np.float32)
CUDA_ERROR_UNKNOWN = 999
CUDA_ERROR_OUT_OF_MEMORY = 2
CUDA_ERROR_NOT_SUPPORTED = 801


def session() -> None:
    """A bit of everything, checked."""
    with vc.Device("emulator") as device:
        kernel = device.compile(programs.saxpy())
        for a in (1.0, 2.0, 3.0):
            np.testing.assert_array_equal(np.float32(a) * X + X, kernel(X, X, a))
        hist = device.compile(programs.histogram())
        counts = hist(np.zeros(16, np.uint32), np.arange(160, dtype=np.uint32))
        np.testing.assert_array_equal(np.full(16, 10), counts)
        pending = kernel.submit(X, X, 4.0)
        x, out = device.array(X), device.zeros(300, vc.f32)
        stream = device.stream()
        for a in (5.0, 6.0, 7.0):
            kernel.launch(x, x, out, a)
        call = kernel.bind(x, x, out, 8.0, stream=stream)
        device.synchronize()
        start = stream.record()
        call()
        stop = stream.record()
        stop.synchronize()
        assert stop.elapsed_ms(start) >= 0
        assert stop.query()
        device.stream().wait(stop)
        np.testing.assert_array_equal(np.float32(8) * X + X, out.numpy())
        out.copy_from(x)
        out.free()
        second = device.compile(programs.every_second())
        spread = device.zeros(600, vc.u32)
        second.launch(device.array(np.arange(300, dtype=np.uint32)), spread)
        np.testing.assert_array_equal(np.arange(300), spread.numpy()[::2])
        np.testing.assert_array_equal(np.float32(4) * X + X, pending.result())
        page_locked = device.pinned_empty(300, vc.f32)
        np.testing.assert_array_equal(X + X, kernel(device.register(X.copy()), X, 1.0, out=page_locked))
        kernel.timed(X, X, 1.0)
        assert kernel.attributes.registers > 0


def test_the_session_is_clean_by_itself_in_every_stream_mode(emulator: Emulator, leak_check) -> None:
    for mode in STREAM_MODES:
        emulator.stream_mode(mode)
        session()
        gc.collect()
        assert leak_check.new() == {}


def attempt(emulator: Emulator, run: Callable[[], None]) -> str | None:
    """The name of the error class, None when it went well, a text for anything but our errors."""
    try:
        run()
    except vc.Error as error:
        return type(error).__name__
    return None


@pytest.mark.parametrize("call", ["cuMemAlloc", "cuMemHostAlloc"])
def test_out_of_memory_is_tried_again_once(emulator: Emulator, leak_check, call: str) -> None:
    for nth in range(1, 12):
        emulator.reset()
        emulator.fail(call, nth=nth, result=CUDA_ERROR_OUT_OF_MEMORY)
        session()


@pytest.mark.thin(2)
@pytest.mark.parametrize("call", ["cuMemAlloc", "cuMemHostAlloc"])
def test_lasting_lack_of_memory_is_a_resource_error_with_numbers(emulator: Emulator, leak_check, call: str) -> None:
    for nth in range(1, 8):
        emulator.reset()
        emulator.fail(call, nth=nth, result=CUDA_ERROR_OUT_OF_MEMORY, repeat=True)
        outcome = attempt(emulator, session)
        gc.collect()
        assert outcome in {"ResourceError", None}
        assert leak_check.new() == {}


def test_a_device_recovers_from_one_failed_call_of_each_kind(emulator: Emulator) -> None:
    with vc.Device("emulator") as device:
        kernel = device.compile(programs.saxpy())
        kernel(X, X, 1.0)
        for call, use in (
            ("cuGraphExecKernelNodeSetParams", kernel),
            ("cuGraphLaunch", kernel),
            ("cuStreamQuery", kernel.timed),
            ("cuLaunchKernel", kernel.timed),
        ):
            emulator.fail(call, result=CUDA_ERROR_UNKNOWN)
            with pytest.raises(vc.DriverError) as caught:
                use(X, X, 9.0)
            assert (caught.value.op, caught.value.status) == (call, CUDA_ERROR_UNKNOWN)
            np.testing.assert_array_equal(np.float32(3) * X + X, kernel(X, X, 3.0))


def test_a_device_without_writes_in_graphs_is_waited_for_by_its_stream(emulator: Emulator) -> None:
    with vc.Device("emulator") as device:
        emulator.fail("cuGraphAddBatchMemOpNode", result=CUDA_ERROR_NOT_SUPPORTED)
        kernel = device.compile(programs.saxpy())
        for a in (1.0, 2.0):
            np.testing.assert_array_equal(np.float32(a) * X + X, kernel(X, X, a))


def test_a_driver_too_old_for_the_library_is_named(emulator: Emulator) -> None:
    emulator.set("driver_version", 11080)

    with pytest.raises(vc.DeviceUnavailableError, match=r"12\.0"):
        vc.Device("emulator")


def test_an_emulator_without_a_device_says_so(emulator: Emulator) -> None:
    emulator.set("device_count", 0)

    with pytest.raises(vc.DeviceUnavailableError, match="has no device"):
        vc.Device("emulator")


def test_a_refused_module_carries_log_and_text(device: vc.Device) -> None:
    from vyre_cuda._native.core.module import Module

    with pytest.raises(vc.CompileError) as caught:
        Module(device.context, b".version 8.0\n.target sm_90\n.address_size 64\nnonsense;\n")

    assert "line 4" in caught.value.log
    assert "nonsense" in caught.value.ptx
    assert caught.value.op == "cuModuleLoadDataEx"
