"""Kernels that are compiled side by side before they are needed, and how long the stages took."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import vyre_cuda as vc

from ..cached_kernels import Open

pytestmark = pytest.mark.device

X = np.arange(300, dtype=np.float32)


def scaled(factor: float, name: str = "scaled") -> vc.Program:
    b = vc.Builder(name)
    x = b.inout("x", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        x[i] = x[i] * factor
    return b.build()


def test_kernels_come_in_the_order_of_their_programs(device: vc.Device) -> None:
    kernels = device.warmup(scaled(factor) for factor in range(20))

    for factor, kernel in enumerate(kernels):
        np.testing.assert_array_equal(kernel(X), X * factor)


def test_what_is_warm_is_found_by_compile(opened: Open) -> None:
    device = opened()
    (kernel,) = device.warmup([scaled(5)], precision="ftz", block=64)
    misses = device.stats().kernel_cache_misses

    assert device.compile(scaled(5), precision="ftz", block=64) is kernel
    assert device.stats().kernel_cache_misses == misses
    assert kernel.program.block == (64, 1, 1)


def test_nothing_to_warm(device: vc.Device) -> None:
    assert device.warmup([]) == []


def test_a_program_that_cannot_be_compiled_is_an_error_when_the_others_are_done(opened: Open) -> None:
    device = opened()

    with pytest.raises(TypeError, match="compile takes a Program, not a str"):
        device.warmup([scaled(2), "scaled", scaled(3)])  # type: ignore[list-item]
    hits = device.stats().kernel_cache_hits
    device.compile(scaled(2))
    device.compile(scaled(3))
    assert device.stats().kernel_cache_hits == hits + 2


def test_several_threads_warm_the_same_programs(opened: Open) -> None:
    device = opened()
    found: list[list[vc.Kernel]] = []
    threads = [
        threading.Thread(target=lambda: found.append(device.warmup([scaled(factor) for factor in range(6)])))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(kernels == found[0] for kernels in found)
    assert device.stats().compiles == 12  # with the entry for large launches


# ---- times ---------------------------------------------------------------------------------------------------------


def test_a_new_kernel_says_how_long_its_stages_took(opened: Open) -> None:
    device = opened()
    times = device.compile(scaled(7)).compile_times

    assert times.reading_ns == 0
    stages = (times.passes_ns, times.lowering_ns, times.linking_ns, times.loading_ns, times.writing_ns)
    assert min(stages) > 0
    assert times.total_ns == sum(stages)
    assert times.passes_ns + times.lowering_ns == device.stats().compile_ns_total


def test_a_kernel_from_the_disk_was_read_and_loaded(opened: Open) -> None:
    opened().compile(scaled(7))
    times = opened().compile(scaled(7)).compile_times

    assert times.reading_ns > 0
    assert times.loading_ns > 0
    assert times.total_ns == times.reading_ns + times.loading_ns


def test_a_kernel_without_a_disk_cache_was_not_linked(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", "off")
    times = opened().compile(scaled(7)).compile_times

    assert (times.reading_ns, times.linking_ns, times.writing_ns) == (0, 0, 0)
    assert min(times.passes_ns, times.lowering_ns, times.loading_ns) > 0
