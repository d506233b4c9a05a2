"""Outs with `zeroed=False`: nothing is cleared for them, and what is not written shows nothing that was freed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

pytestmark = pytest.mark.device

FILLED = 0xA5A5A5A5
LARGE = 1 << 20  # bytes from which on results are page-locked, or copied by the driver


def scatter(size: int, *, zeroed: bool = False, block: int = 32) -> vc.Program:
    """out[at[i]] = i"""
    b = vc.Builder("scatter", block=block)
    at = b.input("at", vc.u32)
    out = b.output("out", vc.u32, size=size, zeroed=zeroed)
    with b.if_(vc.global_id.x < at.size):
        out[at[vc.global_id.x]] = vc.global_id.x
    b.work(at.size)
    return b.build()


def streamed(size: int) -> vc.Program:
    """out[i] = 1 for the first elements, as many as `x` has: each element is written at most once, in order."""
    b = vc.Builder("streamed", block=32)
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=size, zeroed=False)
    with b.if_(vc.global_id.x < x.size):
        out[vc.global_id.x] = x[vc.global_id.x]
    b.work(x.size)
    return b.build()


def fills(device: vc.Device) -> int:
    return device.stats().fill_bytes


def secret_array(device: vc.Device, size: int, value: int) -> vc.DeviceArray:
    array = device.empty(size, vc.u32)
    array.fill(value)
    return array


def test_a_launch_leaves_what_the_array_holds(own_device: vc.Device) -> None:
    kernel = own_device.compile(scatter(8))
    at, out = own_device.array(np.array([5, 2], np.uint32)), secret_array(own_device, 8, 77)
    before = fills(own_device)

    kernel.launch(at, out)
    own_device.synchronize()

    assert fills(own_device) == before
    assert out.numpy().tolist() == [77, 77, 1, 77, 77, 0, 77, 77]


def test_a_bound_call_and_a_graph_have_nothing_to_clear(own_device: vc.Device) -> None:
    kernel = own_device.compile(scatter(8))
    at = own_device.array(np.array([5, 2], np.uint32))
    outs = [secret_array(own_device, 8, 77) for _ in range(2)]
    expected = [77, 77, 1, 77, 77, 0, 77, 77]
    with own_device.record() as graph:
        kernel.launch(at, outs[1])
    before = fills(own_device)

    kernel.bind(at, outs[0])()
    graph.replay()
    own_device.synchronize()

    assert fills(own_device) == before
    assert [out.numpy().tolist() for out in outs] == [expected, expected]


def called(kernel: vc.Kernel, *arguments: Any) -> Any:
    return kernel(*arguments)


def submitted(kernel: vc.Kernel, *arguments: Any) -> Any:
    return kernel.submit(*arguments).result()


def timed(kernel: vc.Kernel, *arguments: Any) -> Any:
    return kernel.timed(*arguments).outputs


def written_to_own_memory(kernel: vc.Kernel, *arguments: Any) -> Any:
    size = vc.evaluate(kernel.program, *arguments).size
    return kernel(*arguments, out=np.zeros(size, np.uint32))


def recorded(kernel: vc.Kernel, *arguments: Any) -> Any:
    call = kernel.record(*arguments)
    return call.replay(*arguments)


@pytest.mark.parametrize("size", [8, 5000, LARGE // 4 + 7], ids=["small", "middle", "large"])
@pytest.mark.parametrize("count", [2, 3000], ids=["few", "many"])
@pytest.mark.parametrize("run", [called, submitted, timed, written_to_own_memory, recorded])
def test_runs_on_host_arrays_write_what_the_interpreter_writes(
    own_device: vc.Device, run: Callable[..., Any], size: int, count: int
) -> None:
    """On the emulator also where nothing is written."""
    at = np.random.default_rng(1).permutation(max(size, count))[:count].astype(np.uint32)
    at = at[at < size]
    kernel = own_device.compile(scatter(size))
    expected = vc.evaluate(kernel.program, at)
    for _ in range(2):
        found = run(kernel, at)

        np.testing.assert_array_equal(found[at], np.arange(at.size))
        if own_device.properties.is_emulator:
            np.testing.assert_array_equal(found, expected)


@pytest.mark.emulator
@pytest.mark.parametrize("grid", [None, 1])
def test_without_threads_that_write_all_of_it_is_unspecified(own_device: vc.Device, grid: int | None) -> None:
    kernel = own_device.compile(scatter(8))

    assert kernel(np.zeros(0, np.uint32), grid=grid).tolist() == [FILLED] * 8


@pytest.mark.parametrize("program", [scatter(LARGE // 2), streamed(LARGE // 2)], ids=["scattered", "streamed"])
def test_freed_page_locked_memory_is_not_shown(own_device: vc.Device, program: vc.Program) -> None:
    secret = 0xC0FFEE11
    for _ in range(3):
        locked = own_device.pinned_empty(LARGE // 2, vc.u32)
        locked[:] = secret
        del locked
    kernel = own_device.compile(program)

    found = kernel(np.arange(4, dtype=np.uint32))
    small = own_device.compile(scatter(64))(np.arange(4, dtype=np.uint32))

    assert secret not in found
    assert secret not in small


def test_an_argument_of_an_earlier_call_is_not_shown_in_mapped_memory(own_device: vc.Device) -> None:
    """What the kernel accesses little of is used in the page-locked memory of its runs."""
    secret = 0xC0FFEE11
    b = vc.Builder("both", block=32)
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=64, zeroed=False)
    with b.if_(vc.global_id.x < 4):
        out[vc.global_id.x] = x[vc.global_id.x] & 1
    kernel = own_device.compile(b.build())
    kernel(np.full(640, secret, np.uint32))

    assert secret not in kernel(np.zeros(1, np.uint32))


def test_device_memory_of_runs_is_written_before_it_is_shown(own_device: vc.Device) -> None:
    """The driver does not say what new memory holds; on the emulator each run fills what it shows."""
    kernel = own_device.compile(scatter(5000))
    at = np.arange(4990, dtype=np.uint32)[::-1].copy()
    each_run = 4 * 5000 if own_device.properties.is_emulator else 0
    before = fills(own_device)
    kernel(at)
    first = fills(own_device) - before
    kernel(at)
    second = fills(own_device) - before - first

    assert second == each_run
    assert first >= 4 * 5000 + each_run


def test_a_launch_that_writes_all_fills_nothing(own_device: vc.Device) -> None:
    kernel = own_device.compile(streamed(64))
    before = fills(own_device)

    found = kernel(np.arange(64, dtype=np.uint32), grid=2)

    assert found.tolist() == list(range(64))
    assert fills(own_device) == before


def test_a_bundle_keeps_it(own_device: vc.Device, tmp_path: Path) -> None:
    path = tmp_path / "one.vyre"
    vc.bundle(scatter(8), path, targets=["sm_75", "sm_90"], cubins=False)
    kernel = vc.load_bundle(path).on(own_device)["scatter"]
    at, out = own_device.array(np.array([5], np.uint32)), secret_array(own_device, 8, 77)

    kernel.launch(at, out)

    assert [p.zeroed for p in kernel.program.parameters] == [True, False]
    assert int.from_bytes(path.read_bytes()[8:12], "little") == 4
    assert out.numpy().tolist() == [77] * 5 + [0, 77, 77]


def test_kernels_for_known_values_keep_it(own_device: vc.Device) -> None:
    kernel = own_device.compile(scatter(8), specialize={"at.size": 1})
    at, out = own_device.array(np.array([5], np.uint32)), secret_array(own_device, 8, 77)

    kernel.launch(at, out)

    assert out.numpy().tolist() == [77] * 5 + [0, 77, 77]


def test_a_cached_kernel_keeps_it(opened: Callable[[], vc.Device]) -> None:
    for _ in range(2):
        device = opened()
        kernel = device.compile(scatter(8))
        at, out = device.array(np.array([5], np.uint32)), secret_array(device, 8, 77)
        kernel.launch(at, out)

        assert out.numpy().tolist() == [77] * 5 + [0, 77, 77]
