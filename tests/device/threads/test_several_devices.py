"""Several devices in one process, each with its own memory and streams, from any threads."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from side_by_side import side_by_side

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

pytestmark = pytest.mark.emulator


def _scale() -> vc.Program:
    b = vc.Builder("scale")
    x = b.inout("x", vc.f32)
    a = b.scalar("a", vc.f32)
    with b.if_(vc.global_id.x < x.size):
        x[vc.global_id.x] = x[vc.global_id.x] * a
    return b.build()


@pytest.fixture
def two(emulator: Emulator) -> Iterator[tuple[vc.Device, vc.Device]]:
    emulator.set("device_count", 2)
    with vc.Device("emulator:0") as first, vc.Device("emulator:1") as second:
        yield first, second


def test_devices_are_listed_and_told_apart(two):
    first, second = two

    listed = [entry.ordinal for entry in vc.devices() if entry.kind == "emulator"]

    assert listed == [0, 1]
    assert (first.properties.ordinal, second.properties.ordinal) == (0, 1)
    assert first.properties.uuid != second.properties.uuid
    with vc.Device("emulator") as plain:
        assert plain.properties.uuid == first.properties.uuid


def test_each_device_has_its_own_memory(two):
    first, second = two
    kept = [device.array(np.full(1000, value, np.float32)) for device, value in ((first, 1), (second, 2))]
    used = second.memory_stats().live_bytes

    first.empty(100_000, vc.f32)

    assert second.memory_stats().live_bytes == used
    first.close()
    assert kept[1].numpy().tolist() == [2.0] * 1000


def test_threads_use_two_devices_side_by_side(two):
    program, results = _scale(), {}

    def work(number: int) -> None:
        device = two[number % 2]
        kernel = device.compile(program)
        x = device.array(np.arange(1000, dtype=np.float32))
        for _ in range(10):
            kernel.launch(x, 2.0)
            kernel(np.ones(10, np.float32), 3.0)
        results[number] = x.numpy()

    side_by_side([partial(work, number) for number in range(6)])

    expected = np.arange(1000, dtype=np.float32) * 1024
    assert sorted(results) == list(range(6))
    for result in results.values():
        assert np.array_equal(result, expected)


def test_waits_across_devices_are_refused_with_what_orders_them(two):
    first, second = two
    stream, event = first.stream(), second.stream().record()
    worker = second.worker([_scale()], idle=0.01)

    with pytest.raises(ValueError, match="the event and the stream belong to different devices: wait for"):
        stream.wait(event)
    with pytest.raises(ValueError, match="the worker and the stream belong to different devices: give"):
        stream.wait(worker)
    with pytest.raises(ValueError, match="the two events belong to different devices: measure between"):
        event.elapsed_ms(stream.record())
    worker.close()


def test_errors_of_a_closed_device_name_it(two):
    first, second = two
    x = second.zeros(4, vc.f32)
    kernel = second.compile(_scale())
    second.close()

    for use in (
        x.numpy,
        lambda: kernel.launch(x, 1.0),
        second.synchronize,
        second.stream,
        lambda: second.zeros(4, vc.f32),
    ):
        with pytest.raises(vc.DeviceUnavailableError, match="device 1 is closed: open it again"):
            use()
    assert first.zeros(2, vc.f32).numpy().tolist() == [0.0] * 2


def test_a_lost_device_leaves_the_other_one(two):
    second, first = two
    b = vc.Builder("astray")
    x = b.inout("x", vc.u32)
    i = b.let("i", vc.global_id.x)
    x[i + 0x3FFFFFF0] = 1
    astray = first.compile(b.build(), bounds="off")
    with pytest.raises(vc.DeviceLostError, match="device 1 is lost: "):
        astray(np.zeros(4, np.uint32))

    result = second.run(_scale(), np.ones(4, np.float32), 2.0)

    assert result.tolist() == [2.0] * 4


@pytest.mark.thin
@pytest.mark.parametrize(
    ("count", "code", "words"),
    [
        ("2", 'vc.Device("emulator:2")', "no device emulator:2: this process has 2 emulated devices; start it with"),
        (
            "",
            'vc.Device("emulator:1")',
            "this process has 1 emulated device; start it with VYRE_CUDA_EMULATOR_DEVICES=2",
        ),
        ("9", 'vc.Device("emulator")', "VYRE_CUDA_EMULATOR_DEVICES='9'; it must be a number from 1 to 8"),
        ("two", "vc.devices()", "VYRE_CUDA_EMULATOR_DEVICES='two'; it must be a number from 1 to 8"),
        ("8", 'vc.Device("emulator:x")', "device 'emulator:x'; it must be an ordinal"),
    ],
)
def test_the_number_of_emulated_devices_comes_from_the_environment(count, code, words):
    program = f"""
    import vyre_cuda as vc
    try:
        {code}
    except (vc.DeviceUnavailableError, ValueError) as error:
        print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=os.environ | {"VYRE_CUDA_EMULATOR_DEVICES": count},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert words in done.stdout
